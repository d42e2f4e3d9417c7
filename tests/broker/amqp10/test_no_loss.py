"""Any interleaving of sends, credit, outcomes, transactions, detaches, ends and losses neither loses nor doubles."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from annulet.broker.broker import Broker
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Modified,
    Outcome,
    Rejected,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.frames.performatives import Source
from annulet.wire.amqp10.frames.terminus import DURABLE_UNSETTLED_STATE, Coordinator
from tests.broker.amqp10.peer import ACCEPTED, Delivery, Peer, PeerLink, bodies, message, queue_of, value
from tests.hypothesis_profiles import state_machine_settings

SESSIONS: Final = 2
STEPS_MAX: Final = 50
OUTCOMES: Final[tuple[Outcome | None, ...]] = (
    Accepted(),
    Rejected(),
    Released(),
    Modified(),
    Modified(delivery_failed=True),
    Modified(delivery_failed=True, undeliverable_here=True, message_annotations={"x-opt-seen": 1}),
    None,
)
FINAL: Final = (Accepted, Rejected)

small = st.integers(0, 5)
channels = st.integers(0, SESSIONS - 1)
STEPS = st.one_of(
    st.tuples(st.just("publish"), channels, small),
    st.tuples(st.just("attach"), channels, st.sampled_from([0, 1, 2])),
    st.tuples(st.just("attach_lasting"), channels, small),
    st.tuples(st.just("credit"), small, small),
    st.tuples(st.just("drain"), small, small),
    st.tuples(st.just("settle"), small, st.integers(0, len(OUTCOMES) - 1)),
    st.tuples(st.just("settle_unsettled"), small, st.integers(0, len(OUTCOMES) - 1)),
    st.tuples(st.just("declare"), channels, small),
    st.tuples(st.just("publish_inside"), small, small),
    st.tuples(st.just("enlist"), small, st.integers(0, len(OUTCOMES) - 1)),
    st.tuples(st.just("enlist_unsettled"), small, st.integers(0, len(OUTCOMES) - 1)),
    st.tuples(st.just("commit"), small, small),
    st.tuples(st.just("roll_back"), small, small),
    st.tuples(st.just("detach"), small, small),
    st.tuples(st.just("end"), channels, small),
    st.tuples(st.just("lose"), small, small),
)


class Held:
    """A delivery the client has and the broker waits for."""

    def __init__(self, channel: int, link: PeerLink, delivery: Delivery) -> None:
        self.channel = channel
        self.link = link
        self.delivery = delivery
        self.transaction: Open | None = None
        self.outcome: Outcome | None = None
        self.settled = False  # inside the transaction
        self.link_gone = False  # while it is inside
        self.suspended = False  # its link is, or has been attached again and this was not resumed yet


class Open:
    """A transaction and what was sent inside it."""

    def __init__(self, channel: int, identifier: bytes) -> None:
        self.channel = channel
        self.identifier = identifier
        self.sent: list[bytes] = []


class Client:
    """A client and what has to be true of the queue ``name``: ``ready`` is in it, in the order of ``entered``."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.peer = Peer(broker)
        self.published = 0
        self.ready: set[bytes] = set()
        self.entered: list[bytes] = []  # what the queue ever got
        self.held: list[Held] = []
        self.links: list[PeerLink] = []
        self.senders: dict[int, PeerLink] = {}
        self.coordinators: dict[int, PeerLink] = {}
        self.open: list[Open] = []

    async def step(self, kind: str, first: int, second: int) -> None:
        await getattr(self, kind)(first, second)
        for item in await self.peer.take():
            for delivery in self.peer.deliveries_among([item]):
                self.arrived(item.channel, delivery)

    def arrived(self, channel: int, delivery: Delivery) -> None:
        link = self.peer.links[channel, delivery.handle]
        for held in self.held:
            if held.suspended and held.delivery.body == delivery.body:
                assert (channel, link.name, delivery.tag) == (held.channel, held.link.name, held.delivery.tag)
                assert delivery.resume
                held.link, held.delivery, held.suspended = link, delivery, False
                return
        assert delivery.body in self.ready, f"{delivery.body!r} came twice, or after it was settled"
        self.ready.remove(delivery.body)
        if not delivery.settled:
            self.held.append(Held(channel, link, delivery))

    # ------------------------------------------------------------------ messages

    def new_body(self) -> bytes:
        self.published += 1
        return b"%04d" % self.published

    def enter(self, body: bytes) -> None:
        self.ready.add(body)
        self.entered.append(body)

    async def sender(self, channel: int) -> PeerLink:
        if channel not in self.senders:
            self.senders[channel] = await self.peer.sender(self.name, name=f"sender-{channel}", channel=channel)
        return self.senders[channel]

    async def publish(self, channel: int, number: int) -> None:
        sender = await self.sender(channel)
        for _ in range(number):
            body = self.new_body()
            self.enter(body)
            assert await self.peer.publish(sender, message(body)) == ACCEPTED

    async def attach(self, channel: int, snd_settle_mode: int) -> None:
        link = await self.peer.receiver(self.name, channel=channel, snd_settle_mode=snd_settle_mode, credit=2)
        self.links.append(link)

    async def attach_lasting(self, channel: int, credit: int) -> None:
        name = f"lasting-{channel}"
        if all(link.name != name for link in self.links):
            unsettled = {held.delivery.tag: None for held in self.held if held.suspended and held.link.name == name}
            source = Source(self.name, durable=DURABLE_UNSETTLED_STATE)
            link = await self.peer.receiver(
                None, source=source, name=name, channel=channel, unsettled=unsettled, credit=credit
            )
            self.links.append(link)

    async def credit(self, which: int, credit: int) -> None:
        if self.links:
            await self.peer.credit(self.links[which % len(self.links)], credit)

    async def drain(self, which: int, credit: int) -> None:
        if self.links:
            await self.peer.credit(self.links[which % len(self.links)], credit, drain=True)

    # ------------------------------------------------------------------ outcomes

    def give(self, held: Held, outcome: Outcome | None) -> None:
        self.held.remove(held)
        if not isinstance(outcome, FINAL):
            self.ready.add(held.delivery.body)

    def free(self, which: int) -> Held | None:
        free = [held for held in self.held if held.transaction is None and not held.suspended]
        return free[which % len(free)] if free else None

    async def settle(self, which: int, outcome: int, *, settled: bool = True) -> None:
        held = self.free(which)
        state: DeliveryState | None = OUTCOMES[outcome]
        if held is not None and (settled or state is not None):
            self.give(held, OUTCOMES[outcome])
            await self.peer.settle(state, held.delivery, settled=settled, channel=held.channel)

    async def settle_unsettled(self, which: int, outcome: int) -> None:
        await self.settle(which, outcome, settled=False)

    # ------------------------------------------------------------------ transactions

    async def declare(self, channel: int, _: int) -> None:
        if channel not in self.coordinators:
            self.coordinators[channel] = await self.peer.attach(
                f"coordinator-{channel}", receiver=False, channel=channel, target=Coordinator()
            )
        state = await self.peer.publish(self.coordinators[channel], value(Declare()))
        assert isinstance(state, Declared)
        self.open.append(Open(channel, bytes(state.txn_id)))

    async def publish_inside(self, which: int, _: int) -> None:
        if self.open:
            transaction = self.open[which % len(self.open)]
            sender = await self.sender(transaction.channel)
            transaction.sent.append(self.new_body())
            state = TransactionalState(transaction.identifier)
            answer = await self.peer.publish(sender, message(transaction.sent[-1]), state=state)
            assert answer == TransactionalState(transaction.identifier, Accepted())

    async def enlist(self, which: int, outcome: int, *, settled: bool = True) -> None:
        held = self.free(which)
        inside = [transaction for transaction in self.open if held is not None and transaction.channel == held.channel]
        if held is not None and inside and OUTCOMES[outcome] is not None:
            held.transaction = inside[which % len(inside)]
            held.outcome, held.settled = OUTCOMES[outcome], settled
            state = TransactionalState(held.transaction.identifier, held.outcome)
            await self.peer.settle(state, held.delivery, settled=settled, channel=held.channel)

    async def enlist_unsettled(self, which: int, outcome: int) -> None:
        await self.enlist(which, outcome, settled=False)

    async def commit(self, which: int, _: int, *, fail: bool = False) -> None:
        if not self.open:
            return
        transaction = self.open.pop(which % len(self.open))
        answer = await self.peer.publish(
            self.coordinators[transaction.channel], value(Discharge(transaction.identifier, fail))
        )
        for held in [held for held in self.held if held.transaction is transaction]:
            if answer == ACCEPTED and not fail:
                self.give(held, held.outcome)
            else:
                self.rolled_back(held)
        if answer == ACCEPTED and not fail:
            for body in transaction.sent:
                self.enter(body)

    async def roll_back(self, which: int, _: int) -> None:
        await self.commit(which, _, fail=True)

    def rolled_back(self, held: Held) -> None:
        if held.settled or held.link_gone:
            self.give(held, Released())
        else:
            held.transaction = None

    # ------------------------------------------------------------------ ends

    async def detach(self, which: int, closed: int) -> None:
        if self.links:
            link = self.links.pop(which % len(self.links))
            suspended = link.name.startswith("lasting") and not closed % 2
            for held in [held for held in self.held if held.link.name == link.name]:
                if held.transaction is not None:
                    held.link_gone = True  # its outcome comes with the discharge
                elif suspended:
                    held.suspended = True
                else:
                    self.give(held, Released())
            await self.peer.detach(link, closed=bool(closed % 2))

    def session_gone(self, channel: int) -> None:
        for held in [held for held in self.held if held.channel == channel]:
            self.give(held, Released())
        self.links = [link for link in self.links if link.channel != channel]
        self.open = [transaction for transaction in self.open if transaction.channel != channel]
        self.senders.pop(channel, None)
        self.coordinators.pop(channel, None)

    async def end(self, channel: int, _: int) -> None:
        self.session_gone(channel)
        others = self.peer.kept
        await self.peer.send(self.peer.ended(channel))
        self.peer.kept = others + await self.peer.take()
        await self.peer.begin(channel)

    async def lose(self, _: int, __: int) -> None:
        for channel in range(SESSIONS):
            self.session_gone(channel)
        await self.peer.lose()
        self.peer = await Peer(self.broker).open(sessions=SESSIONS)

    async def check(self) -> None:
        """What is ready is all there, once, in order."""
        await self.lose(0, 0)
        await self.peer.receiver(None, source=Source(self.name), credit=1000)
        assert bodies(await self.peer.deliveries()) == sorted(self.ready, key=self.entered.index)
        await self.peer.lose()


names = count()


@state_machine_settings(examples=150, steps=STEPS_MAX)
@given(steps=st.lists(STEPS, min_size=5, max_size=STEPS_MAX))
def test_nothing_is_lost_or_doubled(shared: tuple[asyncio.Runner, Broker], steps: list[tuple[str, int, int]]) -> None:
    runner, broker = shared

    async def run() -> None:
        name = f"q{next(names)}"
        queue = queue_of(broker, name, durable=False)
        client = Client(broker, name)
        await client.peer.open(sessions=SESSIONS)
        prelude = [("attach", channel, 0) for channel in range(SESSIONS)]
        try:
            for kind, first, second in [*prelude, ("publish", 0, 3), *steps]:
                await client.step(kind, first, second)
            await client.check()
        finally:
            await client.peer.lose()
            broker.hosts["/"].delete_queue(queue, broker.clock())

    runner.run(run())
