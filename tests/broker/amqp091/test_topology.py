"""Declarations, bindings, consumers and get: rules and reply codes as RabbitMQ's, and the catalogue behind them."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, header
from pamqp.base import Frame

from annulet.broker.amqp091.topology import PurgeWaiter
from annulet.broker.broker import Broker
from annulet.store.files.errors import CatalogueError
from tests.broker.amqp091.peer import Peer, bodies, persistent, publish

BASIC, CHANNEL, EXCHANGE, QUEUE = commands.Basic, commands.Channel, commands.Exchange, commands.Queue


async def refused(peer: Peer, method: Frame) -> int:
    """Send a method on a fresh channel; return the code that closes it."""
    await peer.send(9, CHANNEL.Open())
    await peer.take()
    await peer.send(9, method)
    code = (await peer.one(CHANNEL.Close)).reply_code
    await peer.send(9, CHANNEL.CloseOk())
    return int(code)


def restrict(broker: Broker, monkeypatch: pytest.MonkeyPatch, *granted: tuple[str, str]) -> None:
    """Let users do only these (kind, name)."""
    monkeypatch.setattr(broker.authenticator, "allowed", lambda user, virtual_host, kind, name: (kind, name) in granted)


# ---------------------------------------------------------------------- permissions


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        (QUEUE.Declare(queue="new"), [("configure", "new")]),
        (QUEUE.Delete(queue="q"), [("configure", "q")]),
        (QUEUE.Purge(queue="q"), [("read", "q")]),
        (QUEUE.Bind(queue="q", exchange="e", routing_key="k"), [("write", "q"), ("read", "e")]),
        (QUEUE.Unbind(queue="q", exchange="e", routing_key="k"), [("write", "q"), ("read", "e")]),
        (EXCHANGE.Declare(exchange="new"), [("configure", "new")]),
        (
            EXCHANGE.Declare(exchange="new", arguments={"alternate-exchange": "f"}),
            [("configure", "new"), ("read", "new"), ("write", "f")],
        ),
        (EXCHANGE.Delete(exchange="e"), [("configure", "e")]),
        (EXCHANGE.Bind(destination="f", source="e", routing_key="k"), [("write", "f"), ("read", "e")]),
        (EXCHANGE.Unbind(destination="f", source="e", routing_key="k"), [("write", "f"), ("read", "e")]),
        (BASIC.Consume(queue="q"), [("read", "q")]),
        (BASIC.Get(queue="q"), [("read", "q")]),
    ],
    ids=lambda value: value.name if isinstance(value, Frame) else "",
)
async def test_each_method_needs_exactly_its_permissions(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, method: Frame, needed: list[tuple[str, str]]
) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), EXCHANGE.Declare(exchange="e"), EXCHANGE.Declare(exchange="f"))
    for left_out in needed:
        restrict(broker, monkeypatch, *(item for item in needed if item != left_out))
        assert await refused(peer, method) == 403
    restrict(broker, monkeypatch, *needed)
    await peer.send(1, method)
    assert CHANNEL.Close not in [type(item) for item in await peer.take()]


async def test_publishing_needs_write_on_the_exchange(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    restrict(broker, monkeypatch)
    await peer.send(1, publish(1, "q"))
    assert (await peer.one(CHANNEL.Close)).reply_code == 403


async def test_passive_declaring_needs_no_permission(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), EXCHANGE.Declare(exchange="e"))
    restrict(broker, monkeypatch)
    await peer.ask(1, QUEUE.Declare(queue="q", passive=True), QUEUE.DeclareOk)
    await peer.ask(1, EXCHANGE.Declare(exchange="e", passive=True), EXCHANGE.DeclareOk)


@pytest.mark.parametrize(
    "method", [BASIC.Get(queue="none"), BASIC.Consume(queue="none"), QUEUE.Purge(queue="none"),
               QUEUE.Bind(queue="none", exchange="amq.topic")],
    ids=lambda method: method.name,
)  # fmt: skip
async def test_who_has_no_permission_does_not_learn_whether_the_queue_exists(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, method: Frame
) -> None:
    peer = await Peer(broker).open(1)
    assert await refused(peer, method) == 404
    restrict(broker, monkeypatch)
    assert await refused(peer, method) == 403


# ---------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (QUEUE.Delete(queue=""), 404),
        (QUEUE.Purge(queue=""), 404),
        (BASIC.Get(queue=""), 404),
        (QUEUE.Declare(queue="none", passive=True), 404),
        (QUEUE.Declare(queue="amq.mine"), 403),
        (QUEUE.Declare(queue="new", arguments={"x-max-lenght": 1}), 406),
        (EXCHANGE.Declare(exchange="amq.mine"), 403),
        (EXCHANGE.Declare(exchange="none", passive=True), 404),
        (EXCHANGE.Delete(exchange="amq.topic"), 403),
        (EXCHANGE.Delete(exchange="amq.none"), 403),
        (EXCHANGE.Delete(exchange=""), 403),
        (EXCHANGE.Bind(destination="amq.topic", source="none"), 404),
        (BASIC.Consume(queue="q", arguments={"x-priority": "high"}), 406),
    ],
    ids=lambda value: value.name if isinstance(value, Frame) else str(value),
)
async def test_reply_codes_of_what_cannot_be_done(broker: Broker, method: Frame, code: int) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"))
    assert await refused(peer, method) == code


async def test_empty_names_in_bind_and_unbind_mean_the_queue_declared_last(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), QUEUE.Bind(queue="", exchange="amq.direct", routing_key=""))
    host = broker.hosts["/"]
    assert [binding.routing_key for binding in host.bindings()] == ["q"]
    await peer.send(1, QUEUE.Unbind(queue="", exchange="amq.direct", routing_key=""))
    assert list(host.bindings()) == []


async def test_consumer_tag_in_use_closes_the_connection(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    consume = BASIC.Consume(queue="q", consumer_tag="c")
    await peer.send(1, QUEUE.Declare(queue="q"), consume, consume)
    assert (await peer.one(commands.Connection.Close)).reply_code == 530


async def test_get_tells_what_is_left_and_whether_it_came_back(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), publish(1, "q", b"a"), publish(1, "q", b"b"))
    first = await peer.ask(1, BASIC.Get(queue="q"), BASIC.GetOk)
    assert (first.message_count, first.redelivered) == (1, False)
    await peer.send(1, BASIC.Reject(first.delivery_tag, True))
    again = await peer.ask(1, BASIC.Get(queue="q"), BASIC.GetOk)
    assert (again.message_count, again.redelivered) == (1, True)


async def test_cancelling_the_last_consumer_deletes_an_auto_delete_queue(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", auto_delete=True), publish(1, "q", b"a"))
    await peer.send(1, BASIC.Consume(queue="q", consumer_tag="c"))
    assert bodies(await peer.take()) == [b"a"]
    await peer.send(1, BASIC.Cancel("c"))
    assert broker.hosts["/"].queues == {}
    await peer.send(1, BASIC.Ack(1))
    assert [type(item) for item in await peer.take()] == [BASIC.CancelOk], "what it held may still be acknowledged"


# ---------------------------------------------------------------------- the catalogue


async def test_only_what_outlives_the_connection_is_written_down(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="kept", durable=True), QUEUE.Declare(queue="transient"))
    await peer.send(1, QUEUE.Declare(queue="mine", durable=True, exclusive=True))
    await peer.send(1, EXCHANGE.Declare(exchange="e", durable=True), EXCHANGE.Declare(exchange="t"))
    for queue in ("kept", "transient", "mine"):
        await peer.send(1, QUEUE.Bind(queue=queue, exchange="e"), QUEUE.Bind(queue=queue, exchange="t"))
    assert [record.name for record in broker.catalogue.queues("/")] == ["kept"]
    assert [record.name for record in broker.catalogue.exchanges("/")] == ["e"]
    assert [(record.source, record.destination) for record in broker.catalogue.bindings("/")] == [("e", "kept")]


async def test_queue_made_anew_gets_a_new_identity(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    identities = []
    for _ in range(2):
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        identities.append(broker.hosts["/"].queues["q"].queue_id)
        await peer.send(1, QUEUE.Delete(queue="q"))
    assert identities[1] > identities[0] > 0


@pytest.mark.parametrize(
    ("change", "method"),
    [
        ("add_queue", QUEUE.Declare(queue="new", durable=True)),
        ("add_exchange", EXCHANGE.Declare(exchange="new", durable=True)),
        ("add_binding", QUEUE.Bind(queue="q", exchange="e", routing_key="k")),
        ("add_binding", EXCHANGE.Bind(destination="amq.topic", source="e", routing_key="k")),
    ],
    ids=lambda value: value.name if isinstance(value, Frame) else value,
)
async def test_what_the_catalogue_refuses_does_not_exist(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, change: str, method: Frame
) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", durable=True), EXCHANGE.Declare(exchange="e", durable=True))

    def refuse(*_: object) -> None:
        raise CatalogueError("disk full")

    monkeypatch.setattr(broker.catalogue, change, refuse)
    assert await refused(peer, method) == 506
    host = broker.hosts["/"]
    assert "new" not in host.queues
    assert "new" not in host.exchanges
    assert list(host.bindings()) == []
    monkeypatch.undo()
    await peer.send(1, method)
    assert CHANNEL.Close not in [type(item) for item in await peer.take()]


async def test_binding_that_existed_survives_a_catalogue_that_refuses(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await Peer(broker).open(1)
    bind = QUEUE.Bind(queue="q", exchange="amq.topic", routing_key="k")
    await peer.send(1, QUEUE.Declare(queue="q", durable=True), bind)

    def refuse(*_: object) -> None:
        raise CatalogueError("disk full")

    monkeypatch.setattr(broker.catalogue, "add_binding", refuse)
    assert await refused(peer, bind) == 506
    assert len(list(broker.hosts["/"].bindings())) == 1


# ---------------------------------------------------------------------- exchanges that delay


async def test_a_delayed_exchange_is_one_of_its_own_type(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    delayed = EXCHANGE.Declare(exchange="e", exchange_type="x-delayed-message", arguments={"x-delayed-type": "topic"})
    await peer.ask(1, delayed, EXCHANGE.DeclareOk)
    await peer.ask(1, EXCHANGE.Declare(exchange="e", exchange_type="topic"), EXCHANGE.DeclareOk)
    assert broker.hosts["/"].exchanges["e"].type_name == "topic"


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "tpic"}, {"x-delayed-type": 5}])
async def test_a_delayed_exchange_has_to_say_how_it_routes(broker: Broker, arguments: dict[str, Any]) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, EXCHANGE.Declare(exchange="e", exchange_type="x-delayed-message", arguments=arguments))
    close = await peer.one(CHANNEL.Close)
    assert close.reply_code == 406
    assert "'x-delayed-type' must be one of" in close.reply_text


# ---------------------------------------------------------------------- consumers


async def consumer_refusal(broker: Broker, arguments: dict[str, Any], **queue_arguments: Any) -> CHANNEL.Close:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments=queue_arguments))
    await peer.take()
    await peer.send(1, BASIC.Consume(queue="q", arguments=arguments))
    return await peer.one(CHANNEL.Close)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-selector": "colour = "}, "consumer argument 'x-selector': character 10"),
        ({"x-browse": "perhaps"}, "argument 'x-browse' must be true, false, 'follow' or 'snapshot'"),
        ({"x-auto-close": True}, "add 'x-browse'"),
        ({"x-priority": "high"}, "'x-priority' must be an integer"),
    ],
)
async def test_wrong_arguments_of_a_consumer_name_themselves(
    broker: Broker, arguments: dict[str, Any], words: str
) -> None:
    close = await consumer_refusal(broker, arguments)
    assert close.reply_code == 406
    assert words in close.reply_text


async def test_more_consumers_than_allowed_are_refused_but_for_browsers(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments={"x-max-consumers": 1}), BASIC.Consume(queue="q"))
    await peer.ask(1, BASIC.Consume(queue="q", arguments={"x-browse": True}), BASIC.ConsumeOk)
    await peer.send(1, BASIC.Consume(queue="q"))
    close = await peer.one(CHANNEL.Close)
    assert close.reply_code == 403
    assert "max-consumers is 1" in close.reply_text


async def test_a_selector_chooses_and_the_rest_stays_for_others(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, QUEUE.Declare(queue="q"))
    await peer.send(1, BASIC.Consume(queue="q", no_ack=True, arguments={"x-selector": "size > 5"}))
    await peer.send(2, *(publish(2, "q", str(size).encode(), headers={"size": size}) for size in (9, 1, 7)))
    assert bodies(await peer.take()) == [b"9", b"7"]
    assert broker.hosts["/"].queues["q"].order.count == 1


@pytest.mark.parametrize("how", [{"no_local": True}, {"arguments": {"x-no-local": True}}])
async def test_no_local_keeps_what_the_connection_published_itself(broker: Broker, how: dict[str, Any]) -> None:
    mine, other = await Peer(broker).open(1, 2), await Peer(broker).open(1)
    await mine.send(1, QUEUE.Declare(queue="q"), BASIC.Consume(queue="q", no_ack=True, **how))
    await mine.send(2, publish(2, "q", b"mine"))
    await other.send(1, publish(1, "q", b"of others"))
    assert bodies(await mine.take()) == [b"of others"]


async def test_a_browser_sees_everything_takes_nothing_and_ends(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, QUEUE.Declare(queue="q", auto_delete=True), publish(1, "q", b"1"), publish(1, "q", b"2"))
    await peer.take()
    browse = {"x-browse": "snapshot", "x-auto-close": True}
    await peer.send(2, BASIC.Consume(queue="q", consumer_tag="b", arguments=browse))
    frames = await peer.take()
    assert bodies(frames) == [b"1", b"2"]
    assert [item.consumer_tag for item in frames if isinstance(item, BASIC.Cancel)] == ["b"]
    assert "q" not in broker.hosts["/"].queues  # its only consumer is gone


async def test_sending_messages_on_needs_the_permissions_to_do_it_oneself(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare = QUEUE.Declare(queue="q", arguments={"x-dead-letter-exchange": "dead"})
    granted: list[tuple[str, str]] = []
    for more, code in ((("configure", "q"), 403), (("read", "q"), 403), (("write", "dead"), 0)):
        granted.append(more)
        restrict(broker, monkeypatch, *granted)
        peer = await Peer(broker).open(1)
        await peer.send(1, declare)
        closes = [item.reply_code for item in await peer.take() if isinstance(item, CHANNEL.Close)]
        assert closes == ([code] if code else [])


# ---------------------------------------------------------------------- purge


async def purging(broker: Broker) -> Peer:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="kept", durable=True), persistent(1, "kept", b"a"))
    await broker.commit.durable()
    await peer.take()
    return peer


async def test_a_purge_is_answered_when_it_is_durable(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await purging(broker)
    with monkeypatch.context() as patch:
        patch.setattr(broker.commit, "_seal", lambda: None)
        await peer.send(1, QUEUE.Purge(queue="kept"))
        assert await peer.take() == []
        assert broker.hosts["/"].queues["kept"].order.count == 0
    broker.commit._seal()
    await broker.commit.durable()
    assert (await peer.one(QUEUE.PurgeOk)).message_count == 1
    assert (await peer.ask(1, QUEUE.Purge(queue="kept"), QUEUE.PurgeOk)).message_count == 0
    await peer.send(1, QUEUE.Purge(queue="kept", nowait=True))
    assert await peer.take() == []


@pytest.mark.parametrize("defect", [False, True])
async def test_a_purge_that_is_not_durable_is_said_to_be_none(broker: Broker, defect: bool) -> None:
    """Neither when the disk refuses, nor when a defect ends the work in slices."""
    peer = await purging(broker)
    waiter = PurgeWaiter(peer.connection.channels[1], 1, durable=True)
    if defect:
        waiter.told(False)
    else:
        waiter.window_failed(1)
    closed = await peer.one(CHANNEL.Close)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (506, 50, 30)
    assert "purge could not be written" in closed.reply_text
    for answer in (waiter.window_committed, waiter.window_failed):
        answer(1)  # nobody is told twice
    assert await peer.take() == []


# ---------------------------------------------------------------------- direct reply-to

REPLY_TO = "amq.rabbitmq.reply-to"


async def asking(broker: Broker) -> tuple[Peer, str]:
    """Return a client that waits for answers on channel 1, and the reply-to that its requests carry."""
    peer = await Peer(broker).open(1)
    await peer.ask(1, BASIC.Consume(queue=REPLY_TO, consumer_tag="replies", no_ack=True), BASIC.ConsumeOk)
    return peer, await reply_to_of_a_request(peer)


async def reply_to_of_a_request(peer: Peer) -> str:
    await peer.send(1, QUEUE.Declare(queue="requests"), publish(1, "requests", b"?", reply_to=REPLY_TO))
    await peer.take()
    await peer.send(1, BASIC.Get(queue="requests", no_ack=True))
    content = await peer.one(header.ContentHeader)
    return str(content.properties.reply_to)


async def test_answers_come_to_the_channel_that_asked(broker: Broker) -> None:
    first, name = await asking(broker)
    second, other = await asking(broker)
    assert name.startswith(f"{REPLY_TO}.")
    assert name != other
    replier = await Peer(broker).open(1)
    await replier.send(1, commands.Confirm.Select())
    await replier.take()
    await replier.send(1, publish(1, name, b"one", mandatory=True), persistent(1, other, b"two", mandatory=True))
    assert [(type(item), item.delivery_tag) for item in await replier.take()] == [(BASIC.Ack, 2)]
    frames = await first.take()
    assert (frames[0].consumer_tag, frames[0].routing_key, bodies(frames)) == ("replies", name, [b"one"])
    assert bodies(await second.take()) == [b"two"]
    assert [broker.hosts["/"].queues[queue].order.count for queue in (name, other)] == [0, 0]


async def test_a_reply_queue_goes_with_its_consumer_or_channel(broker: Broker) -> None:
    peer, name = await asking(broker)
    await peer.ask(1, BASIC.Cancel("replies"), BASIC.CancelOk)
    assert name not in broker.hosts["/"].queues
    await peer.ask(1, BASIC.Consume(queue=REPLY_TO, no_ack=True), BASIC.ConsumeOk)
    again = await reply_to_of_a_request(peer)
    assert again not in {name, REPLY_TO}
    replier = await Peer(broker).open(1)
    await replier.ask(1, QUEUE.Declare(queue=again, passive=True), QUEUE.DeclareOk)
    await peer.ask(1, CHANNEL.Close(200, "", 0, 0), CHANNEL.CloseOk)
    await replier.send(1, publish(1, again, b"late", mandatory=True))
    assert (await replier.one(BASIC.Return)).reply_code == 312
    assert (await replier.ask(1, QUEUE.Declare(queue=again, passive=True), CHANNEL.Close)).reply_code == 404


@pytest.mark.parametrize("passive", [True, False])
async def test_declaring_a_reply_queue_only_looks(broker: Broker, passive: bool) -> None:
    peer, name = await asking(broker)
    for queue in (REPLY_TO, name):
        found = await peer.ask(1, QUEUE.Declare(queue=queue, passive=passive), QUEUE.DeclareOk)
        assert (found.queue, found.message_count, found.consumer_count) == (queue, 0, 1)
    assert REPLY_TO not in broker.hosts["/"].queues


async def test_what_is_refused_of_direct_reply_to(broker: Broker) -> None:
    peer, name = await asking(broker)
    assert await refused(peer, BASIC.Consume(queue=REPLY_TO, no_ack=False)) == 406
    assert (await peer.ask(1, BASIC.Consume(queue=REPLY_TO, no_ack=True), CHANNEL.Close)).reply_code == 406
    assert name not in broker.hosts["/"].queues
    other, name = await asking(broker)
    await peer.send(2, CHANNEL.Open())
    await peer.take()
    await peer.send(2, publish(2, "requests", reply_to=REPLY_TO))
    closed = await peer.one(CHANNEL.Close)
    assert (closed.reply_code, "fast reply consumer does not exist" in closed.reply_text) == (406, True)
    assert await refused(peer, BASIC.Get(queue=REPLY_TO)) == 404
    for method in (BASIC.Get(queue=name), BASIC.Consume(queue=name), QUEUE.Purge(queue=name), QUEUE.Delete(queue=name)):
        assert await refused(peer, method) == 405, "it belongs to another connection"
    assert await refused(other, BASIC.Consume(queue=name)) == 403, "and to one consumer"


async def test_a_request_after_the_reply_consumer_was_cancelled_is_refused(broker: Broker) -> None:
    peer, _ = await asking(broker)
    await peer.ask(1, BASIC.Cancel("replies"), BASIC.CancelOk)
    await peer.send(1, publish(1, "requests", b"?", reply_to=REPLY_TO))
    assert (await peer.one(CHANNEL.Close)).reply_code == 406


async def test_a_request_in_a_transaction_and_an_answer_in_one(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, QUEUE.Declare(queue="requests"), BASIC.Consume(queue=REPLY_TO, no_ack=True))
    await peer.send(1, commands.Tx.Select(), publish(1, "requests", b"?", reply_to=REPLY_TO), commands.Tx.Commit())
    await peer.take()
    await peer.send(2, BASIC.Get(queue="requests", no_ack=True))
    name = (await peer.one(header.ContentHeader)).properties.reply_to
    await peer.send(2, commands.Tx.Select(), publish(2, name, b"!"))
    assert bodies(await peer.take()) == []
    await peer.send(2, commands.Tx.Commit())
    assert bodies(await peer.take()) == [b"!"]


async def test_waiting_for_answers_needs_no_permission_and_answering_that_of_the_default_exchange(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, name = await asking(broker)
    restrict(broker, monkeypatch)
    peer = await Peer(broker).open(1)
    await peer.ask(1, BASIC.Consume(queue=REPLY_TO, no_ack=True), BASIC.ConsumeOk)
    await peer.ask(1, QUEUE.Declare(queue=name, passive=True), QUEUE.DeclareOk)
    await peer.send(1, publish(1, name, b"!"))
    assert (await peer.one(CHANNEL.Close)).reply_code == 403
    restrict(broker, monkeypatch, ("write", ""))
    replier = await Peer(broker).open(1)
    await replier.send(1, publish(1, name, b"!"))
    assert await replier.take() == []
