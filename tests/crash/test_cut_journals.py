"""The journal of the catalogue, cut at every frame: what was answered before the cut is there, and nothing by half."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_mark import mark_path
from annulet.store.database.journal import FRAME_HEADER_BYTES, HEADER_BYTES
from annulet.store.files.data_format import CATALOGUE_FILE
from annulet.store.files.errors import CatalogueError
from tests.bulk.helpers import bench, crash_image
from tests.store.data_directories import shrink

PAGE = 4096
QUEUES = 4
STARTS = 4
Answered = frozenset[tuple[str, str]]
"""Names of queues, and of bindings by queue and key."""


class Written(NamedTuple):
    """What a broker left that died, and what it had answered when its journal was so long (bytes)."""

    data: Path
    answers: list[tuple[int, Answered]]


@pytest.fixture
async def written(tmp_path: Path) -> Written:
    """A broker that declares and binds, each answered; killed after that."""
    data = tmp_path / "data"
    journal = data / f"{CATALOGUE_FILE}-wal"
    async with bench(data) as here:
        declarations, now = DurableDeclarations(here.host, here.broker.catalogue), here.broker.clock()
        done: set[tuple[str, str]] = set()
        answers = [(journal.stat().st_size, frozenset(done))]
        for number in range(QUEUES):
            name = f"queue-{number}"
            queue = declarations.queue(name, now=now, durable=True, auto_delete=False, arguments={})
            done.add((name, ""))
            answers.append((journal.stat().st_size, frozenset(done)))
            declarations.bind_queue(queue, "amq.topic", f"key.{number}", {})
            done.add((name, f"key.{number}"))
            answers.append((journal.stat().st_size, frozenset(done)))
        killed = crash_image(data, tmp_path / "killed")
    shrink(killed)
    (killed / f"{CATALOGUE_FILE}-shm").unlink()  # memory, which the power took
    return Written(killed, answers)


def cut(written: Written, target: Path, length: int) -> Answered:
    """Copy what was left with so much of the journal; return what must be there."""
    shutil.copytree(written.data, target)
    mark_path(target).unlink()  # not synced: what a power loss leaves of it is another matter, see below
    os.truncate(target / f"{CATALOGUE_FILE}-wal", length)
    return [done for size, done in written.answers if size <= length][-1]


async def test_what_was_answered_before_the_cut_is_there(
    written: Written, tmp_path: Path, moments: random.Random
) -> None:
    first, last = written.answers[0][0], written.answers[-1][0]
    assert len({size for size, _ in written.answers}) == 2 * QUEUES + 1, "each answer has a commit of its own"
    frame = FRAME_HEADER_BYTES + PAGE
    ends = range(HEADER_BYTES, last + 1, frame)
    assert last in ends
    cuts = [end + more for end in ends if end >= first for more in (0, moments.randrange(1, frame))]
    for number, length in enumerate(length for length in cuts if length <= last):
        place = tmp_path / str(number)
        answered = cut(written, place, length)
        with closing(Catalogue(place / CATALOGUE_FILE)) as catalogue:
            found = {(record.name, "") for record in catalogue.queues("/")}
            found |= {(binding.destination, binding.routing_key) for binding in catalogue.bindings("/")}
        assert found == answered, length


async def test_a_broker_starts_with_what_was_answered(written: Written, tmp_path: Path, moments: random.Random) -> None:
    for number in range(STARTS):
        length = moments.randint(written.answers[0][0], written.answers[-1][0])
        print(f"cut at {length}")
        answered = cut(written, tmp_path / str(number), length)
        async with bench(tmp_path / str(number)) as here:
            keys = [f"key.{each}" for each in range(QUEUES)]
            found = {(queue.name, key) for key in keys for queue in here.host.route("amq.topic", key).queues}
            assert found | {(name, "") for name in here.host.queues} == answered


async def test_a_cut_behind_which_something_was_answered_is_noticed(
    written: Written, tmp_path: Path, moments: random.Random
) -> None:
    """The mark beside the messages tells how many changes the catalogue had seen: no power loss takes one of them."""
    *cut_at, whole = [size for size, _ in written.answers]
    for number, length in enumerate([moments.choice(cut_at), whole]):
        data = tmp_path / str(number)
        shutil.copytree(written.data, data)
        os.truncate(data / f"{CATALOGUE_FILE}-wal", length)
        if length == whole:
            async with bench(data) as here:
                assert len(here.host.queues) == QUEUES
            continue
        with pytest.raises(CatalogueError, match="lacks its last"):
            async with bench(data):
                pass
