"""What an AMQP 1.0 or STOMP client may reach by a name alone: subscriptions that are its own, and no other queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pamqp import commands, frame

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.security.password_hashes import HASHER
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, next_frame
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow
from annulet.wire.amqp10.frames.outcomes import Rejected
from annulet.wire.amqp10.frames.performatives import Close, Open, Source
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.composite import definition_by_code, list_bounds, read_descriptor
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp10.peer import ACCEPTED, MAX_FRAME_SIZE, Peer, Received, bodies, message, permit, queue_of
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer

READER = "reader"
PASSWORD = "secret"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        add_user(running.broker, READER, configure="^$", write="^$")
        yield running.broker
        leave(running.broker)


def add_user(broker: Broker, name: str, *, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
    broker.catalogue.access.set_user(name, HASHER.hash(PASSWORD))
    broker.catalogue.access.set_permission(name, "/", configure, write, read)
    broker.authenticator.reload()


async def open_as(broker: Broker, user: str, container: str = "client") -> Peer:
    peer = Peer(broker, container)
    outcome = await peer.log_in("PLAIN", f"\0{user}\0{PASSWORD}".encode())
    assert outcome.code == 0
    await peer.send(AMQP_HEADER, Open(container))
    await peer.begin(0)
    await peer.take()
    return peer


async def subscribed(broker: Broker, *, name: str = "s", container: str = "client", **source: object) -> None:
    """Have guest make a durable subscription to a topic, send it a message, and leave it."""
    if "news" not in broker.hosts["/"].exchanges:
        broker.hosts["/"].nodes.declare_address("news", ("multicast",), durable=False)
    peer = await Peer(broker, container).open()
    link = await peer.receiver(None, source=Source("news", durable=2, **source), name=name)  # type: ignore[arg-type]
    await peer.publish(await peer.sender("news"), message(b"kept"))
    await peer.detach(link)
    await peer.lose()


def queue_names(broker: Broker) -> set[str]:
    return set(broker.hosts["/"].queues)


def audited(broker: Broker) -> list[tuple[str, str, str, int]]:
    return [(entry.operation, entry.user, entry.target, entry.count) for entry in broker.audit.query()]


@pytest.mark.parametrize(("name", "queue"), [("orders", "client.orders"), ("orders|1", "client.orders")])
async def test_an_ordinary_queue_is_no_subscription_whatever_its_name(broker: Broker, name: str, queue: str) -> None:
    """A1: a receiver with null source and a link name took any durable queue for a subscription."""
    ordinary = queue_of(broker, queue)
    peer = await open_as(broker, READER)
    link = await peer.attach(name, receiver=True)
    assert (await peer.refusal(link)).condition == conditions.NOT_FOUND
    assert not ordinary.deleted


@pytest.mark.parametrize("container", ["", "client"])
async def test_a_global_name_finds_no_ordinary_queue(broker: Broker, container: str) -> None:
    """A1: without a container the name of the subscription is that of the queue."""
    ordinary = queue_of(broker, "orders")
    peer = await Peer(broker, container).open()
    link = await peer.attach("orders", receiver=True, desired_capabilities=["shared", "global"])
    assert (await peer.refusal(link)).condition == conditions.NOT_FOUND
    assert not ordinary.deleted


async def test_the_subscription_of_another_user_is_neither_found_nor_ended(broker: Broker) -> None:
    """A1: the same container and name of another user."""
    add_user(broker, "other")
    await subscribed(broker)
    for user in (READER, "other"):
        peer = await open_as(broker, user)
        assert (await peer.refusal(await peer.attach("s", receiver=True))).condition == conditions.NOT_FOUND
        link = await peer.receiver(None, source=Source("news", durable=2), name="s")
        assert (await peer.refusal(link)).condition == conditions.UNAUTHORIZED_ACCESS
        await peer.lose()
    assert queue_names(broker) == {"client.s"}


async def test_ending_asks_for_configure_and_is_audited(broker: Broker) -> None:
    """A1: a closing detach deleted without permission, log or audit line."""
    await subscribed(broker)
    peer = await Peer(broker).open()
    permit(broker, configure="^$")
    assert (await peer.refusal(await peer.attach("s", receiver=True))).condition == conditions.UNAUTHORIZED_ACCESS
    permit(broker)
    link = await peer.attach("s", receiver=True)
    permit(broker, configure="^$")
    await peer.detach(link, closed=True)
    assert queue_names(broker) == {"client.s"}  # the permission went while the link was there
    permit(broker)
    await peer.detach(await peer.attach("s", receiver=True), closed=True)
    assert queue_names(broker) == set()
    assert audited(broker) == [("unsubscribe", "guest", "client.s", 1)]


async def test_a_subscription_never_replaces_an_ordinary_queue(broker: Broker) -> None:
    """A1, its kind: a durable subscription whose queue's name was taken deleted what had it."""
    ordinary = queue_of(broker, "client.s")
    broker.hosts["/"].nodes.declare_address("news", ("multicast",), durable=False)
    peer = await Peer(broker).open()
    link = await peer.receiver(None, source=Source("news", durable=2), name="s")
    assert (await peer.refusal(link)).condition == conditions.PRECONDITION_FAILED
    assert not ordinary.deleted
    stomp = await StompPeer(broker).open(**{"client-id": "client"})
    await stomp.send("SUBSCRIBE", {"id": "s", "destination": "/topic/news", "durable": "true"})
    assert "was not made as subscription 's'" in await stomp.error()
    assert not ordinary.deleted


async def test_a_queue_that_an_operator_bound_is_consumed_from_and_stays(broker: Broker) -> None:
    """A1: what works elsewhere, a queue declared beforehand for a durable subscriber, is no reason to delete it."""
    host = broker.hosts["/"]
    host.nodes.declare_address("news", ("multicast",), durable=False)
    ordinary = queue_of(broker, "client.s")
    host.bind_queue(ordinary, "news", "", {})
    peer = await Peer(broker).open()
    link = await peer.receiver(None, source=Source("news", durable=2), name="s", credit=1)
    await peer.publish(await peer.sender("news"), message(b"a"))
    assert bodies(await peer.deliveries()) == [b"a"]
    await peer.detach(link, closed=True)
    assert not ordinary.deleted


@pytest.mark.parametrize("source", [Source("work"), Source("work", capabilities=["queue"]), Source("work::private")])
async def test_the_exclusive_queue_of_another_connection_is_locked(broker: Broker, source: Source) -> None:
    """A1: exclusive queues were consumed by other connections, also as the one queue of an anycast address."""
    host = broker.hosts["/"]
    host.nodes.declare_address("work", ("anycast",), durable=False)
    owner = await Peer(broker).open()
    private = host.declare_queue("private", now=0, owner=owner.connection)
    host.nodes.attach_queue(private, "work", "anycast")
    peer = await Peer(broker, "other").open()
    link = await peer.receiver(None, source=source, credit=1)
    assert (await peer.refusal(link)).condition == conditions.RESOURCE_LOCKED
    link = await owner.receiver(None, source=source)
    assert link.source.address == source.address
    assert private.users == 1


@pytest.mark.parametrize("destination", ["/queue/private", "private", "work", "work::private", "/amq/queue/private"])
async def test_stomp_is_locked_out_of_it_too(broker: Broker, destination: str) -> None:
    """A1, the brother in STOMP."""
    host = broker.hosts["/"]
    host.nodes.declare_address("work", ("anycast",), durable=False)
    private = host.declare_queue("private", now=0, owner=object())
    host.nodes.attach_queue(private, "work", "anycast")
    peer = await StompPeer(broker).open()
    await peer.send("SUBSCRIBE", {"id": "1", "destination": destination})
    assert "exclusive access to locked queue 'private'" in await peer.error()
    assert private.users == 0


async def test_stomp_ends_only_what_its_user_made_as_a_subscription(broker: Broker) -> None:
    """A1, the brother in STOMP: UNSUBSCRIBE of a durable subscription deleted any queue of the name."""
    ordinary = queue_of(broker, "guest.orders")
    await subscribed(broker, container="someone")
    peer = await StompPeer(broker).open()
    await peer.send("UNSUBSCRIBE", {"id": "orders", "durable": "true"})
    assert "no durable subscription 'orders'" in await peer.error()
    add_user(broker, "other")
    peer = await StompPeer(broker).open(login="other", passcode=PASSWORD, **{"client-id": "someone"})
    await peer.send("UNSUBSCRIBE", {"id": "s", "durable": "true"})
    assert "no durable subscription 's'" in await peer.error()
    assert not ordinary.deleted
    assert queue_names(broker) == {"guest.orders", "someone.s"}
    peer = await StompPeer(broker).open(**{"client-id": "someone"})
    await peer.request("UNSUBSCRIBE", {"id": "s", "durable": "true"})
    assert audited(broker) == [("unsubscribe", "guest", "someone.s", 1)]


@pytest.mark.parametrize("name", ["sub|global", "sub"])
async def test_a_global_subscription_is_ended_as_jms_clients_do(broker: Broker, name: str) -> None:
    """B23: `sub|global`, null source, link capabilities shared and global."""
    await subscribed(broker, name="sub|1", container="one", capabilities=["topic", "shared", "global"])
    await subscribed(broker, name="sub", container="two")
    assert queue_names(broker) == {"sub", "two.sub"}
    peer = await Peer(broker, "three").open()
    link = await peer.attach(name, receiver=True, desired_capabilities=["shared", "global"])
    assert (link.source.address, link.source.capabilities) == ("news", ["topic", "shared", "global"])
    await peer.detach(link, closed=True)
    assert queue_names(broker) == {"two.sub"}


async def test_a_global_subscription_is_shared_by_users_and_ended_by_its_own(broker: Broker) -> None:
    """B23: a user that may join a global subscription may not end that of another user."""
    add_user(broker, "other")
    capabilities = ["shared", "global"]
    await subscribed(broker, name="sub", capabilities=capabilities)
    peer = await open_as(broker, "other")
    link = await peer.receiver(
        None, source=Source("news", durable=2, capabilities=capabilities), name="sub|2", credit=1
    )
    assert bodies(await peer.deliveries()) == [b"kept"]
    await peer.detach(link, closed=True)
    link = await peer.attach("sub", receiver=True, desired_capabilities=capabilities)
    assert (await peer.refusal(link)).condition == conditions.NOT_FOUND
    assert queue_names(broker) == {"sub"}


@pytest.mark.parametrize("capabilities", [["shared"], ["shared", "global"]])
async def test_a_volatile_and_a_durable_shared_subscription_of_one_name(
    broker: Broker, capabilities: list[str]
) -> None:
    """B23: JMS has both at once; the second was refused with precondition-failed."""
    await subscribed(broker, name="sub", capabilities=capabilities)
    durable = "sub" if "global" in capabilities else "client.sub"
    volatile = f"{durable}:shared-volatile" + (":global" if "global" in capabilities else "")
    peer = await Peer(broker).open()
    source = Source("news", capabilities=capabilities)
    links = [await peer.receiver(None, source=source, name=f"sub|volatile{number}", credit=5) for number in (1, 2)]
    assert queue_names(broker) == {durable, volatile}
    await peer.publish(await peer.sender("news"), message(b"new"))
    (delivery,) = await peer.deliveries()
    await peer.settle(ACCEPTED, delivery)
    for link in links:
        await peer.detach(link, closed=True)
    assert queue_names(broker) == {durable}
    kept = await peer.receiver(None, source=Source("news", durable=2, capabilities=capabilities), name="sub", credit=5)
    assert bodies(await peer.deliveries()) == [b"kept", b"new"]
    await peer.detach(kept, closed=True)
    assert queue_names(broker) == set()


@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_sender_that_asks_for_second_gets_settled_dispositions(broker: Broker, *, pipelined: bool) -> None:
    """B24: clients that wait for a settled disposition (uamqp, pyamqp) hung, and sent again."""
    queue = queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", rcv_settle_mode=1, snd_settle_mode=0)
    assert sender.answer is not None
    assert sender.answer.rcv_settle_mode == 0
    fields = {"rcv_settle_mode": 1} if pipelined else {}
    await peer.send(peer.transfer(sender, message(), **fields))
    (told,) = await peer.all(Disposition)
    assert (told.settled, told.state) == (True, ACCEPTED)
    assert queue.order.count == 1


class CountingPeer(Peer):
    """A peer that notes how many fields each frame has, and how many its type has."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.counts: dict[str, set[tuple[int, int]]] = {}

    def _read(self) -> list[Received]:
        data = bytes(self.transport.written)
        at = 0
        while at < len(data):
            if data.startswith(b"AMQP", at):
                at += 8
                continue
            read = next_frame(data, at, len(data), MAX_FRAME_SIZE)
            assert read is not None
            code, start = read_descriptor(data, read.start, read.end, "frame body")
            definition = definition_by_code(int(code))
            assert definition is not None
            count, _, _ = list_bounds(data, start, read.end, definition.name)
            self.counts.setdefault(definition.name, set()).add((int(count), len(definition.fields)))
            at = read.end
        return super()._read()


async def test_frames_have_all_their_fields(broker: Broker) -> None:
    """B24: pyamqp reads the last field of begin, and the payload of a transfer, by position: its client failed."""
    peer = CountingPeer(broker)
    await peer.open(max_frame_size=512)
    queue_of(broker, "q")
    sender = await peer.sender("q")
    for body in (b"one", b"x" * 2000):
        await peer.send(peer.transfer(sender, message(body)))
    receiver = await peer.receiver("q", credit=3)
    deliveries = await peer.deliveries()
    assert bodies(deliveries) == [b"one", b"x" * 2000]
    await peer.credit(receiver, 1, drain=True)  # answered by a flow of the link
    await peer.send(Flow(0, 10, 0, 10, echo=True))  # by one of the session
    await peer.detach(await peer.sender("$cbs"), closed=True)
    await peer.detach(receiver, closed=True)
    await peer.end()
    await peer.send(Close())
    await peer.take()
    names = ("sasl-mechanisms", "sasl-outcome", "open", "begin", "attach", "flow", "transfer", "disposition", "detach")
    assert set(peer.counts) == {*names, "end", "close"}
    for name, counts in peer.counts.items():
        assert all(count == defined for count, defined in counts), (name, counts)


MANAGEMENT = ["$cbs", "$management", "/management", "orders/$management"]


@pytest.mark.parametrize("name", MANAGEMENT)
async def test_management_nodes_are_no_queues_over_amqp_1_0(broker: Broker, name: str) -> None:
    """B25: a queue was made of each, and the client waited for an answer."""
    peers = [await Peer(broker).open(), await open_as(broker, READER)]  # without configure permission as well
    for peer in peers:
        assert (await peer.refusal(await peer.receiver(name))).condition == conditions.NOT_FOUND
        assert (await peer.refusal(await peer.sender(name))).condition == conditions.NOT_FOUND
    state = await peers[0].publish(await peers[0].sender(None), message(to=name))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == conditions.NOT_FOUND
    link = await peers[0].receiver(None, source=Source(name, capabilities=["topic"]))
    assert (await peers[0].refusal(link)).condition == conditions.NOT_FOUND
    assert queue_names(broker) == set()


@pytest.mark.parametrize("name", MANAGEMENT)
async def test_nor_over_0_9_1_and_stomp(broker: Broker, name: str) -> None:
    """B25: in any protocol."""
    client = await Amqp091Peer(broker).open(1)
    declare = frame.marshal(commands.Queue.Declare(queue="_" * len(name), durable=True), 1)
    await client.send(1, declare.replace(b"_" * len(name), name.encode()))  # pamqp lets no $ pass
    close = await client.one(commands.Channel.Close)
    assert (close.reply_code, "is reserved for a management node" in close.reply_text) == (403, True)
    client = await Amqp091Peer(broker).open(1)  # an exchange would be found by the name in every protocol
    declare = frame.marshal(commands.Exchange.Declare(exchange="_" * len(name), exchange_type="fanout"), 1)
    await client.send(1, declare.replace(b"_" * len(name), name.encode()))
    close = await client.one(commands.Channel.Close)
    assert (close.reply_code, "is reserved for a management node" in close.reply_text) == (403, True)
    for command, headers in (
        ("SEND", {}),
        ("SEND", {"x-ring-size": "2"}),
        ("SUBSCRIBE", {"id": "1"}),
        ("SUBSCRIBE", {"id": "1", "x-ring-size": "2"}),
    ):
        stomp = await StompPeer(broker).open()
        await stomp.send(command, {"destination": f"/queue/{name}", **headers})
        assert "management node" in await stomp.error()
    assert queue_names(broker) == set()
