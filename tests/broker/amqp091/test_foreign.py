"""Messages that came by another protocol, at AMQP 0-9-1 consumers."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, header

from annulet.broker.amqp091.foreign import as_amqp091, shortened
from annulet.broker.broker import Broker
from annulet.broker.connections import views
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import BODY_TEXT, MessageContent
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from tests.broker.amqp091.peer import Peer, bodies, publish

BASIC, QUEUE = commands.Basic, commands.Queue


def message(text: str, **fields: Any) -> Message:
    """An AMQP 1.0 message with an amqp-value string."""
    content = MessageContent()
    content.body_kind, content.body = BODY_TEXT, text
    for name, value in fields.items():
        setattr(content, name, value)
    return Message(*from_content(content), Origin("logs", "disk.full", "guest@peer", AMQP_1_0), accepted_at=1)


async def waiting(broker: Broker, *texts: str, arguments: dict[str, Any] | None = None) -> Peer:
    """Return a client with a queue ``q`` in which these wait."""
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments=arguments or {}))
    await peer.take()
    for text in texts:
        broker.hosts["/"].queues["q"].enqueue(message(text, subject="s", priority=3), broker.clock())
    return peer


@pytest.mark.parametrize("no_ack", [True, False])
async def test_consume_gets_it_in_the_terms_of_0_9_1(broker: Broker, no_ack: bool) -> None:
    peer = await waiting(broker, "text")
    await peer.send(1, BASIC.Consume(queue="q", no_ack=no_ack))
    frames = await peer.take()
    assert bodies(frames) == [b"text"]
    (deliver,) = [frame for frame in frames if isinstance(frame, BASIC.Deliver)]
    assert (deliver.exchange, deliver.routing_key) == ("logs", "disk.full")
    (found,) = [frame for frame in frames if isinstance(frame, header.ContentHeader)]
    properties = found.properties
    assert (properties.content_type, properties.message_type, properties.priority) == ("text/plain", "s", 3)


async def test_get_too(broker: Broker) -> None:
    peer = await waiting(broker, "text")
    await peer.send(1, BASIC.Get(queue="q", no_ack=True))
    assert bodies(await peer.take()) == [b"text"]


async def test_a_redelivery_says_how_often(broker: Broker) -> None:
    peer = await waiting(broker, "text")
    await peer.send(1, BASIC.Consume(queue="q"))
    await peer.take()
    await peer.send(1, BASIC.Nack(1, requeue=True))
    (found,) = [frame for frame in await peer.take() if isinstance(frame, header.ContentHeader)]
    assert found.properties.headers["x-delivery-count"] == 1
    assert found.properties.message_type == "s"


@pytest.fixture
def unconvertible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the conversion of bodies fail that say so, as a defect would."""
    write = views.WRITERS[AMQP_0_9_1]

    def fail(content: MessageContent) -> tuple[bytes, bytes]:
        if content.body == "cannot":
            raise ValueError("cannot")
        return write(content)

    monkeypatch.setitem(views.WRITERS, AMQP_0_9_1, fail)


@pytest.mark.usefixtures("unconvertible")
@pytest.mark.parametrize("no_ack", [True, False])
async def test_what_cannot_be_converted_holds_nobody_up_and_stays(broker: Broker, no_ack: bool) -> None:
    peer = await waiting(broker, "cannot", "can")
    await peer.send(1, BASIC.Consume(queue="q", no_ack=no_ack))
    assert bodies(await peer.take()) == [b"can"]
    queue = broker.hosts["/"].queues["q"]
    assert [entry.delivery_count for entry in queue.order.entries()] == [0]
    assert AMQP_1_0.content(next(iter(queue.order.entries())).message).body == "cannot"


@pytest.mark.usefixtures("unconvertible")
@pytest.mark.parametrize("no_ack", [True, False])
async def test_it_goes_to_the_dead_letter_target_where_there_is_one(broker: Broker, no_ack: bool) -> None:
    peer = await waiting(broker, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    await peer.send(1, QUEUE.Declare(queue="dead"), BASIC.Consume(queue="q", no_ack=no_ack))
    queues = broker.hosts["/"].queues
    for text in ("cannot", "can"):
        queues["q"].enqueue(message(text), broker.clock())
    assert bodies(await peer.take()) == [b"can"]
    (dead,) = queues["dead"].order.entries()
    assert AMQP_1_0.content(dead.message).body == "cannot"
    assert [death.reason for death in AMQP_1_0.deaths(dead.message)] == ["rejected"]


@pytest.mark.usefixtures("unconvertible")
async def test_get_passes_it_on_and_takes_the_next(broker: Broker) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer = await waiting(broker, "cannot", "can", arguments=arguments)
    await peer.send(1, QUEUE.Declare(queue="dead"), BASIC.Get(queue="q", no_ack=True))
    assert bodies(await peer.take()) == [b"can"]
    assert broker.hosts["/"].queues["dead"].order.count == 1


@pytest.mark.usefixtures("unconvertible")
async def test_get_without_a_dead_letter_target_closes_the_channel_and_it_stays(broker: Broker) -> None:
    peer = await waiting(broker, "cannot")
    closed = await peer.ask(1, BASIC.Get(queue="q"), commands.Channel.Close)
    assert closed.reply_code == 406
    assert "amqp-1.0" in closed.reply_text
    (entry,) = broker.hosts["/"].queues["q"].order.entries()
    assert entry.delivery_count == 0


async def test_a_header_too_large_for_the_client_is_withheld_as_any_other(broker: Broker) -> None:
    await waiting(broker)
    small = await Peer(broker).open(1, frame_max=4096)
    await small.send(1, BASIC.Consume(queue="q"))
    await small.take()
    queue = broker.hosts["/"].queues["q"]
    queue.enqueue(message("large", application={"k": "x" * 4096}), broker.clock())
    queue.enqueue(message("small"), broker.clock())
    assert bodies(await small.take()) == [b"small"]
    assert broker.deliveries_too_large == 1


async def test_own_messages_are_not_touched(broker: Broker) -> None:
    peer = await waiting(broker)
    before = views.CONVERSIONS.conversions
    await peer.send(1, BASIC.Consume(queue="q", no_ack=True))
    await peer.send(1, publish(1, "q", b"own"))
    assert bodies(await peer.take()) == [b"own"]
    assert views.CONVERSIONS.conversions == before


async def test_names_beyond_a_short_string_are_cut(broker: Broker) -> None:
    assert shortened("k" * 255) == "k" * 255
    assert shortened("k" * 256) == "k" * 252 + "..."
    assert len(shortened("é" * 200).encode()) <= 255
    foreign = message("x")
    foreign.origin = Origin("e", "k" * 300, "", AMQP_1_0)
    made = as_amqp091(views.converted, foreign)
    assert made is not None
    assert made.origin.encoded == b"\x01e\xff" + b"k" * 252 + b"..."
