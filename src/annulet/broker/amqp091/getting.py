"""``basic.get`` of AMQP 0-9-1: one message, or the word that there is none.

The answer waits where a deep grouped queue is still being looked through (:mod:`annulet.core.queue.pull_waits`).
Further gets of the channel wait behind it, so answers come in the order of the questions; other methods are served
meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.broker.amqp091.channel import delivered_header
from annulet.broker.amqp091.foreign import as_amqp091
from annulet.broker.amqp091.publishing import destination_of
from annulet.broker.amqp091.reply_codes import translated
from annulet.broker.connections.client_session import give_up
from annulet.core.queue.pull_waits import PullWaiter
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError

if TYPE_CHECKING:
    from annulet.broker.amqp091.channel import Channel
    from annulet.core.queue.queue import Queue

GET_CLASS_AND_METHOD: Final = (60, 70)
"""Numbers of basic.get, for the error that ends its channel."""


LIMIT_GETS: Final = "gets_waiting_max"

GETS_WAITING_MAX: Final = 1024
"""Gets of a channel that wait for their answers: clients send one and wait; each takes some 200 bytes."""


def get(channel: Channel, queue: Queue, *, no_ack: bool) -> None:
    """Answer with the next message or with get-empty, now or when all before the question was looked through.

    Raises :class:`ChannelError` 406 when too many wait already.
    """
    upto, now = queue.next_sequence, channel.connection.now
    if not channel.gets and send_next(channel, queue, now, no_ack=no_ack):
        return
    waiting = WaitingGet(channel, queue, upto, no_ack=no_ack)
    if not channel.gets and waiting.is_vain(now):
        return
    if len(channel.gets) >= GETS_WAITING_MAX:
        hits = channel.engine.limit_hits
        hits[LIMIT_GETS] = hits.get(LIMIT_GETS, 0) + 1
        raise ChannelError(
            constants.PRECONDITION_FAILED,
            f"{GETS_WAITING_MAX} basic.get of this channel wait for their answers; wait for these before sending more",
        )
    channel.gets.append(waiting)
    channel.client.notices.hold()


class WaitingGet(PullWaiter):
    """One basic.get and its queue. ``upto``: later arrivals came after the request."""

    def __init__(self, channel: Channel, queue: Queue, upto: int, *, no_ack: bool) -> None:
        self._channel = channel
        self._queue = queue
        self._no_ack = no_ack
        self._upto = upto

    def look_again(self) -> None:
        """Pull again when the queue's turn is over."""
        self._channel.connection.broker.loop.call_soon(go_on, self._channel)

    def withdraw(self) -> None:
        """The channel has ended: nothing is to be answered any more."""
        self._queue.stop_awaiting(self)
        self._channel.client.notices.release()

    def answer(self, now: int) -> bool:
        """Answer the client; False while it has to wait. Raises what :func:`send_next` raises."""
        return send_next(self._channel, self._queue, now, no_ack=self._no_ack) or self.is_vain(now)

    def is_vain(self, now: int) -> bool:
        """Answer that there is no message; False while one that is still to be looked at may be there."""
        if self._queue.await_pull(self, self._upto, now):
            return False
        self._channel.engine.replies.send_get_empty(self._channel.number)
        return True


def send_next(channel: Channel, queue: Queue, now: int, *, no_ack: bool) -> bool:
    """Answer with the next message. False when the pull brings none.

    A message that the connection cannot carry closes the channel, and stays. A message that cannot be converted to AMQP
    0-9-1 goes to the queue's dead-letter target if there is one, and the next is taken.
    """
    while True:
        taken = channel.get(queue, now, auto_acknowledge=False)
        if taken is None:
            return False
        entry, tag = taken
        message = as_amqp091(channel.converted, entry.message)
        if message is not None:
            break
        del channel.unacknowledged[tag]
        if not give_up(entry, None, now):
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"message {entry.sequence} of queue '{queue.name}' cannot be converted to AMQP 0-9-1; get it "
                f"by the protocol it came with, {entry.message.origin.view.name}",
            )
    header = channel.fitting_header(delivered_header(entry, message), message.header)
    if header is None:
        channel.connection.broker.deliveries_too_large += 1
        del channel.unacknowledged[tag]
        queue.return_entries([entry], now, counted=False)
        raise ChannelError(constants.CONTENT_TOO_LARGE, channel.too_large(entry))
    if no_ack:
        channel.acknowledge(tag, now)
    channel.engine.output.send_get_ok(
        channel.number,
        tag,
        entry.redelivered,
        message.origin.encoded or destination_of(message.origin),
        queue.shown_count(),
        header,
        message.body,
    )
    return True


def go_on(channel: Channel) -> None:
    """Answer the gets that wait, in their order, until one has to wait on."""
    if channel.closed:
        return
    now = channel.connection.broker.clock()
    while channel.gets:
        try:
            with translated():
                answered = channel.gets[0].answer(now)
        except ChannelError as error:
            channel.client.fail_channel(channel.number, error.code, error.text, *GET_CLASS_AND_METHOD)
            return
        if not answered:
            break
        channel.gets.popleft()
        channel.client.notices.release()
    channel.connection.mark_dirty()
