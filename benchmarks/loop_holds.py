"""How long one input of a client holds the broker's event loop: settlements, commits, purges and fan-outs of very many.

``python -m benchmarks.loop_holds [NAME ...]`` starts a broker in a process of its own, sends it each input over a
socket, and prints the longest turn of the loop that followed, in milliseconds of the loop thread's processor time: what
other programs of the machine do meanwhile does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
from pamqp import commands

from annulet.wire.amqp10.frames.frames import FRAME_AMQP, encode_frame
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow, Transfer
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Declare,
    Discharge,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.frames.performatives import Attach, Detach, End, encode_performative
from annulet.wire.amqp10.frames.terminus import Coordinator, Source
from annulet.wire.amqp10.messages.sections import VALUE, encode_section
from benchmarks.loop_clients import (
    Client,
    Server,
    amqp091,
    consumer,
    encoded,
    methods,
    publish,
    receiver,
    started,
    stomp,
    stomp_frame,
    subscriber,
)

Input = Callable[[Server], Iterator[None]]
INPUTS: dict[str, tuple[Callable[[Server], Any], bool]] = {}


def measured(name: str, *, disk: bool = False) -> Callable[[Callable[[Server], Any]], Callable[[Server], Any]]:
    """Register an input: what is before its first ``yield`` is not measured."""

    def register(function: Callable[[Server], Any]) -> Callable[[Server], Any]:
        INPUTS[name] = function, disk
        return function

    return register


def settling_091(name: str, method: Any, count: int, **wanted: int) -> None:
    """Register a settlement of many deliveries at once."""

    def run(server: Server) -> Iterator[None]:
        client = consumer(server, count)
        yield
        client.send(methods(method))
        server.until("q", **wanted)

    measured(name)(run)
    measured(f"{name}, disk", disk=True)(run)


settling_091("ack multiple 200,000", commands.Basic.Ack(0, multiple=True), 200_000, delivering=0, pending=0)
settling_091(
    "nack multiple, dropped, 100,000", commands.Basic.Nack(0, multiple=True, requeue=False), 100_000, delivering=0
)


@measured("nack multiple, requeue, 100,000")
def requeue_many(server: Server) -> Iterator[None]:
    """The deliveries come back to the same consumer."""
    client = consumer(server, 100_000)
    client.send(methods(commands.Basic.Cancel("c")))
    client.quiet()
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
    server.until("q", pending=100_000, delivering=0)


@measured("nack multiple to dead letters, 100,000")
def dead_letters(server: Server) -> Iterator[None]:
    """Each is sent on."""
    amqp091(server, commands.Queue.Declare(queue="dead", durable=True))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client = consumer(server, 100_000, arguments=arguments)
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=False)))
    server.until("dead", pending=100_000)


@measured("ack multiple, limited queue, 100,000")
def acknowledge_limited(server: Server) -> Iterator[None]:
    """Limits count the deliveries."""
    client = consumer(server, 100_000, arguments={"x-max-length": 1_000_000, "x-overflow": "reject-publish"})
    yield
    client.send(methods(commands.Basic.Ack(0, multiple=True)))
    server.until("q", delivering=0)


@measured("nack multiple, limited queue, 100,000")
def refuse_limited(server: Server) -> Iterator[None]:
    """Limits count the deliveries."""
    client = consumer(server, 100_000, arguments={"x-max-length": 1_000_000})
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=False)))
    server.until("q", delivering=0)


@measured("ack multiple after a get, 100,000")
def acknowledge_pulled(server: Server) -> Iterator[None]:
    """The channel has pulled once."""
    client = amqp091(server, commands.Queue.Declare(queue="q", durable=True))
    server.ask("fill", queue="q", count=100_000)
    client.send(methods(commands.Basic.Get(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="c")))
    server.until("q", pending=0, delivering=100_000)
    client.quiet()
    yield
    client.send(methods(commands.Basic.Ack(0, multiple=True)))
    server.until("q", delivering=0)


@measured("nack multiple requeue, grouped queue, 100,000")
def requeue_limited(server: Server) -> Iterator[None]:
    """A ring judges the returned ones together."""
    client = consumer(server, 100_000, arguments={"x-fair-key": "k"})
    client.send(methods(commands.Basic.Cancel("c")))
    client.quiet()
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
    server.until("q", pending=100_000)


def requeueing(name: str, arguments: dict[str, Any], *tags: str, cancels: bool = True, **wanted: int) -> None:
    """Register the return of 60,000 deliveries to a queue with a rule that looks at several, or at consumers."""

    def run(server: Server) -> Iterator[None]:
        client = amqp091(server, commands.Queue.Declare(queue="q", durable=True, arguments=arguments))
        client.send(methods(*[commands.Basic.Consume(queue="q", consumer_tag=tag) for tag in tags]))
        client.quiet()
        server.ask("fill", queue="q", count=60_000, key="k")
        server.until("q", delivering=60_000)
        client.send(methods(*[commands.Basic.Cancel(tag) for tag in tags if cancels]))
        client.quiet()
        yield
        client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
        client.quiet()
        server.until("q", **wanted)

    measured(name)(run)


requeueing("nack multiple requeue, gated, 60,000", {"x-consumers-before-dispatch": 2}, "c", "d", pending=60_000)
PURGED: Final = {"x-purge-on-no-consumers": True}
requeueing("nack multiple requeue, purged without consumers, 60,000", PURGED, "c", pending=0, delivering=0)
requeueing("nack multiple requeue, purged later, 60,000", PURGED, "c", cancels=False, pending=0, delivering=60_000)
KEPT_PLACES: Final = {"x-last-value-key": "k", "x-last-value-place": "keep-place"}
requeueing("nack multiple requeue, kept places, 60,000", KEPT_PLACES, "c", pending=60_000, delivering=0)


def holding_beside(server: Server, arguments: dict[str, Any]) -> Client:
    """Return a client without a consumer any more that holds 60,000 messages of a queue with 60,000 later ones."""
    client = consumer(server, 60_000, arguments=arguments)
    client.send(methods(commands.Basic.Cancel("c")))
    client.quiet()
    server.ask("fill", queue="q", count=60_000)
    return client


@measured("nack multiple requeue, full ring, 60,000")
def requeue_to_a_ring(server: Server) -> Iterator[None]:
    """The ring is full of later messages: all that come back are dropped."""
    client = holding_beside(server, {"x-ring-size": 60_000})
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
    server.until("q", pending=60_000, delivering=0)


@measured("channel close, full ring, 60,000")
def close_to_a_ring(server: Server) -> Iterator[None]:
    """The same, with the end of the channel."""
    client = holding_beside(server, {"x-ring-size": 60_000})
    yield
    client.send(methods(commands.Channel.Close(200, "", 0, 0)))
    server.until("q", pending=60_000, delivering=0)


@measured("nack multiple requeue, full limit, 60,000")
def requeue_to_a_limit(server: Server) -> Iterator[None]:
    """The queue is as long as it may be without what comes back."""
    client = holding_beside(server, {"x-max-length": 60_000, "x-overflow": "drop-head"})
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
    server.until("q", pending=60_000, delivering=0)


@measured("a get behind a nack multiple requeue, full ring, 60,000")
def get_from_a_ring(server: Server) -> Iterator[None]:
    """The pull waits for what comes back."""
    client = holding_beside(server, {"x-ring-size": 60_000})
    yield
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True), commands.Basic.Get(queue="q")))
    server.until("q", pending=60_000, delivering=1)


@measured("recover 100,000")
def recover(server: Server) -> Iterator[None]:
    """Without a consumer any more."""
    client = consumer(server, 100_000)
    client.send(methods(commands.Basic.Cancel("c")))
    client.quiet()
    yield
    client.send(methods(commands.Basic.Recover(requeue=True)))
    server.until("q", pending=100_000)


@measured("channel close with 200,000")
def close_channel(server: Server) -> Iterator[None]:
    """All go back."""
    client = consumer(server, 200_000)
    yield
    client.send(methods(commands.Channel.Close(200, "", 0, 0)))
    server.until("q", pending=200_000)


@measured("channel close after a get with 100,000")
def close_pulled(server: Server) -> Iterator[None]:
    """All go back."""
    client = amqp091(server, commands.Queue.Declare(queue="q", durable=True))
    server.ask("fill", queue="q", count=100_000)
    client.send(methods(commands.Basic.Get(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="c")))
    server.until("q", pending=0, delivering=100_000)
    client.quiet()
    yield
    client.send(methods(commands.Channel.Close(200, "", 0, 0)))
    server.until("q", pending=100_000)


def in_transaction(name: str, count: int, *inside: bytes, last: bytes, disk: bool, fills: int = 0) -> None:
    """Register the end of a transaction of 0-9-1."""

    def run(server: Server) -> Iterator[None]:
        client = consumer(server, fills) if fills else amqp091(server, commands.Queue.Declare(queue="q", durable=True))
        if fills:
            client.send(methods(commands.Basic.Cancel("c")))
        client.send(methods(commands.Tx.Select()))
        for part in inside:
            client.send(part * count if not fills else part)
        client.quiet()
        yield
        before = client.received
        client.send(last)
        while client.received == before:
            time.sleep(0.02)
        client.quiet()
        server.until("q")

    measured(name, disk=disk)(run)


COMMIT: Final = methods(commands.Tx.Commit())
ROLLBACK: Final = methods(commands.Tx.Rollback())
in_transaction("tx.commit of 99,000 publishes", 99_000, publish("q"), last=COMMIT, disk=False)
in_transaction("tx.commit of 99,000 publishes, disk", 99_000, publish("q"), last=COMMIT, disk=True)
in_transaction("tx.rollback of 99,000 publishes", 99_000, publish("q"), last=ROLLBACK, disk=False)
ACK_ALL: Final = methods(commands.Basic.Ack(0, multiple=True))
NACK_ALL: Final = methods(commands.Basic.Nack(0, multiple=True, requeue=False))
in_transaction("tx.commit of 99,000 acks", 1, ACK_ALL, last=COMMIT, disk=False, fills=99_000)
in_transaction("tx.commit of 99,000 acks, disk", 1, ACK_ALL, last=COMMIT, disk=True, fills=99_000)
in_transaction("tx.commit of 99,000 nacks", 1, NACK_ALL, last=COMMIT, disk=False, fills=99_000)
REQUEUE_ALL: Final = methods(commands.Basic.Nack(0, multiple=True, requeue=True))
in_transaction("tx.commit of 99,000 requeues", 1, REQUEUE_ALL, last=COMMIT, disk=False, fills=99_000)
in_transaction("tx.commit of 99,000 requeues, disk", 1, REQUEUE_ALL, last=COMMIT, disk=True, fills=99_000)
in_transaction("tx.rollback of 99,000 requeues", 1, REQUEUE_ALL, last=ROLLBACK, disk=False, fills=99_000)
in_transaction("tx.rollback of 200,000 acks", 1, ACK_ALL, last=ROLLBACK, disk=False, fills=200_000)


def enlisting(name: str, count: int, method: bytes, *, disk: bool = False) -> None:
    """Register a settlement inside a transaction, before its commit."""

    def run(server: Server) -> Iterator[None]:
        client = consumer(server, count)
        client.send(methods(commands.Tx.Select()))
        client.quiet()
        yield
        client.send(method)
        time.sleep(1)

    measured(name, disk=disk)(run)


enlisting("tx ack multiple of 200,000", 200_000, ACK_ALL)
enlisting("tx nack multiple of 99,000", 99_000, NACK_ALL)
enlisting("tx nack multiple of 99,000, disk", 99_000, NACK_ALL, disk=True)
enlisting("tx nack multiple requeue of 99,000", 99_000, REQUEUE_ALL)


@measured("channel close with a transaction of 99,000 requeues")
def close_in_transaction(server: Server) -> Iterator[None]:
    """All go back."""
    client = consumer(server, 99_000)
    client.send(methods(commands.Tx.Select()) + REQUEUE_ALL)
    client.quiet()
    yield
    client.send(methods(commands.Channel.Close(200, "", 0, 0)))
    server.until("q", pending=99_000, delivering=0)


@measured("publish to 15,000 queues")
def fan_out(server: Server) -> Iterator[None]:
    """One message."""
    server.ask("declare", count=15_000, exchange="amq.fanout")
    client = amqp091(server)
    yield
    client.send(publish("", "amq.fanout"))
    server.until("many14999", pending=1)


@measured("publish to 1,000 queues with dead letters to 1,000")
def fan_out_letters(server: Server) -> Iterator[None]:
    """Each of the first queues drops the message, and sends it on to all of the others."""
    server.ask("declare", count=1000, exchange="amq.topic")
    server.ask("declare", count=1000, exchange="amq.fanout", name="drop", length=0, letters="amq.topic")
    client = amqp091(server)
    yield
    client.send(publish("", "amq.fanout"))
    server.until("many999", pending=1000)


@measured("dead letter to 15,000 queues")
def wide_letter(server: Server) -> Iterator[None]:
    """One."""
    server.ask("declare", count=15_000, exchange="amq.topic")
    server.ask("declare", count=1, exchange="amq.fanout", name="drop", length=0, letters="amq.topic")
    client = amqp091(server)
    yield
    client.send(publish("", "amq.fanout"))
    server.until("many14999", pending=1)


@measured("publish to 15,000 topic bindings")
def fan_out_topic(server: Server) -> Iterator[None]:
    """The first message of a routing key."""
    server.ask("declare", count=15_000, exchange="amq.topic")
    client = amqp091(server)
    yield
    client.send(publish("", "amq.topic"))
    time.sleep(1)


def emptying(name: str, method: Any, count: int, *, disk: bool = False, **arguments: Any) -> None:
    """Register the purge or deletion of a queue."""

    def run(server: Server) -> Iterator[None]:
        client = amqp091(server, commands.Queue.Declare(queue="q", durable=True, arguments=arguments))
        server.ask("fill", queue="q", count=count)
        server.until("q", pending=count)
        yield
        client.send(methods(method))
        client.quiet()
        server.until("q")

    measured(name, disk=disk)(run)


emptying("purge of 1,000,000", commands.Queue.Purge(queue="q"), 1_000_000)
emptying("purge of 1,000,000, disk", commands.Queue.Purge(queue="q"), 1_000_000, disk=True)
emptying("delete of 1,000,000", commands.Queue.Delete(queue="q"), 1_000_000)
emptying("delete of 1,000,000, disk", commands.Queue.Delete(queue="q"), 1_000_000, disk=True)


def deleting(name: str, arguments: dict[str, Any] | None = None, *, disk: bool = False) -> None:
    """Register the deletion of a queue with deliveries of one consumer."""

    def run(server: Server) -> Iterator[None]:
        client = consumer(server, 200_000, arguments=arguments)
        yield
        client.send(methods(commands.Queue.Delete(queue="q")))
        client.quiet()
        server.until("q", pending=-1)

    measured(name, disk=disk)(run)


deleting("delete with 200,000 deliveries")
deleting("delete with 200,000 deliveries, disk", disk=True)
deleting("delete with 200,000 deliveries of a last-value queue", {"x-last-value-key": "k"})
deleting("delete with 200,000 deliveries of a fair queue", {"x-fair-key": "k"})


def deleting_settled(name: str, method: Any, count: int, arguments: dict[str, Any] | None = None) -> None:
    """Register a deletion directly behind the settlement of all deliveries."""

    def run(server: Server) -> Iterator[None]:
        amqp091(server, commands.Queue.Declare(queue="dead", durable=True)).close()
        client = consumer(server, count, arguments=arguments)
        yield
        client.send(methods(method, commands.Queue.Delete(queue="q")))
        client.quiet()
        server.until("q", pending=-1)

    measured(name)(run)
    measured(f"{name}, disk", disk=True)(run)


DEAD_LETTERS: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
deleting_settled("delete after ack multiple of 200,000", commands.Basic.Ack(0, multiple=True), 200_000)
DROP_ALL: Final = commands.Basic.Nack(0, multiple=True, requeue=False)
deleting_settled("delete after nack multiple of 60,000", DROP_ALL, 60_000)
deleting_settled("delete after nack to dead letters, 60,000", DROP_ALL, 60_000, DEAD_LETTERS)


def consumers_of_ten_channels(server: Server) -> Client:
    """Return a client with a thousand consumers of ``q`` on each of ten channels."""
    client = amqp091(server, commands.Queue.Declare(queue="q", durable=True))
    for channel in range(2, 12):
        client.send(methods(commands.Channel.Open(), channel=channel))
        for number in range(1000):
            client.send(
                methods(commands.Basic.Consume(queue="q", consumer_tag=f"{number}", nowait=True), channel=channel)
            )
    client.quiet()
    return client


@measured("delete with 10,000 consumers")
def delete_consumers(server: Server) -> Iterator[None]:
    """Of ten channels."""
    client = consumers_of_ten_channels(server)
    yield
    client.send(methods(commands.Queue.Delete(queue="q")))
    client.quiet()
    server.until("q", pending=-1)


@measured("connection end with 10,000 consumers")
def end_consumers(server: Server) -> Iterator[None]:
    """Of ten channels."""
    client = consumers_of_ten_channels(server)
    yield
    client.close()
    time.sleep(1)


@measured("expiry of 1,000,000")
def expiry(server: Server) -> Iterator[None]:
    """All in one millisecond."""
    amqp091(server, commands.Queue.Declare(queue="q", durable=True))
    server.ask("fill", queue="q", count=1_000_000, expires_at=int(time.time() * 1000) + 55_000)
    yield
    server.until("q", pending=0)


def fair_expiry(name: str, keys: int) -> None:
    """Register the expiry of 100,000 messages of a fair queue with so many keys."""

    def run(server: Server) -> Iterator[None]:
        amqp091(server, commands.Queue.Declare(queue="q", durable=True, arguments={"x-fair-key": "k"}))
        expires_at = int(time.time() * 1000) + 30_000
        for number in range(keys):
            properties = commands.Basic.Properties(headers={"k": number})
            server.ask(
                "fill", queue="q", count=100_000 // keys, headers=properties.marshal().hex(), expires_at=expires_at
            )
        yield
        server.until("q", pending=0)

    measured(name)(run)


fair_expiry("expiry of 100,000, one fair key", 1)
fair_expiry("expiry of 100,000, 1000 fair keys", 1000)


@measured("schedule of 100,000 due at once")
def schedule(server: Server) -> Iterator[None]:
    """By x-delay... of redelivery delays."""
    client = consumer(server, 100_000, arguments={"x-redelivery-delay": 2000})
    client.send(methods(commands.Basic.Cancel("c")))
    client.quiet()
    client.send(methods(commands.Basic.Nack(0, multiple=True, requeue=True)))
    server.until("q", delivering=0)
    yield
    server.until("q", pending=100_000)


def disposition(name: str, state: Any, count: int, **wanted: int) -> None:
    """Register a disposition of AMQP 1.0 over all deliveries."""

    def run(server: Server) -> Iterator[None]:
        client = receiver(server, count)
        yield
        client.send(encoded(Disposition(True, 0, count - 1, True, state)))
        server.until("q", **wanted)

    measured(name)(run)


disposition("1.0 accepted, 60,000", Accepted(), 60_000, pending=0, delivering=0)
disposition("1.0 rejected, 60,000", Rejected(), 60_000, pending=0, delivering=0)
disposition("1.0 released, 60,000", Released(), 60_000, pending=60_000)
disposition("1.0 modified, 60,000", Modified(delivery_failed=True), 60_000, pending=60_000)
disposition("1.0 undeliverable here, 60,000", Modified(True, True), 60_000, pending=60_000)
disposition("1.0 settled without an outcome, 60,000", None, 60_000, pending=60_000)


LINK: Final = 1
"""Handle of the coordinator link."""


def command_frame(number: int, command: Any) -> bytes:
    """Encode a message to the coordinator."""
    transfer = Transfer(LINK, delivery_id=number, delivery_tag=bytes([number]), message_format=0)
    return encode_frame(FRAME_AMQP, 0, encode_performative(transfer) + encode_section(VALUE, command))


IDENTIFIER: Final = (1).to_bytes(8, "big")
"""Of the first transaction of a session."""


def discharging(name: str, state: Any, count: int, *, enlists: bool = False, fail: bool = False, **wanted: int) -> None:
    """Register the discharge of a transaction of all deliveries; ``enlists``: the disposition before it."""

    def run(server: Server) -> Iterator[None]:
        client = receiver(server, count)
        client.send(encoded(Attach("t", LINK, False, source=Source(), target=Coordinator(), initial_delivery_count=0)))
        client.send(command_frame(0, Declare()))
        client.quiet()
        client.send(encoded(Flow(0, 1 << 30, 1, 1 << 30, handle=0, delivery_count=count, link_credit=0)))
        disposition = encoded(Disposition(True, 0, count - 1, True, TransactionalState(IDENTIFIER, state)))
        if not enlists:
            client.send(disposition)
            client.quiet()
        yield
        client.send(disposition if enlists else command_frame(1, Discharge(IDENTIFIER, fail)))
        client.quiet()
        server.until("q", **wanted)

    measured(name)(run)


discharging("1.0 accepted in a transaction, 60,000", Accepted(), 60_000, enlists=True, delivering=60_000)
discharging("1.0 rejected in a transaction, 60,000", Rejected(), 60_000, enlists=True, delivering=60_000)
discharging("1.0 released in a transaction, 60,000", Released(), 60_000, enlists=True, delivering=60_000)
discharging("1.0 discharge of 60,000 accepted", Accepted(), 60_000, delivering=0, pending=0)
discharging("1.0 discharge of 60,000 rejected", Rejected(), 60_000, delivering=0, pending=0)
discharging("1.0 discharge of 60,000 released", Released(), 60_000, delivering=0, pending=60_000)
discharging("1.0 discharge of 60,000 undeliverable", Modified(True, True), 60_000, delivering=0, pending=60_000)
discharging("1.0 rollback of 60,000 accepted", Accepted(), 60_000, fail=True)


@measured("1.0 detach with 60,000")
def detach(server: Server) -> Iterator[None]:
    """Closed."""
    client = receiver(server, 60_000)
    yield
    client.send(encoded(Detach(0, True)))
    server.until("q", pending=60_000)


@measured("1.0 end with 60,000")
def end_session(server: Server) -> Iterator[None]:
    """The session."""
    client = receiver(server, 60_000)
    yield
    client.send(encoded(End()))
    server.until("q", pending=60_000)


@measured("STOMP ACK of 50,000")
def stomp_acknowledge(server: Server) -> Iterator[None]:
    """Cumulative."""
    client, identifier = subscriber(server, 50_000)
    yield
    client.send(stomp_frame("ACK", **{"message-id": identifier, "subscription": "1"}))
    server.until("q", delivering=0)


@measured("STOMP NACK of 50,000")
def stomp_refuse(server: Server) -> Iterator[None]:
    """Cumulative, dropped."""
    client, identifier = subscriber(server, 50_000)
    yield
    client.send(stomp_frame("NACK", **{"message-id": identifier, "subscription": "1", "requeue": "false"}))
    server.until("q", delivering=0)


@measured("STOMP disconnect with 50,000")
def stomp_end(server: Server) -> Iterator[None]:
    """Without a frame."""
    client, _ = subscriber(server, 50_000)
    yield
    client.close()
    server.until("q", pending=50_000)


@measured("STOMP COMMIT of 50,000 SENDs")
def stomp_commit(server: Server) -> Iterator[None]:
    """To one queue."""
    amqp091(server, commands.Queue.Declare(queue="q", durable=True)).close()
    client = stomp(server, stomp_frame("BEGIN", transaction="t"))
    client.send(stomp_frame("SEND", "x", destination="/queue/q", transaction="t") * 50_000)
    client.quiet()
    yield
    client.send(stomp_frame("COMMIT", transaction="t"))
    server.until("q", pending=50_000)


def stomp_transaction(name: str, command: str, last: str, *, requeue: str = "", **wanted: int) -> None:
    """Register a cumulative settlement in a transaction, or the end of that transaction; ``last``: it is measured."""

    def run(server: Server) -> Iterator[None]:
        client, identifier = subscriber(server, 50_000)
        client.send(stomp_frame("BEGIN", transaction="t"))
        headers = {"message-id": identifier, "subscription": "1", "transaction": "t"}
        settlement = stomp_frame(command, **headers, **({"requeue": requeue} if requeue else {}))
        client.send(settlement if last else b"")
        client.quiet()
        yield
        client.send(stomp_frame(last, transaction="t", receipt="r") if last else settlement)
        client.quiet()
        server.until("q", **wanted)

    measured(name)(run)


stomp_transaction("STOMP ACK of 50,000 in a transaction", "ACK", "", delivering=50_000)
stomp_transaction("STOMP NACK of 50,000 in a transaction", "NACK", "", delivering=50_000)
stomp_transaction("STOMP COMMIT of 50,000 ACKs", "ACK", "COMMIT", delivering=0)
stomp_transaction("STOMP COMMIT of 50,000 NACKs", "NACK", "COMMIT")
stomp_transaction("STOMP COMMIT of 50,000 dropped", "NACK", "COMMIT", requeue="false", delivering=0)
stomp_transaction("STOMP ABORT of 50,000 ACKs", "ACK", "ABORT", delivering=50_000)
stomp_transaction("STOMP ABORT of 50,000 NACKs", "NACK", "ABORT", delivering=50_000)


@measured("cancel and close of 50,000 browsed copies")
def attach_browser(server: Server) -> Iterator[None]:
    """A browser that comes."""
    client = amqp091(server, commands.Queue.Declare(queue="q", durable=True))
    server.ask("fill", queue="q", count=200_000)
    yield
    client.send(
        methods(commands.Basic.Consume(queue="q", consumer_tag="c", no_ack=True, arguments={"x-browse": "snapshot"}))
    )
    client.quiet()


def measure(name: str) -> dict[str, Any]:
    """Return the longest turn of an input, and how many turns there were."""
    run, disk = INPUTS[name]
    with started(disk=disk) as server:
        steps = run(server)
        next(steps)
        server.ask("begin")
        for _ in steps:
            raise AssertionError("an input has one part before it and one behind")
        return server.ask("report")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--samples", is_flag=True, help="Say where the longest turn was.")
def main(names: tuple[str, ...], *, samples: bool) -> None:
    """Measure inputs whose names contain one of NAMES (all without)."""
    for name in INPUTS:
        if not names or any(part in name for part in names):
            try:
                found = measure(name)
            except TimeoutError as error:
                click.echo(f"{name:50} not measured: {error}")
                continue
            if samples:
                for place, count in found["where"]:
                    click.echo(f"    {count:4} {place}")
            click.echo(f"{name:50} {found['milliseconds']:8.1f} ms in the longest of {found['turns']} turns")


if __name__ == "__main__":
    main()
