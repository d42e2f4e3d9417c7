"""Any interleaving of sends, settlements, transactions, subscriptions and losses neither loses nor doubles."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from annulet.broker.broker import Broker
from tests.broker.stomp.peer import Peer
from tests.hypothesis_profiles import state_machine_settings

PEERS: Final = 2
STEPS_MAX: Final = 40
MODES: Final = ("auto", "client", "client-individual")

peers = st.integers(0, PEERS - 1)
small = st.integers(0, 5)
STEPS = st.one_of(
    *(
        st.tuples(st.just(name), peers, small)
        for name in ("send", "subscribe", "unsubscribe", "acknowledge", "refuse", "drop", "begin", "send_inside")
    ),
    *(
        st.tuples(st.just(name), peers, small)
        for name in ("acknowledge_inside", "refuse_inside", "drop_inside", "commit", "abort", "lose", "disconnect")
    ),
)


class Held:
    """A delivery that waits to be settled."""

    def __init__(self, body: str, settled_by: str, subscription: str, mode: str) -> None:
        self.body = body
        self.settled_by = settled_by
        self.tag = int(settled_by.rpartition("-")[2])
        self.subscription = subscription
        self.mode = mode


class Open:
    """What a transaction will do."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.acknowledged: list[Held] = []
        self.returned: list[Held] = []


class Client:
    """A peer, and what it and the broker should agree on."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.modes: dict[str, str] = {}
        self.live: list[str] = []  # subscriptions that have not ended
        self.held: list[Held] = []  # in the order of their tags
        self.transactions: dict[str, Open] = {}


class World:
    """The clients of one queue, and the messages that must be in it or with one of them."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.destination = f"/queue/{name}"
        self.there: set[str] = set()
        self.numbers = count()
        self.clients: list[Client] = []

    async def open(self) -> None:
        """Connect, with something to settle and to settle it in: random steps would mostly have nothing to do."""
        self.clients = [Client(await Peer(self.broker).open()) for _ in range(PEERS)]
        for number, client in enumerate(self.clients):
            await self.subscribe(client, number + 1)
            await self.begin(client, 0)
            for _ in range(4):
                await self.step("send", number, 0)

    async def collect(self) -> None:
        """Take what was delivered: each message is one that is there, and with nobody else."""
        for client in self.clients:
            await client.peer.settle()
            for frame in client.peer.take():
                assert frame.command == "MESSAGE", frame
                body, subscription = frame.body.decode(), frame.headers["subscription"]
                assert body in self.there, f"{body} was delivered and is gone"
                assert body not in self.outstanding(), f"{body} was delivered twice"
                mode = client.modes[subscription]
                if mode == "auto":
                    self.there.remove(body)
                else:
                    client.held.append(Held(body, frame.headers["ack"], subscription, mode))

    def outstanding(self) -> set[str]:
        found = set()
        for client in self.clients:
            opened = client.transactions.values()
            inside = [held for one in opened for held in (*one.acknowledged, *one.returned)]
            found |= {held.body for held in (*client.held, *inside)}
        return found

    def named(self, client: Client, number: int) -> list[Held]:
        """Return what settling one of the deliveries settles; they are no longer outstanding."""
        last = client.held[number % len(client.held)]
        found = [last]
        if last.mode == "client":
            same = [held for held in client.held if held.subscription == last.subscription]
            found = [held for held in same if held.tag <= last.tag]
        client.held = [held for held in client.held if held not in found]
        return found

    async def step(self, name: str, number: int, choice: int) -> None:
        client = self.clients[number]
        if name.endswith("_inside"):
            if client.transactions:
                transaction = list(client.transactions)[choice % len(client.transactions)]
                await getattr(self, name)(client, transaction, client.transactions[transaction], choice)
        elif name in {"commit", "abort"}:
            if client.transactions:
                transaction = list(client.transactions)[choice % len(client.transactions)]
                await getattr(self, name)(client, transaction, client.transactions.pop(transaction))
        else:
            await getattr(self, name)(client, choice)
        await self.collect()

    # ------------------------------------------------------------------ steps

    async def send(self, client: Client, _: int) -> None:
        body = f"m{next(self.numbers)}"
        self.there.add(body)
        await client.peer.send("SEND", {"destination": self.destination}, body.encode())

    async def subscribe(self, client: Client, choice: int) -> None:
        identifier = f"s{next(self.numbers)}"
        client.modes[identifier] = MODES[choice % 3]
        client.live.append(identifier)
        prefetch = {"prefetch-count": "2"} if choice > 2 else {}
        given = {"id": identifier, "destination": self.destination, "ack": MODES[choice % 3], **prefetch}
        await client.peer.send("SUBSCRIBE", given)

    async def unsubscribe(self, client: Client, choice: int) -> None:
        if client.live:
            await client.peer.send("UNSUBSCRIBE", id=client.live.pop(choice % len(client.live)))

    async def acknowledge(self, client: Client, choice: int) -> None:
        if client.held:
            found = self.named(client, choice)
            self.there -= {held.body for held in found}
            await client.peer.send("ACK", id=found[-1].settled_by)

    async def refuse(self, client: Client, choice: int) -> None:
        if client.held:
            await client.peer.send("NACK", id=self.named(client, choice)[-1].settled_by)

    async def drop(self, client: Client, choice: int) -> None:
        if client.held:
            found = self.named(client, choice)
            self.there -= {held.body for held in found}
            await client.peer.send("NACK", id=found[-1].settled_by, requeue="false")

    async def begin(self, client: Client, _: int) -> None:
        name = f"t{next(self.numbers)}"
        client.transactions[name] = Open()
        await client.peer.send("BEGIN", transaction=name)

    async def send_inside(self, client: Client, name: str, opened: Open, _: int) -> None:
        body = f"m{next(self.numbers)}"
        opened.sent.append(body)
        await client.peer.send("SEND", {"destination": self.destination, "transaction": name}, body.encode())

    async def acknowledge_inside(self, client: Client, name: str, opened: Open, choice: int) -> None:
        if client.held:
            found = self.named(client, choice)
            opened.acknowledged += found
            await client.peer.send("ACK", id=found[-1].settled_by, transaction=name)

    async def refuse_inside(self, client: Client, name: str, opened: Open, choice: int) -> None:
        if client.held:
            found = self.named(client, choice)
            opened.returned += found
            await client.peer.send("NACK", id=found[-1].settled_by, transaction=name)

    async def drop_inside(self, client: Client, name: str, opened: Open, choice: int) -> None:
        if client.held:
            found = self.named(client, choice)
            opened.acknowledged += found
            await client.peer.send("NACK", id=found[-1].settled_by, transaction=name, requeue="false")

    async def commit(self, client: Client, name: str, opened: Open) -> None:
        self.there |= set(opened.sent)
        self.there -= {held.body for held in opened.acknowledged}
        await client.peer.send("COMMIT", transaction=name)

    async def abort(self, client: Client, name: str, opened: Open) -> None:
        back = [*client.held, *opened.acknowledged, *opened.returned]
        client.held = sorted(back, key=lambda held: held.tag)
        await client.peer.send("ABORT", transaction=name)

    async def lose(self, client: Client, _: int) -> None:
        client.peer.lose()
        await self.replace(client)

    async def disconnect(self, client: Client, _: int) -> None:
        await client.peer.send("DISCONNECT")
        await self.replace(client)

    async def forget(self, client: Client) -> None:
        """A connection has ended: what it held went back, perhaps to the other one."""
        await client.peer.settle()
        client.held.clear()
        client.transactions.clear()
        client.live.clear()
        client.modes.clear()
        client.peer.transport.written.clear()
        await self.collect()

    async def replace(self, client: Client) -> None:
        await self.forget(client)
        client.peer = await Peer(self.broker).open()
        await self.subscribe(client, next(self.numbers) % 3)
        await self.begin(client, 0)

    async def check(self) -> None:
        """What is there can all be had, once."""
        for client in self.clients:
            client.peer.lose()
            await self.forget(client)
        last = Peer(self.broker)
        await last.open()
        await last.send("SUBSCRIBE", id="last", destination=self.destination)
        assert sorted(frame.body.decode() for frame in last.take()) == sorted(self.there)
        last.lose()
        await last.settle()


names = count()


@state_machine_settings(examples=40, steps=STEPS_MAX)
@given(steps=st.lists(STEPS, min_size=20, max_size=STEPS_MAX))
def test_nothing_is_lost_or_doubled(shared: tuple[asyncio.Runner, Broker], steps: list[tuple[str, int, int]]) -> None:
    runner, broker = shared

    async def run() -> None:
        name = f"q{next(names)}"
        host = broker.hosts["/"]
        queue = host.declare_queue(name, now=broker.clock())
        world = World(broker, name)
        await world.open()
        for step in steps:
            await world.step(*step)
        await world.check()
        assert not queue.delivering
        host.delete_queue(queue, broker.clock())

    runner.run(run())
