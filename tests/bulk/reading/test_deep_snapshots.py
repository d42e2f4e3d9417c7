"""A view of a deep queue shows what there was and still is, in any parts, and holds none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import UnavailableError
from annulet.bulk.protocol.schema import Row
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.reading import deep_snapshots
from annulet.bulk.reading.deep_snapshots import ViewRead
from annulet.bulk.reading.snapshots import SnapshotStore
from annulet.core.management import purge
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages import walk as walk_module
from tests.bulk.helpers import away, bench
from tests.core.helpers import NOW
from tests.core.management.bench import run
from tests.core.queue.test_deep_queue_scan import Site, deep_site
from tests.residency.doubles import bodies_of

COUNT = 40


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 5)
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 3)


def read_of(site: Site, selector: str = "", after: int = 0, upto: int = 1 << 40, skip: int = 0) -> ViewRead:
    store = SnapshotStore(lambda: NOW)
    name, _ = store.take("/", site.queue, selector)
    read = store.find("/", name).read(after, upto, skip)
    assert isinstance(read, ViewRead)
    return read


async def rest_of(read: ViewRead) -> list[Row]:
    found: list[Row] = []
    while (rows := await read.following()) is not None:
        found += rows
    return found


def numbers(rows: list[Row]) -> list[int]:
    assert [int(row.message.body) for row in rows] == [row.position for row in rows]
    return [row.position for row in rows]


@pytest.mark.parametrize("levels", [False, True], ids=["plain", "levels"])
async def test_it_shows_what_waits_and_what_is_in_delivery_and_brings_nothing_into_memory(levels: bool) -> None:
    site = deep_site(COUNT, levels=levels)
    site.take(4)
    site.send(2, durable=False)
    paged = site.queue.order.paged_count()
    store = SnapshotStore(lambda: NOW)
    name, count = store.take("/", site.queue)
    snapshot = store.find("/", name)
    assert (count, snapshot.places) == (COUNT + 2, (0, COUNT + 2))
    for _ in range(2):
        parts = [snapshot.read(after, upto, 0) for after, upto in ((0, 3), (3, 30), (30, COUNT + 2))]
        rows = [row for part in parts if isinstance(part, ViewRead) for row in await rest_of(part)]
        assert numbers(rows) == list(range(1, COUNT + 3)), "as often as a task is repeated"
    assert site.queue.order.paged_count() == paged


async def test_what_has_left_when_it_is_reached_is_not_shown() -> None:
    site = deep_site(COUNT)
    site.take(10)
    read = read_of(site)
    seen = await read.following()
    assert seen is not None
    assert numbers(seen) == [1, 2, 3, 4, 5]
    site.settle(9, back=False)  # 10
    site.settle(8, back=True)  # 9
    site.send(3)
    rows = await rest_of(read)
    assert numbers(rows) == [number for number in range(6, COUNT + 1) if number != 10]
    assert [(row.position, row.delivery_count, row.redelivered) for row in rows if row.redelivered] == [(9, 1, True)]
    read = read_of(site)
    run(purge(site.host, site.queue, user="anna", now=NOW))
    assert numbers(await rest_of(read)) == [1, 2, 3, 4, 5, 6, 7, 8], "what is in delivery was not purged"


async def test_rows_that_were_received_are_skipped() -> None:
    site = deep_site(COUNT)
    assert numbers(await rest_of(read_of(site, after=10, upto=30, skip=7))) == list(range(18, 31))
    assert numbers(await rest_of(read_of(site, after=17, upto=20))) == [18, 19, 20]


async def test_a_selector_chooses_when_rows_are_read() -> None:
    site = deep_site(COUNT)
    assert numbers(await rest_of(read_of(site, "n = 1"))) == list(range(1, COUNT + 1, 3))


async def test_damage_is_left_out_and_said() -> None:
    site = deep_site(COUNT)
    site.send(1, expires_at=NOW + 1000)
    bodies_of(site.queue, site.disk).let_all_go(1 << 60)
    site.disk.damaged.update([20, COUNT + 1])
    with capture_logs() as logs:
        rows = await rest_of(read_of(site))
    assert numbers(rows) == [number for number in range(1, COUNT + 1) if number != 20]
    assert [(line["damaged"], line["unreadable_for_its_selector"]) for line in logs] == [(2, 0)]


async def test_it_waits_for_the_disk_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_snapshots, "REFUSED_PAUSE_SECONDS", 0.001)
    site = deep_site(COUNT)
    site.disk.failing = True
    read = read_of(site)
    waiting = asyncio.create_task(rest_of(read))
    await asyncio.sleep(0.01)
    site.disk.failing = False
    assert numbers(await waiting) == list(range(1, COUNT + 1))
    monkeypatch.setattr(deep_snapshots, "REFUSED_MILLISECONDS", 5)
    site.disk.failing = True
    with pytest.raises(UnavailableError, match="does not give messages of queue 'q'"):
        await rest_of(read_of(site))


async def test_an_interrupted_read_goes_on_where_it_was_although_messages_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 256)
    async with bench(tmp_path, body_budget_bytes=1 << 20) as here:
        queue = here.declare("q")
        await here.publish("q", [b"%05d" % number for number in range(1, 6001)])
        assert here.broker.pager is not None
        while here.broker.pager.run():  # a slice ends by the processor's time, so one may be few messages
            pass
        assert queue.order.paged_count() > 4000

        async def settle() -> None:
            for entry in queue.acquire(6000, -1, here.broker.clock()):
                if entry.sequence <= 1000 or entry.sequence % 2:
                    queue.acknowledge(entry)
            await here.broker.commit.durable()

        def pause(seconds: float) -> None:
            assert seconds > 0
            asyncio.run_coroutine_threadsafe(settle(), here.broker.loop).result(30)

        client = BulkClient(parse_url(here.url), sleep=pause)
        chunks, failures = client._chunks, [1]

        def interrupted(reader: Any) -> Iterator[tuple[pa.RecordBatch, int | None]]:
            for number, chunk in enumerate(chunks(reader)):
                if failures == [number]:
                    failures.clear()
                    raise UnavailableError("connection reset")
                yield chunk

        monkeypatch.setattr(client, "_chunks", interrupted)

        def work() -> list[list[int]]:
            opened = client.act(protocol.OpenBrowse(queue="q"))
            assert (opened["rows"], opened["after"], opened["upto"]) == (6000, 0, 6000)
            ticket = protocol.BrowseTicket(snapshot=opened["snapshot"], after=0, upto=6000, columns=["position"])
            batches = [batch.column("position").to_pylist() for batch in client.get(ticket)]
            client.close()
            return batches

        first, *others = await away(work)
        assert first == list(range(1, len(first) + 1))
        left = range(max(len(first), 1000) + 1, 6001)
        assert [number for batch in others for number in batch] == [number for number in left if number % 2 == 0]
