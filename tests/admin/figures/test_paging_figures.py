"""What a broker tells of paging: everything is 0 where nothing pages, and counts where something does."""

from __future__ import annotations

from pathlib import Path

from annulet import testing
from annulet.admin.figures.paging_figures import paging_counters, paging_gauges
from tests.residency.acceptance.deep import deep_broker

COUNT = 3000


async def test_a_broker_in_memory_tells_the_same_figures_all_0() -> None:
    async with testing.broker(http=False) as running:
        figures = {**paging_counters(running.broker), **paging_gauges(running.broker)}
    assert {value for _, value in figures.values()} == {0}
    assert all(text for text, _ in figures.values())


async def test_figures_of_a_queue_that_pages(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        assert {*paging_counters(deep.broker)} & {*paging_gauges(deep.broker)} == set()
        await deep.declare("q")
        await deep.publish(range(COUNT))
        deep.tick()
        counters = {name: value for name, (_, value) in paging_counters(deep.broker).items()}
        gauges = {name: value for name, (_, value) in paging_gauges(deep.broker).items()}
        queue = deep.queue()
        assert counters["paging_messages_paged_out"] == queue.order.paged_count() > 0
        assert gauges["queues_paging"] == 1
        assert counters["accounting_recounts"] == 1
        assert gauges["accounting_recounted_messages_most"] == queue.order.count - queue.order.paged_count()
        assert (counters["paging_messages_found_by_tick"], gauges["accounting_drift_bytes"]) == (0, 0)
        deep.paging.found_by_tick = 3
        assert paging_counters(deep.broker)["paging_messages_found_by_tick"][1] == 3
        deep.paging.found_by_tick = 0
