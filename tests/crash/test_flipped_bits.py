"""A flipped bit anywhere in a closed log: the whole broker starts, says so, and serves everything else."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from annulet import testing
from annulet.admin.resources.health import warnings
from annulet.core.queue.invariants import check_invariants
from annulet.store.inspection.inspection import NOTE, inspect
from annulet.store.segments.segment import segment_name
from tests.store.data_directories import COUNT, body_of, fill

FLIPS = 4
FLIPS_SOAK = 400


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that was stopped cleanly. Not to be changed."""
    directory = tmp_path_factory.mktemp("closed") / "data"
    asyncio.run(fill(directory))
    return directory


async def flip_and_start(closed: Path, data: Path, moments: random.Random) -> int:
    """Flip one bit of the records, start, look; return how many messages were lost."""
    shutil.copytree(closed, data)
    path = data / "messages" / segment_name(1)
    content = bytearray(path.read_bytes())
    end = len(content.rstrip(b"\0"))
    place, bit = moments.randrange(end), 1 << moments.randrange(8)
    print(f"bit {bit} of byte {place}")
    content[place] ^= bit
    path.write_bytes(content)
    doctor = inspect(data, 1 << 62)
    assert not doctor.sound, "the doctor sees it first"
    async with testing.broker(data_dir=data, http=False) as running:
        broker = running.broker
        queue = broker.hosts["/"].queues["work"]
        check_invariants(queue)
        bodies = [entry.message.body for entry in queue.order.entries()]
        sent = [body_of(number) for number in range(COUNT)]
        assert bodies == [body for body in sent if body in set(bodies)], "nothing else, in order"
        lost = COUNT - len(bodies)
        assert lost == broker.log.report.lost_records == doctor.figures["log"]["lost_messages"]
        assert any("damaged records" in text for text in warnings(broker))
        await broker.commit.maintain()
        log = broker.log.statistics()
        assert log.quarantined_records == log.corrupt_records - (place < 56), "a header has a copy and is no record"
    after = inspect(data, 1 << 62)
    assert {finding.code for finding in after.findings if finding.severity != NOTE} >= {"quarantine"} or place < 56
    shutil.rmtree(data)
    return lost


async def test_a_flipped_bit_costs_its_record_and_nothing_else(
    closed: Path, tmp_path: Path, moments: random.Random
) -> None:
    for _ in range(FLIPS):
        assert await flip_and_start(closed, tmp_path / "data", moments) <= 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_the_same_many_times(closed: Path, tmp_path: Path, moments: random.Random) -> None:
    assert sum([await flip_and_start(closed, tmp_path / "data", moments) for _ in range(FLIPS_SOAK)]) > FLIPS_SOAK // 2
