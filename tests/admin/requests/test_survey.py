from __future__ import annotations

import asyncio

from annulet.admin.requests.survey import SLICE, survey
from tests.admin.conftest import Site


async def test_other_tasks_get_a_turn_after_every_slice(site: Site) -> None:
    for number in range(SLICE * 4):
        site.queue(f"q{number}")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    names = [statistics.name async for _, statistics in survey(site.broker.hosts.values())]
    counter.cancel()
    assert len(names) == SLICE * 4
    assert turns >= 4


async def test_queues_deleted_meanwhile_are_left_out(site: Site) -> None:
    for number in range(SLICE + 1):
        site.queue(f"q{number}")
    seen = []
    async for _, statistics in survey(site.broker.hosts.values()):
        if not seen:
            host = site.broker.hosts["/"]
            host.delete_queue(host.queues[f"q{SLICE}"], site.clock())
        seen.append(statistics.name)
    assert len(seen) == SLICE


async def test_only_queues_with_matching_names(site: Site) -> None:
    for name in ("orders", "bills", "orders.old"):
        site.queue(name)
    found = survey(site.broker.hosts.values(), lambda name: name.startswith("orders"))
    assert [statistics.name async for _, statistics in found] == ["orders", "orders.old"]
