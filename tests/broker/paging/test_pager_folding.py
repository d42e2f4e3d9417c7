"""What came back without its body: when the pager makes rows of it, and when it does not try."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.paging import pager as pager_module
from annulet.broker.paging.pager import Pager
from annulet.core.deliveries.bodies import bring_back
from annulet.core.model.entry_holds import Pin
from annulet.core.paging.paged_fifo import KEEP_MESSAGES, PagedFifo
from annulet.core.queue.returning import return_many
from annulet.residency.bodies.budget import MIB
from tests.residency.acceptance.deep import Deep, deep_broker

COUNT = 2500
BACK = 2000


async def came_back(deep: Deep) -> tuple[Pager, PagedFifo]:
    """Have ``BACK`` messages delivered and given back whose bodies are on disk; nothing has run since."""
    await deep.declare("q")
    await deep.publish(range(COUNT))
    queue, now, pager = deep.queue(), deep.clock(), deep.broker.pager
    assert pager is not None
    queue.return_entries(queue.acquire(BACK, -1, now), now)
    pager.bodies_of(queue).let_all_go(deep.broker.log.written_below)
    assert isinstance(queue.order, PagedFifo)
    assert queue.order.came_back() == BACK
    return pager, queue.order


@pytest.mark.parametrize(("missing", "left"), [(-1, KEEP_MESSAGES), (0, KEEP_MESSAGES), (1, BACK)])
async def test_what_came_back_without_its_body_becomes_rows_when_it_is_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, left: int
) -> None:
    async with deep_broker(tmp_path) as deep:
        _, order = await came_back(deep)
        monkeypatch.setattr(pager_module, "FOLDED_LEAST", BACK + missing)
        await deep.settled()
        assert order.came_back() == left
        assert await deep.drained() == list(range(COUNT))


async def test_what_still_has_its_body_goes_with_what_came_back_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "FOLDED_LEAST", 400)
    monkeypatch.setattr(pager_module, "CHUNK", 100)
    async with deep_broker(tmp_path) as deep:
        pager, order = await came_back(deep)
        pager.budget.limit = 64 * MIB
        bodies = pager.bodies_of(deep.queue())
        for entry in sorted(order._returned.entries())[: BACK - 500]:
            entry.message.arrive(entry.message.body)
            bring_back(entry, bodies)
        await deep.settled()
        assert order.came_back() < KEEP_MESSAGES + 100
        assert await deep.drained() == list(range(COUNT))


async def test_what_can_be_no_row_is_not_tried_again_before_there_is_much_more_or_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "FOLDED_LEAST", BACK // 2)
    monkeypatch.setattr(pager_module, "CHUNK", 10)
    async with deep_broker(tmp_path) as deep:
        _, order = await came_back(deep)
        pins = [Pin(deep.queue(), COUNT)]
        back = []
        for taken in (0, 9, 1):
            back.append(order.came_back())
            await deep.settled()
            pins.clear()  # from now on all could
            deep.queue().acquire(taken, -1, deep.clock())
        assert back == [BACK, BACK, BACK - 9], "not tried again"
        await deep.settled()
        assert order.came_back() < BACK - 500


async def test_what_is_still_on_its_way_back_says_nothing_about_what_can_be_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "FOLDED_LEAST", BACK // 2)
    async with deep_broker(tmp_path) as deep:
        pager, order = await came_back(deep)
        queue, now = deep.queue(), deep.clock()
        return_many(queue, queue.acquire(2, -1, now), now, 1, counted=True)
        assert queue.returns, "one is back, the other is not"
        deep.tick()
        pager.run()
        assert order.came_back() == BACK - 1
        await deep.settled()
        assert not queue.returns
        assert order.came_back() == KEEP_MESSAGES
        assert await deep.drained() == list(range(COUNT))


async def test_what_could_be_no_row_and_has_left_says_nothing_about_what_comes_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "FOLDED_LEAST", BACK // 2)
    async with deep_broker(tmp_path) as deep:
        pager, order = await came_back(deep)
        queue, now = deep.queue(), deep.clock()
        pins = [Pin(deep.queue(), COUNT)]
        await deep.settled()
        taken = queue.acquire(BACK, -1, now)
        await deep.settled()
        pins.clear()
        queue.return_entries(taken, now)
        pager.bodies_of(queue).let_all_go(deep.broker.log.written_below)
        await deep.settled()
        assert order.came_back() == KEEP_MESSAGES


async def test_a_queue_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async with deep_broker(tmp_path) as deep:
        pager, _ = await came_back(deep)
        queue = deep.queue()
        pager._folding[queue], pager._unfolded[queue] = None, BACK
        deep.broker.hosts["/"].delete_queue(queue, deep.clock())
        await deep.settled()
        assert (pager._folding, pager._unfolded) == ({}, {})
