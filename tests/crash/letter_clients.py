"""What clients and operators do to messages that leave one queue for another: dead letters, expiry, moves, copies.

For :mod:`tests.crash.mortal_broker`. Each step says, before it begins, which messages it may take from where to where
(:class:`Change`), and says so again when all of that was promised. The clock is that of deep clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from annulet.core.host.dead_letters import ORIGINAL_QUEUE
from annulet.core.management import (
    Operation,
    Selection,
    copy_messages,
    delete_messages,
    expire_messages,
    move_messages,
    retry_messages,
    select,
    send_to_dead_letters,
)
from annulet.core.management.operation import FINISHED
from annulet.core.queue.queue import Queue
from annulet.store.files.errors import StoreError
from tests.crash.deep_clients import COPIES, LIFE, NUMBER_MILLISECONDS, PARTS, DeepClients
from tests.crash.mortal_broker import KEYS, QUEUES, Clients, number_of

ATTEMPTS = 2
LENGTH = 8
LETTER_QUEUES: dict[str, dict[str, Any]] = {
    "refused": {"x-dead-letter-address": "dead"},
    "tries": {"x-dead-letter-address": "dead", "x-max-delivery-attempts": ATTEMPTS},
    "brief": {"x-message-ttl": LIFE, "x-expiry-address": "expired"},
    "narrow": {"x-max-length": LENGTH, "x-dead-letter-address": "dead", "x-dropped-address": "dropped"},
    "circle": {"x-ring-size": LENGTH, "x-dropped-address": "dropped"},
    "newest": {"x-last-value-key": "key", "x-dropped-address": "dropped"},
    "dead": {},
    "expired": {},
    "dropped": {},
    "aside": {},
    "copies": {},
}
LETTER_ROUND = (
    "refuse", "brief", "narrow", "circle", "tries", "newest", "shift", "together", "publish", "narrow", "lease",
    "circle", "tries", "expire", "remember", "duplicate", "retry", "condemn", "brief", "end", "refuse", "flood",
    "newest", "narrow", "delete", "tries", "shift", "expire", "circle", "retry", "refuse", "expire", "settle",
    "duplicate", "ring",
)  # fmt: skip
FLOOD = 230
"""More than what is forwarded at once: the rest goes in slices."""

TURNS_MAX = 2000
"""Of the loop, many times what any operation needs: longer waits only what the disk does not give."""


class Change(NamedTuple):
    """Messages, as pairs of number and sequence in ``queue``, and what becomes of them.

    ``verb`` is ``send`` to the queue, ``die`` in it, ``die together`` in one transaction, ``leave`` it for nowhere,
    ``return`` to it, ``move`` or ``copy`` from it ``to`` another one.
    """

    verb: str
    queue: str
    messages: list[tuple[int, int]]
    to: str = ""


class LetterClients(DeepClients):
    """The steps of ``LETTER_ROUND``, and those of other clients."""

    queues: ClassVar[dict[str, dict[str, Any]]] = {**QUEUES, **LETTER_QUEUES}
    copies = 1
    scale = Clients.scale

    def queue(self, name: str) -> Queue:
        return self.here.host.queues[name]

    def take(self, count: int) -> list[int]:
        numbers = super().take(count)
        self.tell("clock", self.clock())
        return numbers

    async def peek(self, name: str) -> list[tuple[int, int]]:
        """Return what is in a queue; what of it was on disk only is so again afterwards."""
        found = [(number_of(entry.message.body), entry.sequence) for entry in self.queue(name).browse()]
        await self.rest()
        return found

    async def attempt(self, work: Callable[[], object], *changes: Change) -> None:
        """Do it, wait until all copies are made and all of it is on disk."""
        letters, brief = self.here.host.dead_letters, self.queue("brief")
        failures = letters.failures
        facts = [self.clock(), changes]
        self.tell("try", "change", facts)
        work()
        for _ in range(TURNS_MAX):
            if not letters.waiting and brief.expiring is None:
                break
            await asyncio.sleep(0)
        await self.here.broker.commit.durable()
        if letters.waiting or letters.failures > failures:
            raise StoreError(f"copies were not made: {letters.last_failure}")
        self.tell("done", "change", facts)

    async def operate(
        self, begin: Callable[..., Operation], name: str, selection: Selection, *changes: Change, to: str = ""
    ) -> None:
        """Run an operation of an operator on a queue to its end."""
        where = (to,) if to else ()
        operation = begin(self.here.host, self.queue(name), selection, *where, user="operator", now=self.clock())

        def work() -> None:
            for _ in range(TURNS_MAX):
                if operation.step(self.clock()):
                    break
            if operation.state != FINISHED:
                operation.cancel(self.clock())
                raise StoreError(f"{operation.state}: {operation.reason}")

        await self.attempt(work, *changes)
        self.tell("operated", operation.action.name)

    async def send_all(self, name: str, count: int, *gone: Change, **facts: Any) -> None:
        """Publish so many to a queue, from which others go for it."""
        first = self.queue(name).next_sequence
        sent = [(number, first + place) for place, number in enumerate(self.take(count))]

        def work() -> None:
            for number, _ in sent:
                headers = {"part": number % PARTS, "key": number % KEYS} if name != "newest" else {"key": number % KEYS}
                self.send(name, number, **headers, **facts)

        await self.attempt(work, Change("send", name, sent), *gone)

    # ------------------------------------------------------------------ consumers refuse

    async def refuse(self) -> None:
        """Of five that were taken two are refused, one is done with and two come back."""
        await self.send_all("refused", 6)
        queue, now = self.queue("refused"), self.clock()
        entries = queue.acquire(5, -1, now)
        taken = [(number_of(entry.message.body), entry.sequence) for entry in entries]

        def work() -> None:
            for entry in entries[:2]:
                queue.reject(entry, now)
            for entry in entries[2:3]:
                queue.acknowledge(entry)
            queue.return_entries(entries[3:], now)

        await self.attempt(
            work,
            Change("die", "refused", taken[:2]), Change("leave", "refused", taken[2:3]),
            Change("return", "refused", taken[3:]),
        )  # fmt: skip

    async def together(self) -> None:
        """Refuse three in one transaction."""
        queue, now, effects = self.queue("refused"), self.clock(), self.here.host.effects
        entries = queue.acquire(3, -1, now)

        def work() -> None:
            effects.begin_transaction()
            try:
                for entry in entries:
                    queue.reject(entry, now)
            except StoreError:
                effects.abort_transaction()
                raise
            effects.end_transaction()

        taken = [(number_of(entry.message.body), entry.sequence) for entry in entries]
        await self.attempt(work, Change("die together", "refused", taken))

    async def tries(self) -> None:
        """All come back; what did so before has been tried often enough."""
        await self.send_all("tries", 4)
        queue, now = self.queue("tries"), self.clock()
        entries = queue.acquire(6, -1, now)
        last = [entry.delivery_count + 1 >= ATTEMPTS for entry in entries]
        taken = [(number_of(entry.message.body), entry.sequence) for entry in entries]
        await self.attempt(
            lambda: queue.return_entries(entries, now),
            Change("return", "tries", [pair for pair, gone in zip(taken, last, strict=True) if not gone]),
            Change("die", "tries", [pair for pair, gone in zip(taken, last, strict=True) if gone]),
        )

    # ------------------------------------------------------------------ time and limits

    async def brief(self) -> None:
        await self.send_all("brief", 6)

    async def flood(self) -> None:
        """So many as do not expire at once."""
        await self.send_all("brief", FLOOD)

    async def expire(self) -> None:
        """Let time pass until about half of what lives briefly has gone."""
        self.take(LIFE // 2 // NUMBER_MILLISECONDS)
        await self.attempt(lambda: self.queue("brief").tick(self.clock()), Change("expire", "brief", []))

    async def narrow(self) -> None:
        await self._push_out("narrow")

    async def circle(self) -> None:
        await self._push_out("circle")

    async def _push_out(self, name: str) -> None:
        pending, count = await self.peek(name), self.chance.randint(LENGTH // 2, LENGTH)
        gone = pending[: max(0, len(pending) + count - LENGTH)]
        await self.send_all(name, count, Change("die", name, gone))

    async def newest(self) -> None:
        """Of three keys each gets a value, and so the one before goes."""
        await self.send_all("newest", KEYS, Change("die", "newest", await self.peek("newest")))

    # ------------------------------------------------------------------ operators

    async def shift(self) -> None:
        part = self.chance.randrange(PARTS)
        moved = [pair for pair in await self.peek("refused") if pair[0] % PARTS == part][:5]
        change = Change("move", "refused", moved, "aside")
        await self.operate(move_messages, "refused", select(selector=f"part = {part}", limit=5), change, to="aside")

    async def _chosen(self, name: str, count: int) -> list[tuple[int, int]]:
        """Return some of what is in a queue, its first at least."""
        there = await self.peek(name)
        return sorted({*there[:1], *self.chance.sample(there, min(len(there), count - 1))})

    async def duplicate(self) -> None:
        chosen = await self._chosen("refused", 4)
        change = Change("copy", "refused", chosen, "copies")
        await self.operate(copy_messages, "refused", _these(chosen), change, to="copies")

    async def condemn(self) -> None:
        chosen = await self._chosen("refused", 2)
        await self.operate(send_to_dead_letters, "refused", _these(chosen), Change("die", "refused", chosen))

    async def end(self) -> None:
        chosen = await self._chosen("brief", 3)
        await self.operate(expire_messages, "brief", _these(chosen), Change("die", "brief", chosen))

    async def delete(self) -> None:
        chosen = await self._chosen("dropped", 4)
        await self.operate(delete_messages, "dropped", _these(chosen), Change("leave", "dropped", chosen))

    async def retry(self) -> None:
        """Send some back to where they died, but for those that would push others out there."""
        chosen: dict[str, list[tuple[int, int]]] = {"refused": [], "tries": []}
        for entry in self.queue("dead").browse():
            name = entry.message.origin.view.application_property(entry.message, ORIGINAL_QUEUE)
            if name in chosen and len(chosen[name]) < 2:
                chosen[name].append((number_of(entry.message.body), entry.sequence))
        await self.rest()
        changes = [Change("move", "dead", pairs, name) for name, pairs in chosen.items()]
        await self.operate(retry_messages, "dead", _these([*chosen["refused"], *chosen["tries"]]), *changes)


class DeepLetterClients(LetterClients):
    """The same with bodies of which few are in memory."""

    copies = COPIES
    scale = DeepClients.scale


def _these(messages: list[tuple[int, int]]) -> Selection:
    return select(ids=[sequence for _, sequence in messages])
