from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.amqp10.filters import NO_LOCAL, SELECTOR
from annulet.broker.amqp10.sources import OUTCOMES
from annulet.broker.broker import Broker
from annulet.core.base.typed_values import Described, Symbol
from annulet.wire.amqp10.frames.outcomes import Modified, Released
from annulet.wire.amqp10.frames.performatives import Detach, Source
from annulet.wire.amqp10.frames.terminus import (
    DISTRIBUTION_COPY,
    DURABLE_UNSETTLED_STATE,
    EXPIRE_LINK_DETACH,
    EXPIRE_NEVER,
)
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10.peer import ACCEPTED, Peer, PeerLink, bodies, message, permit, queue_of


def filled(broker: Broker, name: str = "q") -> int:
    return broker.hosts["/"].queues[name].order.count


def delivering(broker: Broker, name: str = "q") -> int:
    return len(broker.hosts["/"].queues[name].delivering)


async def prepared(broker: Broker, *contents: bytes, arguments: dict[str, Any] | None = None) -> Peer:
    queue_of(broker, "q", arguments)
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    for content in contents:
        await peer.publish(sender, message(content))
    return peer


def selector(text: str) -> dict[str, Any]:
    return {"selector": Described([Symbol(SELECTOR), text])}


def topic(broker: Broker, name: str = "news", *types: str) -> None:
    broker.hosts["/"].nodes.declare_address(name, types or ("multicast",), durable=False)


# ---------------------------------------------------------------------- attaching


async def test_the_answer_says_what_holds(broker: Broker) -> None:
    peer = await prepared(broker)
    wanted = Source("q", filter=selector("a = 1"), capabilities=["queue"])
    link = await peer.receiver(None, source=wanted)
    source = link.source
    assert (source.address, source.distribution_mode, source.capabilities) == ("q", "move", ["queue"])
    assert source.filter == selector("a = 1")
    assert tuple(source.outcomes) == OUTCOMES
    assert source.default_outcome == Modified(delivery_failed=True)
    assert link.answer is not None
    assert link.answer.initial_delivery_count is not None


@pytest.mark.parametrize(
    ("source", "condition", "text"),
    [
        (Source(""), conditions.INVALID_FIELD, "address is missing"),
        (Source("q", distribution_mode="steal"), conditions.INVALID_FIELD, "'steal'"),
        (Source("missing::q"), conditions.NOT_FOUND, "'missing'"),
        (Source("/exchanges/missing"), conditions.NOT_FOUND, "'missing'"),
        (Source("q", filter=selector("a = = 1")), conditions.INVALID_FIELD, "selector: character 5"),
        (Source("q", filter={"x": Described([Symbol("own:filter"), 1])}), conditions.NOT_IMPLEMENTED, "own:filter"),
    ],
    ids=repr,
)
async def test_a_source_that_cannot_be_is_refused_by_its_field(
    broker: Broker, source: Source, condition: str, text: str
) -> None:
    peer = await prepared(broker)
    error = await peer.refusal(await peer.receiver(None, source=source))
    assert error.condition == condition
    assert text in (error.description or "")
    await peer.receiver("q", credit=1)  # the session is as before
    assert not peer.connection.engine.closed


async def test_a_priority_that_is_no_number_is_refused(broker: Broker) -> None:
    peer = await prepared(broker)
    error = await peer.refusal(await peer.receiver("q", properties={"priority": "high"}))
    assert "'high'" in (error.description or "")


async def test_what_may_not_be_read_is_refused(broker: Broker) -> None:
    peer = await prepared(broker)
    topic(broker, "secret")
    permit(broker, read="^open$")
    for name in ("q", "secret"):
        error = await peer.refusal(await peer.receiver(name))
        assert error.condition == conditions.UNAUTHORIZED_ACCESS
        assert f"'{name}'" in (error.description or "")


async def test_with_automatic_creation_off_an_unknown_name_is_not_found(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.address_settings.set("#", {"auto-create-queues": False, "auto-create-addresses": False})
    peer = await Peer(broker).open()
    for attach in (peer.receiver, peer.sender):
        error = await peer.refusal(await attach("missing"))
        assert error.condition == conditions.NOT_FOUND
        assert "'missing'" in (error.description or "")


# ---------------------------------------------------------------------- credit, §2.6.7


async def test_no_message_without_credit_and_no_more_than_it(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b", b"c")
    link = await peer.receiver("q")
    assert await peer.deliveries() == []
    await peer.credit(link, 2)
    assert bodies(await peer.deliveries()) == [b"a", b"b"]
    await peer.credit(link, 1)
    assert bodies(await peer.deliveries()) == [b"c"]


async def test_settled_deliveries_use_credit_up_too(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b", b"c")
    link = await peer.receiver("q", snd_settle_mode=1, credit=2)
    found = await peer.deliveries()
    assert [(item.body, item.settled) for item in found] == [(b"a", True), (b"b", True)]
    assert (filled(broker), delivering(broker)) == (1, 0)
    await peer.credit(link, 5)
    assert bodies(await peer.deliveries()) == [b"c"]
    assert filled(broker) == 0


async def test_credit_taken_back_is_not_used(broker: Broker) -> None:
    peer = await prepared(broker)
    link = await peer.receiver("q", credit=10)
    await peer.credit(link, 0)
    await peer.publish(await peer.sender("q"), message(b"a"))
    assert await peer.deliveries() == []


async def test_a_drain_gives_what_there_is_and_returns_the_rest(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b")
    link = await peer.receiver("q")
    await peer.credit(link, 10, drain=True)
    frames = await peer.take()
    assert bodies(peer.deliveries_among(frames)) == [b"a", b"b"]
    flow = link.flows[-1]
    assert frames[-1].performative is flow
    assert (flow.link_credit, flow.drain, flow.delivery_count) == (0, True, 10)
    await peer.publish(await peer.sender("q"), message(b"c"))
    assert await peer.deliveries() == []
    await peer.credit(link, 1)
    assert bodies(await peer.deliveries()) == [b"c"]


async def test_an_echo_is_answered(broker: Broker) -> None:
    peer = await prepared(broker)
    link = await peer.receiver("q")
    before = len(link.flows)
    await peer.credit(link, 3, echo=True)
    await peer.take()
    assert len(link.flows) == before + 1
    assert link.flows[-1].link_credit == 3


async def test_a_message_beyond_the_links_size_stays_for_others(broker: Broker) -> None:
    peer = await prepared(broker, b"x" * 500, b"small")
    await peer.receiver("q", max_message_size=100, credit=5)
    assert bodies(await peer.deliveries()) == [b"small"]
    assert broker.deliveries_too_large == 1
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"x" * 500]


async def test_a_large_message_leaves_in_frames_of_the_peers_size(broker: Broker) -> None:
    queue_of(broker, "q")
    other = await Peer(broker).open()
    await other.publish(await other.sender("q"), message(b"x" * 5000))
    peer = await Peer(broker).open(max_frame_size=512)
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [b"x" * 5000]
    assert peer.transfers_received[0] >= 5000 // 512


# ---------------------------------------------------------------------- settings of the consumer


async def test_a_selector_takes_what_matches(broker: Broker) -> None:
    peer = await prepared(broker)
    sender = await peer.sender("q")
    for colour in ("red", "blue", "red"):
        await peer.publish(sender, message(colour.encode(), application={"colour": colour}))
    await peer.receiver(None, source=Source("q", filter=selector("colour = 'blue'")), credit=5)
    assert bodies(await peer.deliveries()) == [b"blue"]
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"red", b"red"]


async def test_no_local_keeps_a_connections_own_messages_from_it(broker: Broker) -> None:
    peer, other = await prepared(broker), await Peer(broker).open()
    source = Source("q", filter={"n": Described([Symbol(NO_LOCAL), []])})
    await peer.receiver(None, source=source, credit=5)
    await peer.publish(await peer.sender("q"), message(b"own"))
    await other.publish(await other.sender("q"), message(b"other"))
    assert bodies(await peer.deliveries()) == [b"other"]


async def test_the_consumer_of_higher_priority_is_served_first(broker: Broker) -> None:
    peer = await prepared(broker)
    low = await peer.receiver("q", credit=1, properties={"priority": 1})
    high = await peer.receiver("q", credit=1, properties={"priority": 9})
    sender = await peer.sender("q")
    for content in (b"1", b"2"):
        await peer.publish(sender, message(content))
    first, second = await peer.deliveries()
    assert high.answer is not None
    assert low.answer is not None
    assert (first.handle, second.handle) == (high.answer.handle, low.answer.handle)


async def test_copy_mode_takes_nothing_away(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b")
    browser = await peer.receiver(None, source=Source("q", distribution_mode=DISTRIBUTION_COPY), credit=10)
    assert browser.source.distribution_mode == DISTRIBUTION_COPY
    copies = await peer.deliveries()
    assert bodies(copies) == [b"a", b"b"]
    await peer.settle(ACCEPTED, *[item for item in copies if not item.settled])
    assert filled(broker) == 2
    await peer.receiver("q", credit=10)
    assert bodies(await peer.deliveries()) == [b"a", b"b"]


async def test_the_end_of_a_link_gives_its_messages_back_at_once(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b")
    link = await peer.receiver("q", credit=5)
    await peer.deliveries()
    await peer.detach(link)
    other = await Peer(broker).open()
    await other.receiver("q", credit=5)
    again = await other.deliveries()
    assert bodies(again) == [b"a", b"b"]


async def test_a_deleted_queue_detaches_its_links_and_says_so(broker: Broker) -> None:
    peer = await prepared(broker, b"a")
    await peer.receiver("q", credit=5)
    await peer.take()
    host = broker.hosts["/"]
    host.delete_queue(host.queues["q"], peer.connection.now)
    detach = await peer.one(Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition == conditions.RESOURCE_DELETED
    assert "'q'" in (detach.error.description or "")


# ---------------------------------------------------------------------- resuming, §2.6.13


async def resumable(peer: Peer, **fields: Any) -> PeerLink:
    source = Source("q", durable=DURABLE_UNSETTLED_STATE)
    return await peer.receiver(None, source=source, name="resumable", **fields)


async def test_a_suspended_link_keeps_what_it_holds_and_goes_on(broker: Broker) -> None:
    peer = await prepared(broker, b"seen", b"told", b"never arrived")
    link = await resumable(peer, credit=3)
    seen, told, _ = await peer.deliveries()
    await peer.detach(link)
    assert delivering(broker) == 3
    link = await resumable(peer, unsettled={seen.tag: None, told.tag: ACCEPTED})
    assert link.answer is not None
    assert set(link.answer.unsettled or {}) >= {seen.tag, told.tag}
    await peer.credit(link, 5)
    again = {item.tag: item for item in await peer.deliveries()}
    assert len(again) == 3
    assert (again[seen.tag].resume, again[seen.tag].body) == (True, b"seen")
    assert (again[told.tag].settled, again[told.tag].resume) == (True, True)
    (other,) = [item for tag, item in again.items() if tag not in {seen.tag, told.tag}]
    assert (other.resume, other.body) == (False, b"never arrived")
    assert filled(broker) + delivering(broker) <= 2 + delivering(broker)
    await peer.settle(ACCEPTED, again[seen.tag], other)
    assert (filled(broker), delivering(broker)) == (0, 0)


async def test_a_suspended_link_that_is_not_resumed_gives_back_at_the_end(broker: Broker) -> None:
    peer = await prepared(broker, b"a", b"b")
    link = await resumable(peer, credit=3)
    await peer.deliveries()
    await peer.detach(link)
    other = await Peer(broker).open()
    await other.receiver("q", credit=5)
    assert await other.deliveries() == []
    await peer.end()
    assert bodies(await other.deliveries()) == [b"a", b"b"]


@pytest.mark.parametrize("how", ["closed", "link-detach"])
async def test_a_closed_link_and_one_that_expires_with_it_keep_nothing(broker: Broker, how: str) -> None:
    peer = await prepared(broker, b"a")
    expiry = {"expiry_policy": EXPIRE_LINK_DETACH} if how == "link-detach" else {}
    source = Source("q", durable=DURABLE_UNSETTLED_STATE, **expiry)  # type: ignore[arg-type]
    link = await peer.receiver(None, source=source, credit=1)
    await peer.deliveries()
    await peer.detach(link, closed=how == "closed")
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [b"a"]


async def test_a_link_resumed_to_another_queue_gives_back_what_it_held(broker: Broker) -> None:
    peer = await prepared(broker, b"a")
    queue_of(broker, "other")
    link = await resumable(peer, credit=1)
    await peer.deliveries()
    await peer.detach(link)
    await peer.receiver(None, source=Source("other", durable=DURABLE_UNSETTLED_STATE), name="resumable")
    assert delivering(broker) == 0
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [b"a"]


# ---------------------------------------------------------------------- subscriptions


async def subscribe(peer: Peer, name: str = "s", address: str = "news", **fields: Any) -> PeerLink:
    credit = fields.pop("credit", 10)
    return await peer.receiver(None, source=Source(address, **fields), name=name, credit=credit)


async def tell(broker: Broker, *contents: bytes, address: str = "news", **options: Any) -> None:
    peer = await Peer(broker, "publisher").open()
    sender = await peer.sender(address)
    for content in contents:
        await peer.publish(sender, message(content, **options))
    await peer.lose()


async def test_each_subscriber_gets_its_copy_while_its_link_lasts(broker: Broker) -> None:
    topic(broker)
    first, second = await Peer(broker, "1").open(), await Peer(broker, "2").open()
    link = await subscribe(first)
    await subscribe(second)
    queues = set(broker.hosts["/"].queues)
    assert len(queues) == 2
    await tell(broker, b"a")
    assert bodies(await first.deliveries()) == bodies(await second.deliveries()) == [b"a"]
    await first.detach(link)
    assert len(broker.hosts["/"].queues) == 1
    await second.lose()
    assert broker.hosts["/"].queues == {}


@pytest.mark.parametrize("durably", [{"durable": 1}, {"durable": 2}, {"expiry_policy": EXPIRE_NEVER}], ids=repr)
async def test_a_durable_subscription_outlives_its_link_and_its_connection(
    broker: Broker, durably: dict[str, Any]
) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    await subscribe(peer, **durably)
    assert set(broker.hosts["/"].queues) == {"client.s"}
    await peer.lose()
    await tell(broker, b"meanwhile")
    peer = await Peer(broker).open()
    link = await subscribe(peer, **durably)
    found = await peer.deliveries()
    assert bodies(found) == [b"meanwhile"]
    await peer.settle(ACCEPTED, *found)
    await peer.detach(link, closed=True)  # that unsubscribes
    assert broker.hosts["/"].queues == {}


async def test_a_detached_durable_subscription_goes_on(broker: Broker) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    link = await subscribe(peer, durable=1)
    await peer.detach(link)
    await tell(broker, b"meanwhile")
    await subscribe(peer, durable=1)
    assert bodies(await peer.deliveries()) == [b"meanwhile"]


async def test_a_durable_subscription_may_be_looked_up_without_a_source(broker: Broker) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    await peer.detach(await subscribe(peer, durable=2))
    link = await peer.attach("s", receiver=True)
    assert (link.source.address, link.source.durable, link.source.expiry_policy) == ("news", 2, EXPIRE_NEVER)
    error = await peer.refusal(await peer.attach("other", receiver=True))
    assert error.condition == conditions.NOT_FOUND
    assert "'other'" in (error.description or "")
    assert "'client'" in (error.description or "")


async def test_an_idle_subscription_is_replaced_and_one_in_use_is_locked(broker: Broker) -> None:
    topic(broker)
    topic(broker, "sports")
    peer = await Peer(broker).open()
    link = await subscribe(peer, durable=1)
    other = await Peer(broker).open()
    error = await other.refusal(await subscribe(other, address="sports", durable=1, credit=0))
    assert error.condition == conditions.RESOURCE_LOCKED
    await peer.detach(link)
    await tell(broker, b"old")
    await subscribe(other, address="sports", durable=1)
    await tell(broker, b"new", address="sports")
    await tell(broker, b"old")
    assert bodies(await other.deliveries()) == [b"new"]


async def test_another_selector_replaces_too(broker: Broker) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    link = await subscribe(peer, durable=1, filter=selector("n = 1"))
    await peer.detach(link)
    await tell(broker, b"1", application={"n": 1})
    await subscribe(peer, durable=1, filter=selector("n = 2"))
    for number in (1, 2):
        await tell(broker, b"%d" % number, application={"n": number})
    assert bodies(await peer.deliveries()) == [b"2"]


async def test_a_shared_subscription_divides_its_messages_among_links(broker: Broker) -> None:
    topic(broker)
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    await subscribe(peer, "s|1", capabilities=["shared"], credit=1)
    await subscribe(other, "s|2", capabilities=["shared"], credit=1)
    stranger = await Peer(broker, "stranger").open()
    await subscribe(stranger, "s|3", capabilities=["shared"])
    await tell(broker, b"a", b"b")
    assert sorted([*bodies(await peer.deliveries()), *bodies(await other.deliveries())]) == [b"a", b"b"]
    assert bodies(await stranger.deliveries()) == [b"a", b"b"]  # another container's is another subscription


async def test_a_global_subscription_is_shared_by_all_containers(broker: Broker) -> None:
    topic(broker)
    peers = [await Peer(broker, name).open() for name in ("one", "two")]
    for number, peer in enumerate(peers):
        await subscribe(peer, f"s|{number}", capabilities=["shared", "global"], durable=1, credit=1)
    assert set(broker.hosts["/"].queues) == {"s"}
    await tell(broker, b"a", b"b")
    assert sorted(bodies([*await peers[0].deliveries(), *await peers[1].deliveries()])) == [b"a", b"b"]


async def test_released_messages_of_a_subscription_come_again(broker: Broker) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    await subscribe(peer)
    await tell(broker, b"a")
    (delivery,) = await peer.deliveries()
    await peer.settle(Released(), delivery)
    assert bodies(await peer.deliveries()) == [b"a"]


async def test_an_address_of_both_types_goes_by_the_capability(broker: Broker) -> None:
    topic(broker, "mixed", "anycast", "multicast")
    host = broker.hosts["/"]
    host.nodes.attach_queue(queue_of(broker, "work"), "mixed", "anycast")
    peer = await Peer(broker).open()
    as_queue = await peer.receiver(None, source=Source("mixed", capabilities=["queue"]), credit=5)
    as_topic = await peer.receiver(None, source=Source("mixed", capabilities=["topic"]), credit=5)
    assert (as_queue.source.capabilities, as_topic.source.capabilities) == (["queue"], ["topic"])
    assert len(host.queues) == 2
    assert host.queues["work"].users


async def test_an_address_with_two_anycast_queues_asks_which(broker: Broker) -> None:
    host = broker.hosts["/"]
    for name in ("one", "two"):
        host.nodes.attach_queue(queue_of(broker, name), "prices", "anycast")
    peer = await Peer(broker).open()
    error = await peer.refusal(await peer.receiver("prices"))
    assert error.condition == conditions.INVALID_FIELD
    assert "'prices::one', 'prices::two'" in (error.description or "")
    await peer.receiver("prices::two", credit=1)
    assert host.queues["two"].users
