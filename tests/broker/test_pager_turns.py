"""Which queues a tick looks after, and which are asked again, when there are many."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker import pager as pager_module
from annulet.core.queue import Queue
from annulet.residency import account_audit
from annulet.residency.budget import Recount
from annulet.residency.small_queues import FLOOR_LEAST
from tests.residency.acceptance.deep import deep_broker

TENDED = 3


async def test_every_queue_is_tended_and_counted_whatever_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "TENDED", TENDED)
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        names = [f"q{number}" for number in range(TENDED + 1)]
        for name in names:
            await deep.declare(name)
            await deep.publish([0], name)
            pager._bodies_of(deep.queue(name))
        counted: list[Queue] = []
        tended: list[Queue] = []
        monkeypatch.setattr(account_audit, "Recount", lambda queue: counted.append(queue) or Recount(queue))
        monkeypatch.setattr(pager, "_foldable", tended.append)
        for _ in range(len(names)):
            deep.tick()
        assert {queue.name for queue in counted} == {queue.name for queue in tended} == set(names)


async def test_who_had_nothing_to_page_is_asked_when_the_floor_changed(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        queue = await deep.declare("q")
        await deep.publish(range(100))
        pager._bodies_of(queue)
        pager._stuck[queue] = None
        pager.small._set(FLOOR_LEAST)
        while pager.small.go_on():
            pass
        assert queue not in pager._stuck


async def test_bodies_are_bounded_by_the_messages_there_are_now(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        queue = await deep.declare("q", x_last_value_key="none")
        pager.budget.floor = FLOOR_LEAST
        bodies = pager._bodies_of(queue)
        await deep.publish(range(20), size=4096)
        pager._bodies_of(queue)
        assert (bodies.load_messages, bodies.load_bytes) == pager.budget.front_of(queue)
