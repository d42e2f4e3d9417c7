"""Publishes over AMQP 0-9-1 with publisher confirms: many messages on the way, every one confirmed before it counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import pika
from pika.exceptions import AMQPError

from annulet.demo.topology import EXCHANGE

if TYPE_CHECKING:
    from pika.channel import Channel
    from pika.frame import Method

    from annulet.demo.flights import Departure

WINDOW: Final = 2000
"""Messages sent and not yet confirmed: enough to keep the broker's group commit busy, under a megabyte in flight."""

SILENCE_SECONDS: Final = 60.0
"""Longest silence of confirms while messages are in transit; a busy disk takes a second or two."""

LOOK_SECONDS: Final = 0.2
"""Interval at which the publisher checks whether it was asked to stop."""

PERSISTENT: Final = 2


class PublishError(RuntimeError):
    """The broker refused, returned or did not confirm a message; the text has the message and the reason."""


class PublishStopped(Exception):
    """The publisher was asked to stop before the last message was confirmed."""


class Publisher:
    """One run over one connection, single-threaded: :meth:`run` may be called once, in any thread."""

    def __init__(
        self,
        parameters: pika.ConnectionParameters,
        departures: Iterable[Departure],
        *,
        stop: Event,
        on_confirmed: Callable[[int], None],
        window: int = WINDOW,
    ) -> None:
        self.published = 0
        self.confirmed = 0
        self._departures = iter(departures)
        self._exhausted = False
        self._stop = stop
        self._on_confirmed = on_confirmed
        self._window = window
        self._error: Exception | None = None
        self._confirmed_at = time.monotonic()
        self._ahead: set[int] = set()  # confirmed singly before an earlier one was
        self._channel: Channel | None = None
        self._finished = False
        self._parameters = parameters
        self._connection: pika.SelectConnection | None = None

    def run(self) -> int:
        """Publish everything and return how many messages were confirmed.

        Raises :class:`PublishError`, and :class:`PublishStopped` when the stop event was set. Messages in transit at
        that moment may or may not have reached their queues, as with any lost connection.
        """
        connection = pika.SelectConnection(
            self._parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._channel_open),
            on_open_error_callback=lambda _, error: self._fail(
                PublishError(f"cannot connect to the broker: {error!r}")
            ),
            on_close_callback=self._connection_closed,
        )
        self._connection = connection
        try:
            connection.ioloop.call_later(LOOK_SECONDS, self._look)
            connection.ioloop.start()
        finally:
            connection.ioloop.close()
        if self._error is not None:
            raise self._error
        return self.confirmed

    def _channel_open(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, reason: self._fail(PublishError(f"the channel was closed: {reason}")))
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._answered, callback=lambda _: self._fill())

    def _fill(self) -> None:
        """Send until the window is full."""
        channel = self._channel
        if channel is None or self._error is not None or self._finished:
            return
        while self.published - self.confirmed < self._window:
            departure = next(self._departures, None)
            if departure is None:
                self._exhausted = True
                break
            properties = pika.BasicProperties(
                content_type="application/json",
                delivery_mode=PERSISTENT,
                priority=departure.priority,
                message_id=str(departure.row),
                headers=departure.headers,
            )
            channel.basic_publish(EXCHANGE, departure.routing_key, departure.body, properties, mandatory=True)
            self.published += 1
        if self._exhausted and self.confirmed == self.published:
            self._finish()

    def _answered(self, frame: Method[Any]) -> None:
        """Take a confirm. One with ``multiple`` covers everything up to its tag (AMQP 0-9-1 extension confirm)."""
        answer = frame.method
        if isinstance(answer, pika.spec.Basic.Nack):
            self._fail(PublishError(f"the broker refused message {answer.delivery_tag}; its log says why"))
            return
        before = self.confirmed
        if answer.multiple:
            self.confirmed = max(self.confirmed, answer.delivery_tag)
            self._ahead = {tag for tag in self._ahead if tag > self.confirmed}
        else:
            self._ahead.add(answer.delivery_tag)
        while self.confirmed + 1 in self._ahead:
            self.confirmed += 1
            self._ahead.remove(self.confirmed)
        self._confirmed_at = time.monotonic()
        self._on_confirmed(self.confirmed - before)
        if self.published - self.confirmed <= self._window // 2:
            self._fill()

    def _returned(self, _channel: Channel, method: Any, properties: pika.BasicProperties, _body: bytes) -> None:
        self._fail(
            PublishError(
                f"message {properties.message_id} was returned: {method.reply_text}; "
                f"no queue is bound to {method.exchange!r} with key {method.routing_key!r}"
            )
        )

    def _look(self) -> None:
        """Notice a request to stop, and a broker that has gone silent."""
        if self._finished or self._error is not None:
            return
        if self._stop.is_set():
            self._fail(PublishStopped(f"stopped after {self.confirmed} confirmed messages"))
            return
        if self.published > self.confirmed and time.monotonic() - self._confirmed_at > SILENCE_SECONDS:
            self._fail(PublishError(f"no confirm for {SILENCE_SECONDS:.0f} seconds; is the broker out of disk?"))
            return
        if self._connection is not None:
            self._connection.ioloop.call_later(LOOK_SECONDS, self._look)

    def _fail(self, error: Exception) -> None:
        if self._error is None and not self._finished:
            self._error = error
            self._close()

    def _finish(self) -> None:
        self._finished = True
        self._close()

    def _close(self) -> None:
        if self._connection is None:
            return
        if self._connection.is_open:
            self._connection.close()
        else:
            self._connection.ioloop.stop()

    def _connection_closed(self, connection: pika.SelectConnection, reason: Exception) -> None:
        if not self._finished and self._error is None:
            self._error = PublishError(f"the connection was lost after {self.confirmed} confirmed messages: {reason}")
        connection.ioloop.stop()


def publish(
    parameters: pika.ConnectionParameters,
    departures: Iterable[Departure],
    *,
    stop: Event,
    on_confirmed: Callable[[int], None],
    window: int = WINDOW,
) -> int:
    """Publish all departures to the exchange and return how many were confirmed; see :meth:`Publisher.run`.

    ``on_confirmed`` is called with the number of newly confirmed messages, ``window`` bounds those in transit.
    """
    try:
        return Publisher(parameters, departures, stop=stop, on_confirmed=on_confirmed, window=window).run()
    except AMQPError as error:
        raise PublishError(f"the broker ended the connection: {error!r}") from error
