"""A2 and A4 without a clock: what publishing and joining cost at depth is counted instead of timed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from annulet.broker.paging.pager import DEEP_SHARES
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.bodies.budget import MIB
from annulet.residency.pages.pages import LOAD_MESSAGES
from annulet.store.files.files import OsFile
from tests.residency.acceptance.deep import WINDOW, Deep, deep_broker

SHALLOW, DEPTH = 6_000, 100_000
SIZE = 900
"""Bytes of a body. So much is on disk of the shallow queue, too, that what comes pages at once."""

ROUNDS = 5
NOISE = 1.02
"""Of calls: what threads have done wakes the loop sooner or later."""


class Counted:
    """What was done meanwhile."""

    calls = 0  # of functions, compiled ones included where Python ones call them, by the loop's thread
    reads = 0  # of files, by any thread
    own_reads = 0  # of these, by the loop's thread


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Count calls and reads."""
    counted, here, read = Counted(), threading.get_ident(), OsFile.read

    def counted_read(file: OsFile, offset: int, length: int) -> bytes:
        counted.reads += 1
        counted.own_reads += threading.get_ident() == here
        return read(file, offset, length)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        counted.calls += event in {"call", "c_call"}

    former = sys.getprofile()
    with patch.context() as within:
        within.setattr(OsFile, "read", counted_read)
        sys.setprofile(profile)
        try:
            yield counted
        finally:
            sys.setprofile(former)


async def published(deep: Deep, first: int, patch: pytest.MonkeyPatch) -> int:
    """Publish a window some times; return the fewest calls that one took. Nothing may be read or looked at for it."""
    figures = deep.paging
    found = []
    patch.setattr(deep, "check", lambda: None)  # which looks at all that is in memory
    patch.setattr(deep, "check_budget", lambda: None)
    for start in range(first, first + ROUNDS * WINDOW, WINDOW):
        before = (figures.loads, figures.scans, figures.bodies_read, figures.selected)
        with counting(patch) as counted:
            await deep.publish(range(start, start + WINDOW), size=SIZE)
        assert counted.reads == 0
        assert (figures.loads, figures.scans, figures.bodies_read, figures.selected) == before
        found.append(counted.calls)
    patch.undo()
    deep.check()
    return min(found)


async def test_a2_publishing_costs_the_same_at_any_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with deep_broker(tmp_path / "data", budget=MIB) as deep:
        queue = await deep.declare("q")
        await deep.publish(range(SHALLOW), size=SIZE)
        await deep.settled()
        assert queue.order.paged_bytes() > DEEP_SHARES * MIB
        shallow = await published(deep, SHALLOW, monkeypatch)
        await deep.publish(range(SHALLOW + ROUNDS * WINDOW, DEPTH), size=SIZE)
        assert queue.statistics().messages_paged > DEPTH - SHALLOW
        deepest = await published(deep, DEPTH, monkeypatch)
        assert shallow > WINDOW, "they are counted"
        assert deepest <= NOISE * shallow


@pytest.mark.parametrize("depth", [4_000, 20_000])
@pytest.mark.parametrize("held", [0, KEEP_MESSAGES, KEEP_MESSAGES + 3 * LOAD_MESSAGES])
async def test_a4_the_first_message_of_a_new_consumer_takes_one_read_whatever_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, held: int
) -> None:
    """One holds the first ones, and another with a selector has gone as far as the middle: his are the last ones."""
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        middle = depth // 2
        await deep.publish(range(middle))
        await deep.publish([middle], place="middle")
        await deep.publish(range(middle + 1, depth))
        await deep.settled()
        ahead = await deep.consumer(prefetch=1, x_selector="place = 'middle'")
        assert await ahead.all(1) == [middle]
        if held:
            holder = await deep.consumer(prefetch=held)
            assert await holder.all(held) == list(range(held))
        await deep.written()
        loads = deep.paging.loads
        for number in range(held, held + 3):
            with counting(monkeypatch) as counted:
                joined = await deep.consumer(prefetch=1)
                assert await joined.numbers() == [number]
            assert counted.own_reads <= 1
        read = deep.paging.loads - loads
        assert read <= 1, "of the three the first one's brings what the others take"
        assert read or held != KEEP_MESSAGES, "behind what stays in memory there is one"
