"""Which queues a tick looks after, and which are asked again, when there are many."""

from __future__ import annotations

from pathlib import Path

import pytest
from pamqp import commands

from annulet.broker.paging import pager as pager_module
from annulet.core.queue.queue import Queue
from annulet.residency.bodies import account_audit
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.budget import Recount
from annulet.residency.bodies.candidates import FREED_MOST
from annulet.residency.bodies.small_queues import FLOOR_LEAST
from tests.broker.amqp091.peer import Peer
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
            pager.bodies_of(deep.queue(name))
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
        pager.bodies_of(queue)
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
        bodies = pager.bodies_of(queue)
        await deep.publish(range(20), size=4096)
        pager.bodies_of(queue)
        assert (bodies.load_messages, bodies.load_bytes) == pager.budget.front_of(queue)


async def test_queues_that_are_noted_at_once_are_tidied_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came to ten queues with 60,000 bodies in memory each had all of these looked through in one turn: 30 ms."""
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        queues = [await deep.declare(f"q{number}") for number in range(3)]
        for queue in queues:
            pager.bodies_of(queue)
        tidied: list[Queue] = []
        with monkeypatch.context() as patch:
            patch.setattr(StoredBodies, "tidy", lambda bodies: tidied.append(bodies.queue) or True)
            patch.setattr(pager, "_slice_end", lambda began: began)
            pager.notes.queues.update(queues)
            more = [(pager.run(), len(tidied)) for _ in queues]
        assert more == [(True, 1), (True, 2), (False, 3)]
        assert set(tidied) == set(queues)


async def test_what_is_gone_is_let_go_of_turn_by_turn_though_nothing_comes(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        queue = await deep.declare("q")
        await deep.publish([0])
        bodies = pager.bodies_of(queue)
        bodies.wait(queue.order.in_memory() * (2 * FREED_MOST + 1))
        peer = await Peer(deep.broker).open(1)
        await peer.send(1, commands.Queue.Purge(queue="q"))
        deep.tick()
        assert bodies.untidy
        turns = 1
        while pager.run():
            turns += 1
        assert (turns, bodies.untidy) == (2, False)
