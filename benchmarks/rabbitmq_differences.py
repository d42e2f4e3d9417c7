"""Gives the same inputs to RabbitMQ and to Annulet, and compares what each does.

``python -m benchmarks.rabbitmq_differences`` prints a table; ``--page`` writes it into the page of the documentation.
Needs Debian's rabbitmq-server, which runs apart from any other, on free loopback ports.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties

from benchmarks.brokers import Annulet, RabbitMQ

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "coming-from-rabbitmq.md"
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"

SETTLE_SECONDS: Final = 0.4
"""For what a broker does by itself, such as expiry: both do it within 50 ms."""

Probe = Callable[["Broker"], str]


class Broker:
    """One broker, as the probes use it: each has a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.names = 0
        self._open: list[pika.BlockingConnection] = []

    def connect(self) -> pika.BlockingConnection:
        """Return a new connection."""
        url = f"amqp://guest:guest@127.0.0.1:{self.port}/?heartbeat=0"
        connection = pika.BlockingConnection(pika.URLParameters(url))
        self._open.append(connection)
        return connection

    def channel(self) -> BlockingChannel:
        """Return a channel of a connection of its own."""
        return self.connect().channel()

    def name(self) -> str:
        """Return a name that no other probe uses."""
        self.names += 1
        return f"probe-{self.names}"

    def close(self) -> None:
        """Close the connections of a probe."""
        for connection in self._open:
            if connection.is_open:
                connection.close()
        self._open.clear()


def _outcome(act: Callable[[], object]) -> str:
    """Do something and return its reply code, or "accepted"."""
    try:
        act()
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        level = "channel" if isinstance(error, pika.exceptions.ChannelClosedByBroker) else "connection"
        return f"{level} error {error.reply_code}"
    except pika.exceptions.NackError:
        return "nack"
    except pika.exceptions.UnroutableError:
        return "returned"
    return "accepted"


def _declared(**arguments: Any) -> Probe:
    """Return the probe of a queue with these arguments."""
    given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}

    def probe(broker: Broker) -> str:
        channel = broker.channel()
        return _outcome(lambda: channel.queue_declare(broker.name(), durable=True, arguments=given))

    return probe


def _exchange_of(type_name: str) -> Probe:
    def probe(broker: Broker) -> str:
        return _outcome(lambda: broker.channel().exchange_declare(broker.name(), type_name))

    return probe


def _queue_of(broker: Broker, channel: BlockingChannel, **arguments: Any) -> str:
    name = broker.name()
    channel.queue_declare(name, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    return name


def _fill(channel: BlockingChannel, name: str, *bodies: str, **properties: Any) -> None:
    for body in bodies:
        channel.basic_publish("", name, body.encode(), BasicProperties(**properties))


def _bodies(channel: BlockingChannel, name: str) -> str:
    """Take everything that waits, and return the bodies."""
    time.sleep(SETTLE_SECONDS)
    found = []
    while (got := channel.basic_get(name, auto_ack=True))[0] is not None:
        found.append(got[2].decode())
    return " ".join(found) or "none"


def _count(channel: BlockingChannel, name: str) -> str:
    time.sleep(SETTLE_SECONDS)
    return str(channel.queue_declare(name, passive=True).method.message_count)


# ---------------------------------------------------------------------- probes


def _expired_behind_another(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "stays")
    _fill(channel, name, "expires", expiration="1")
    return f"{_count(channel, name)} messages"


def _overflow_of_delivered(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel, max_length=2)
    _fill(channel, name, "a", "b")
    channel.basic_get(name)
    _fill(channel, name, "c", "d")
    return f"keeps {_bodies(channel, name)} beside one in delivery"


def _rejected_publish(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel, max_length=1, overflow="reject-publish")
    channel.confirm_delivery()
    channel.basic_publish("", name, b"a")
    return _outcome(lambda: channel.basic_publish("", name, b"b"))


def _zero_length(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel, max_length=0)
    _fill(channel, name, "a")
    return f"{_count(channel, name)} messages"


def _place_of_returned(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "a", "b", "c")
    method = channel.basic_get(name)[0]
    channel.basic_nack(method.delivery_tag, requeue=True)
    return _bodies(channel, name)


def _order_of_priorities(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel, max_priority=3)
    for priority in (1, 3, 2, 9):
        _fill(channel, name, str(priority), priority=priority)
    return _bodies(channel, name)


def _delivery_count(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "a")
    channel.basic_nack(channel.basic_get(name)[0].delivery_tag, requeue=True)
    time.sleep(SETTLE_SECONDS)
    headers = channel.basic_get(name)[1].headers or {}
    return f"headers {sorted(headers) or 'none'}"


def _dead_letter(broker: Broker, **arguments: Any) -> BasicProperties:
    channel = broker.channel()
    dead = _queue_of(broker, channel)
    name = _queue_of(broker, channel, dead_letter_exchange="", dead_letter_routing_key=dead, **arguments)
    _fill(channel, name, "a")
    channel.basic_nack(channel.basic_get(name)[0].delivery_tag, requeue=False)
    time.sleep(SETTLE_SECONDS)
    properties: BasicProperties = channel.basic_get(dead)[1]
    return properties


def _death_headers(broker: Broker) -> str:
    return " ".join(sorted(_dead_letter(broker).headers or {}))


def _death_entry(broker: Broker) -> str:
    return " ".join(sorted((_dead_letter(broker).headers or {})["x-death"][0]))


def _cycle_of_dead_letters(broker: Broker) -> str:
    channel = broker.channel()
    first, second = broker.name(), broker.name()
    for name, other in ((first, second), (second, first)):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other, "x-message-ttl": 30}
        channel.queue_declare(name, arguments=arguments)
    _fill(channel, first, "a")
    time.sleep(SETTLE_SECONDS)
    counts = [channel.queue_declare(name, passive=True).method.message_count for name in (first, second)]
    return f"{sum(counts)} messages left"


def _immediate(broker: Broker) -> str:
    channel = broker.channel()
    method = pika.spec.Basic.Publish(exchange="", routing_key="nowhere", immediate=True)
    channel.connection._impl._send_message(1, method, (BasicProperties(), b"a"))
    return _outcome(lambda: channel.queue_declare(broker.name()))


def _mandatory(broker: Broker) -> str:
    channel = broker.channel()
    channel.confirm_delivery()
    return _outcome(lambda: channel.basic_publish("", "nowhere", b"a", mandatory=True))


def _missing_exchange(broker: Broker) -> str:
    channel = broker.channel()
    channel.confirm_delivery()
    return _outcome(lambda: channel.basic_publish("nowhere", "a", b"a"))


def _wrong_expiration(broker: Broker) -> str:
    channel = broker.channel()
    channel.confirm_delivery()
    name = _queue_of(broker, channel)
    return _outcome(lambda: channel.basic_publish("", name, b"a", BasicProperties(expiration="soon")))


def _other_user(broker: Broker) -> str:
    channel = broker.channel()
    channel.confirm_delivery()
    name = _queue_of(broker, channel)
    return _outcome(lambda: channel.basic_publish("", name, b"a", BasicProperties(user_id="somebody")))


def _reserved_name(broker: Broker) -> str:
    return _outcome(lambda: broker.channel().queue_declare("amq.mine"))


def _other_owner(broker: Broker) -> str:
    name = broker.name()
    broker.channel().queue_declare(name, exclusive=True)
    return _outcome(lambda: broker.channel().queue_declare(name, passive=True))


def _other_properties(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    return _outcome(lambda: channel.queue_declare(name, durable=True))


def _missing_queue(broker: Broker) -> str:
    return _outcome(lambda: broker.channel().queue_delete("nowhere"))


def _missing_passive(broker: Broker) -> str:
    return _outcome(lambda: broker.channel().queue_declare("nowhere", passive=True))


def _missing_binding(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    return _outcome(lambda: channel.queue_unbind(name, "amq.direct", "nothing"))


def _confirm_and_transaction(broker: Broker) -> str:
    channel = broker.channel()
    channel.tx_select()
    return _outcome(channel.confirm_delivery)


def _prefetch_size(broker: Broker) -> str:
    return _outcome(lambda: broker.channel().basic_qos(prefetch_size=1000))


def _recover_without_requeue(broker: Broker) -> str:
    return _outcome(lambda: broker.channel().basic_recover(requeue=False))


def _second_exclusive_consumer(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    channel.basic_consume(name, lambda *_: None, exclusive=True)
    return _outcome(lambda: channel.basic_consume(name, lambda *_: None))


def _priority_without_levels(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "low", priority=1)
    _fill(channel, name, "high", priority=9)
    return _bodies(channel, name)


def _deleted_with_consumer(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    told: list[object] = []
    channel.add_on_cancel_callback(told.append)
    channel.basic_consume(name, lambda *_: None)
    broker.channel().queue_delete(name)
    channel.connection.process_data_events(SETTLE_SECONDS)
    return "basic.cancel" if told else "nothing"


def _purge_with_delivery(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "a", "b", "c")
    channel.basic_get(name)
    time.sleep(SETTLE_SECONDS)
    return f"{channel.queue_purge(name).method.message_count} messages"


def _tuned(broker: Broker) -> str:
    parameters = broker.connect()._impl.params
    return f"channel_max {parameters.channel_max}, frame_max {parameters.frame_max}"


def _offered_heartbeat(broker: Broker) -> str:
    offered: list[int] = []

    def note(_connection: object, value: int) -> int:
        offered.append(value)
        return value

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=note))
    connection.close()
    return f"{offered[0]} seconds"


def _capabilities(broker: Broker) -> str:
    properties = broker.connect()._impl.server_properties
    return " ".join(sorted(properties["capabilities"]))


def _negative_acknowledgement_twice(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    _fill(channel, name, "a")
    tag = channel.basic_get(name)[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    return _outcome(lambda: channel.queue_declare(name, passive=True))


def _bind_to_default(broker: Broker) -> str:
    channel = broker.channel()
    name = _queue_of(broker, channel)
    return _outcome(lambda: channel.queue_bind(name, "", "key"))


PROBES: Final[dict[str, Probe]] = {
    "queue with `x-unknown`": _declared(unknown=1),
    "`x-queue-type` `quorum`": _declared(queue_type="quorum"),
    "`x-queue-type` `stream`": _declared(queue_type="stream"),
    "`x-queue-type` `nix`": _declared(queue_type="nix"),
    "`x-queue-mode` `lazy`": _declared(queue_mode="lazy"),
    "`x-max-priority` 255": _declared(max_priority=255),
    "`x-max-priority` 256": _declared(max_priority=256),
    "`x-max-priority` 0": _declared(max_priority=0),
    "`x-message-ttl` -1": _declared(message_ttl=-1),
    '`x-message-ttl` "60000", a text': _declared(message_ttl="60000"),
    "`x-expires` 0": _declared(expires=0),
    "`x-max-length` -1": _declared(max_length=-1),
    "`x-overflow` `reject-publish-dlx`": _declared(overflow="reject-publish-dlx"),
    "`x-overflow` `nix`": _declared(overflow="nix"),
    "`x-dead-letter-routing-key` without exchange": _declared(dead_letter_routing_key="a"),
    "`x-single-active-consumer`": _declared(single_active_consumer=True),
    "`x-delivery-limit` 3 on a classic queue": _declared(delivery_limit=3),
    "`x-ring-size` 3": _declared(ring_size=3),
    "exchange type `x-delayed-message`": _exchange_of("x-delayed-message"),
    "exchange type `x-consistent-hash`": _exchange_of("x-consistent-hash"),
    "exchange type `nix`": _exchange_of("nix"),
    "queue name `amq.mine`": _reserved_name,
    "same queue, other properties": _other_properties,
    "exclusive queue of another connection": _other_owner,
    "delete a missing queue": _missing_queue,
    "passive declaration of a missing queue": _missing_passive,
    "unbind a missing binding": _missing_binding,
    "bind to the default exchange": _bind_to_default,
    "publish to a missing exchange, with confirms": _missing_exchange,
    "`mandatory` without a queue, with confirms": _mandatory,
    "`immediate`": _immediate,
    "`expiration` `soon`": _wrong_expiration,
    "`user_id` of another user": _other_user,
    "confirms on a transactional channel": _confirm_and_transaction,
    "`basic.qos` with `prefetch_size`": _prefetch_size,
    "`basic.recover` without requeue": _recover_without_requeue,
    "acknowledge twice": _negative_acknowledgement_twice,
    "second consumer beside an exclusive one": _second_exclusive_consumer,
    "queue deleted under a consumer": _deleted_with_consumer,
    "purge with one message in delivery, of three": _purge_with_delivery,
    "message expires behind one that does not": _expired_behind_another,
    "`x-max-length` 2, one delivered, two more come": _overflow_of_delivered,
    "`x-max-length` 0, one comes": _zero_length,
    "full queue with `reject-publish`": _rejected_publish,
    "first of a b c returned": _place_of_returned,
    "priorities 1 3 2 9 of 3 levels": _order_of_priorities,
    "priorities 1 9 without levels": _priority_without_levels,
    "headers after a return": _delivery_count,
    "headers of a dead letter": _death_headers,
    "members of its `x-death`": _death_entry,
    "expired messages of two queues that dead-letter to each other": _cycle_of_dead_letters,
    "negotiated limits": _tuned,
    "offered heartbeat": _offered_heartbeat,
    "capabilities": _capabilities,
}
"""What is tried, by the words of the page."""

TIMED: Final = frozenset(
    {
        "queue deleted under a consumer",
        "message expires behind one that does not",
        "expired messages of two queues that dead-letter to each other",
    }
)
"""Probes that wait for what a broker does by itself; a test on a busy machine leaves them out."""


def run_probes(port: int, left_out: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the outcome of each probe at the broker of a port."""
    found = {}
    broker = Broker(port)
    for name, probe in PROBES.items():
        if name in left_out:
            continue
        try:
            found[name] = probe(broker)
        except (pika.exceptions.AMQPError, AttributeError, IndexError, KeyError, TypeError) as error:
            found[name] = f"failed: {type(error).__name__}"
        broker.close()
    return found


def table(theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Return the page's part: differences, then what is the same."""
    lines = ["| input | RabbitMQ 3.10 | Annulet |", "| --- | --- | --- |"]
    lines += [f"| {name} | {theirs[name]} | {ours[name]} |" for name in PROBES if theirs[name] != ours[name]]
    same = [f"{name}: {ours[name]}" for name in PROBES if theirs[name] == ours[name]]
    head = f"The same in both, {len(same)} of {len(PROBES)}:"
    return "\n".join([*lines, "", head, "", *(f"- {each}" for each in same)])


@click.command()
@click.option("--page", is_flag=True, help="Write the table into the page.")
def main(*, page: bool) -> None:
    """Compare both brokers."""
    theirs, ours = RabbitMQ(), Annulet("Annulet", pure=True)
    for broker in (theirs, ours):
        if broker.missing():
            raise click.ClickException(broker.missing())
    with theirs.running() as running:
        rabbitmq = run_probes(running.port)
    with ours.running() as running:
        annulet = run_probes(running.port)
    text = table(rabbitmq, annulet)
    click.echo(text)
    if page:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
