"""Requests that wait for a message."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError
from annulet.bulk.reading.waiting import WAIT_MILLISECONDS_MAX, first_answer
from tests.bulk.helpers import away, bench, bulk_client

LONG = WAIT_MILLISECONDS_MAX


def never() -> bool:
    return False


async def test_an_answer_that_has_something_does_not_wait(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        asked: list[int] = []

        async def ask() -> int:
            asked.append(0)
            return len(asked)

        assert await first_answer(queue, LONG, ask, lambda answer: answer == 1, never) == 1
        assert await first_answer(queue, 0, ask, lambda _: False, never) == 2, "no wait was asked for"
        assert await first_answer(queue, 1, ask, lambda _: False, never) == 3, "the queue did not change"


async def test_it_is_asked_again_when_the_queue_has_changed(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        asked: list[int] = []

        async def ask() -> int:
            asked.append(0)
            return len(asked)

        waiting = asyncio.create_task(first_answer(queue, LONG, ask, lambda answer: answer == 3, never))
        for count in (1, 2):
            while len(asked) < count:  # noqa: ASYNC110 - it looks at the queue in its own time
                await asyncio.sleep(0.001)
            await here.publish("q", [b"a"])
        assert await waiting == 3


@pytest.mark.parametrize("wait", [-1, WAIT_MILLISECONDS_MAX + 1])
async def test_waits_are_bounded(tmp_path: Path, wait: int) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        with pytest.raises(InvalidRequestError, match=f"wait_milliseconds {wait} is out of range; give 0 to 10000"):
            await first_answer(queue, wait, lambda: asyncio.sleep(0, 0), lambda _: True, never)


async def test_a_lease_and_a_sequence_wait_for_a_message(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        client = bulk_client(here)
        opening = protocol.OpenLease(queue="q", lease="l", owner="o", fresh=True)
        generation = (await away(lambda: client.act(opening)))["generation"]
        extend = protocol.ExtendLease(lease="l", generation=generation, start=0, wait_milliseconds=LONG)
        plan = protocol.PlanSequences(queue="q", reader="r", start=-1, wait_milliseconds=LONG)
        waiting = [
            asyncio.create_task(away(lambda request=request: bulk_client(here).act(request)))
            for request in (extend, plan)
        ]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in waiting)
        await here.publish("q", [b"a"])
        extended, planned = await asyncio.gather(*waiting)
        assert extended["position"] == 1
        assert planned["rows"] == 1


async def test_a_queue_that_is_deleted_ends_the_wait(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        client = bulk_client(here)
        opening = protocol.OpenLease(queue="q", lease="l", owner="o", fresh=True)
        generation = (await away(lambda: client.act(opening)))["generation"]
        extend = protocol.ExtendLease(lease="l", generation=generation, start=0, wait_milliseconds=LONG)
        waiting = asyncio.create_task(away(lambda: client.act(extend)))
        await asyncio.sleep(0.1)
        here.host.delete_queue(queue, here.broker.clock())
        with pytest.raises(LeaseGoneError, match="was deleted"):
            await waiting


async def test_a_broker_that_stops_answers(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        stopping = [False]
        asking = first_answer(queue, LONG, lambda: asyncio.sleep(0, "nothing"), lambda _: False, lambda: stopping[0])
        waiting = asyncio.create_task(asking)
        await asyncio.sleep(0.01)
        stopping[0] = True
        assert await waiting == "nothing"
