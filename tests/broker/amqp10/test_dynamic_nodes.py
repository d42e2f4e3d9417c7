from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.amqp10.dynamic_nodes import plain
from annulet.broker.broker import Broker
from annulet.core.base.typed_values import Described, Float32, Symbol, UnsignedInt, UnsignedLong
from annulet.wire.amqp10.frames.performatives import Source, Target
from annulet.wire.amqp10.frames.terminus import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
    EXPIRE_NEVER,
)
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10.peer import ACCEPTED, Peer, PeerLink, bodies, message, permit

SYMBOLIC = {
    DELETE_ON_CLOSE: "amqp:delete-on-close:list",
    DELETE_ON_NO_LINKS: "amqp:delete-on-no-links:list",
    DELETE_ON_NO_MESSAGES: "amqp:delete-on-no-messages:list",
    DELETE_ON_NO_LINKS_OR_MESSAGES: "amqp:delete-on-no-links-or-messages:list",
}


def policy(code: int, *, symbolic: bool = False) -> dict[str, Any]:
    return {"lifetime-policy": Described([Symbol(SYMBOLIC[code]) if symbolic else UnsignedLong(code), []])}


async def dynamic(peer: Peer, properties: dict[str, Any] | None = None, **fields: Any) -> PeerLink:
    source = Source(dynamic=True, dynamic_node_properties=properties, **fields)
    return await peer.receiver(None, source=source, credit=10)


def exists(broker: Broker, link: PeerLink) -> bool:
    host = broker.hosts["/"]
    name = (link.source if link.receiver else link.target).address
    return name in host.queues or name in host.exchanges


def look(peer: Peer) -> None:
    """Have the connection look at its nodes now, as it does twice a second."""
    peer.connection.dynamic_nodes._check()


async def test_a_reply_queue_has_a_name_that_others_send_to(broker: Broker) -> None:
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    link = await dynamic(peer)
    address = link.source.address
    assert address is not None
    assert link.source.dynamic
    await other.publish(await other.sender(address), message(b"reply"))
    assert bodies(await peer.deliveries()) == [b"reply"]
    second = await dynamic(peer)
    assert second.source.address != address


async def test_a_target_may_be_dynamic_too(broker: Broker) -> None:
    peer = await Peer(broker).open()
    sender = await peer.sender(None, target=Target(dynamic=True))
    assert await peer.publish(sender, message(b"a")) == ACCEPTED
    await peer.receiver(sender.target.address, credit=1)
    assert bodies(await peer.deliveries()) == [b"a"]
    topic = await peer.sender(None, target=Target(dynamic=True, capabilities=["temporary-topic"]))
    address = topic.target.address
    for _ in range(2):
        await peer.receiver(address, credit=1)
    await peer.publish(topic, message(b"both"))
    assert bodies(await peer.deliveries()) == [b"both", b"both"]
    assert address in broker.hosts["/"].exchanges
    await peer.lose()
    assert address not in broker.hosts["/"].exchanges
    assert broker.hosts["/"].queues == {}


async def test_without_a_policy_it_goes_with_the_connection(broker: Broker) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer)
    await peer.detach(link, closed=True)
    assert exists(broker, link)
    await peer.end()
    assert exists(broker, link)
    await peer.lose()
    assert not exists(broker, link)


@pytest.mark.parametrize("symbolic", [False, True])
async def test_on_close_it_goes_with_the_link_that_made_it(broker: Broker, symbolic: bool) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_CLOSE, symbolic=symbolic))
    other = await peer.receiver(link.source.address)
    await peer.detach(other, closed=True)
    assert exists(broker, link)
    await peer.detach(link, closed=True)
    assert not exists(broker, link)


@pytest.mark.parametrize("symbolic", [False, True])
async def test_on_no_links_it_goes_with_the_last_link_of_any_connection(broker: Broker, symbolic: bool) -> None:
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_NO_LINKS, symbolic=symbolic))
    theirs = await other.sender(link.source.address)
    await other.publish(theirs, message())
    await peer.detach(link)
    assert exists(broker, link)
    await peer.lose()
    assert exists(broker, link)
    await other.detach(theirs)
    assert not exists(broker, link)


@pytest.mark.parametrize("symbolic", [False, True])
async def test_on_no_messages_it_goes_when_it_was_emptied(broker: Broker, symbolic: bool) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_NO_MESSAGES, symbolic=symbolic))
    look(peer)
    assert exists(broker, link)  # it has not had any yet
    await peer.publish(await peer.sender(link.source.address), message())
    (delivery,) = await peer.deliveries()
    look(peer)
    assert exists(broker, link)
    await peer.settle(ACCEPTED, delivery)
    look(peer)
    assert not exists(broker, link)


@pytest.mark.parametrize("symbolic", [False, True])
async def test_on_no_links_or_messages_both_have_to_be_gone(broker: Broker, symbolic: bool) -> None:
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_NO_LINKS_OR_MESSAGES, symbolic=symbolic))
    sender = await peer.sender(link.source.address)
    await peer.detach(link)
    await peer.publish(sender, message(b"last"))
    await peer.detach(sender)
    look(peer)
    assert exists(broker, link)  # nobody is linked, but there is a message
    reader = await other.receiver(link.source.address, credit=1)
    await other.settle(ACCEPTED, *await other.deliveries())
    look(peer)
    assert exists(broker, link)  # it is empty, but linked
    await other.detach(reader)
    assert not exists(broker, link)


async def test_with_expiry_never_it_stays(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open()
    link = await dynamic(peer, expiry_policy=EXPIRE_NEVER)
    await peer.lose()
    assert exists(disk_broker, link)
    assert disk_broker.hosts["/"].queues[str(link.source.address)].durable


async def test_queue_arguments_are_node_properties_with_or_without_prefix(broker: Broker) -> None:
    peer = await Peer(broker).open()
    for properties in ({"x-ring-size": UnsignedInt(2)}, {"ring-size": 2, "supported-dist-modes": Symbol("move")}):
        link = await peer.receiver(None, source=Source(dynamic=True, dynamic_node_properties=properties))
        sender = await peer.sender(link.source.address)
        for content in (b"1", b"2", b"3"):
            await peer.publish(sender, message(content))
        await peer.credit(link, 10)
        assert bodies(await peer.deliveries()) == [b"2", b"3"]


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"x-ring-size": "big"}, "ring-size"),
        ({"lifetime-policy": Described([Symbol("for ever"), []])}, "for ever"),
        ({"lifetime-policy": UnsignedLong(5)}, "lifetime-policy is 5"),
    ],
)
async def test_properties_that_cannot_be_are_refused_by_name(
    broker: Broker, properties: dict[str, Any], text: str
) -> None:
    peer = await Peer(broker).open()
    error = await peer.refusal(
        await peer.receiver(None, source=Source(dynamic=True, dynamic_node_properties=properties))
    )
    assert error.condition in {conditions.INVALID_FIELD, conditions.PRECONDITION_FAILED}
    assert text in (error.description or "")
    assert broker.hosts["/"].queues == {}


async def test_an_address_takes_no_queue_arguments(broker: Broker) -> None:
    peer = await Peer(broker).open()
    target = Target(dynamic=True, capabilities=["temporary-topic"], dynamic_node_properties={"x-ring-size": 2})
    error = await peer.refusal(await peer.sender(None, target=target))
    assert "x-ring-size" in (error.description or "")


async def test_who_may_not_configure_gets_none(broker: Broker) -> None:
    permit(broker, configure="^$")
    peer = await Peer(broker).open()
    error = await peer.refusal(await peer.receiver(None, source=Source(dynamic=True)))
    assert error.condition == conditions.UNAUTHORIZED_ACCESS
    assert broker.dynamic_nodes == {}


async def test_a_node_somebody_deleted_is_forgotten(broker: Broker) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_NO_LINKS))
    host = broker.hosts["/"]
    host.delete_queue(host.queues[str(link.source.address)], peer.connection.now)
    await peer.lose()
    assert broker.dynamic_nodes.get("/", {}) == {}


def test_plain_values_have_no_wire_types() -> None:
    typed = {"k": [UnsignedInt(1), Float32(1.5), Symbol("s"), True, None, b"b"]}
    bare = plain(typed)
    assert bare == {"k": [1, 1.5, "s", True, None, b"b"]}
    assert [type(item) for item in bare["k"]] == [int, float, str, bool, type(None), bytes]


@pytest.mark.parametrize("code", [DELETE_ON_NO_MESSAGES, DELETE_ON_NO_LINKS_OR_MESSAGES])
async def test_what_a_lost_connection_left_in_a_node_can_still_be_fetched(broker: Broker, code: int) -> None:
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    link = await dynamic(peer, policy(code))
    await peer.credit(link, 0)
    await peer.publish(await peer.sender(link.source.address), message(b"left"))
    await peer.lose()
    reader = await other.receiver(link.source.address, credit=1)
    found = await other.deliveries()
    assert bodies(found) == [b"left"]
    await other.settle(ACCEPTED, *found)
    await other.detach(reader)
    look(peer)
    assert not exists(broker, link)


@pytest.mark.parametrize("code", [DELETE_ON_NO_LINKS, DELETE_ON_NO_MESSAGES, DELETE_ON_NO_LINKS_OR_MESSAGES])
async def test_a_node_that_was_never_used_goes_with_its_connection(broker: Broker, code: int) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer, policy(code))
    await peer.lose()
    assert not exists(broker, link)
    assert broker.dynamic_nodes["/"] == {}


async def test_a_scheduled_message_is_a_message(broker: Broker) -> None:
    peer = await Peer(broker).open()
    link = await dynamic(peer, policy(DELETE_ON_NO_LINKS_OR_MESSAGES))
    sender = await peer.sender(link.source.address)
    await peer.publish(sender, message(annotations={"x-opt-delivery-delay": 60_000}))
    await peer.detach(sender)
    await peer.detach(link)
    look(peer)
    assert exists(broker, link)


async def test_a_topic_that_goes_without_messages_stays_while_it_is_linked(broker: Broker) -> None:
    peer = await Peer(broker).open()
    target = Target(
        dynamic=True, dynamic_node_properties=policy(DELETE_ON_NO_MESSAGES), capabilities=["temporary-topic"]
    )
    link = await peer.sender(None, target=target)
    look(peer)
    assert exists(broker, link)
    await peer.detach(link)
    look(peer)
    assert not exists(broker, link)
