"""Messages for a lease: all of them or what a selector admits, all or none when something fails half-way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet.bulk.protocol.errors import UnavailableError
from annulet.bulk.reading import acquisition
from annulet.bulk.reading.acquisition import Room, acquire, stop_choosing
from annulet.bulk.reading.lease import CompactDelivery, Lease
from annulet.core.queue.invariants import check_invariants
from tests.bulk.helpers import Bench, bench
from tests.bulk.reading.test_leases import numbered

EVERYTHING = Room(-1, -1, 0)


def lease_of(here: Bench, name: str = "q") -> Lease:
    return Lease("/", "l", here.host.queues[name], generated=False, now=0)


def positions(taken: list[CompactDelivery]) -> list[int]:
    return [message.entry.sequence for message in taken]


async def test_a_selector_takes_in_slices_and_stores_what_is_transient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquisition, "SLICE", 3)
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        for kind in range(2):
            await here.publish("q", numbered(8), headers={"kind": kind}, persistent=kind == 0)
        lease = lease_of(here)

        async def taken(room: Room, selector: str) -> list[CompactDelivery]:
            found: list[CompactDelivery] = []
            await acquire(here.broker, lease, found, room, selector)
            return found

        assert positions(await taken(Room(2, -1, 0), "kind = 1")) == [9, 10]
        assert positions(await taken(Room(-1, 8, 0), "kind = 1")) == [11, 12]
        rest = await taken(EVERYTHING, "kind = 1")
        assert positions(rest) == [13, 14, 15, 16]
        await here.broker.commit.durable()
        assert all(message.entry.message.record for message in rest)
        # The query has no selector any more.
        assert positions(await taken(Room(5, -1, 4), "")) == [1, 2, 3, 4]
        assert (lease.taker, queue.consumers.count) == (None, 0)
        check_invariants(queue)


async def test_what_was_found_goes_back_when_the_call_ends_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as here:
        queue = here.declare("q")
        lease = lease_of(here)
        taken: list[CompactDelivery] = []
        await acquire(here.broker, lease, taken, EVERYTHING, "kind = 1")
        assert (taken, lease.taker is not None) == ([], True)
        monkeypatch.setattr("annulet.bulk.reading.taker.SelectorTaker.looking", lambda self, last: True)
        calling = asyncio.create_task(acquire(here.broker, lease, taken, EVERYTHING, "kind = 1"))
        await asyncio.sleep(0)
        await here.publish("q", numbered(2), headers={"kind": 1})
        await calling
        assert positions(taken) == [1, 2]
        taken.clear()
        calling = asyncio.create_task(acquire(here.broker, lease, taken, EVERYTHING, "kind = 1"))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await here.publish("q", numbered(2), headers={"kind": 1})
        assert (taken, queue.order.count) == ([], 2)
        stop_choosing(lease, 0)


async def test_a_full_disk_is_told_and_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(1), headers={"kind": 1}, persistent=False)
        monkeypatch.setattr(here.broker, "accepts_durable", lambda size, now: False)
        with pytest.raises(UnavailableError, match="no room to keep transient messages"):
            await acquire(here.broker, lease_of(here), [], EVERYTHING, "kind = 1")
