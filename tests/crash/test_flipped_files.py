"""A flipped bit in any file of a killed broker's data directory: harmless, repaired, or said with what it cost.

Harmless: a start finds every message, and the next look at the directory is sound. Refused: a start says which file and
what to do, and after that all is there. Reported: what is missing is in the count of lost messages.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from annulet import testing
from annulet.admin.resources.health import warnings
from annulet.store.database.catalogue import Catalogue
from annulet.store.files.data_format import CATALOGUE_FILE, FORMAT_FILE
from annulet.store.files.errors import StoreError
from annulet.store.inspection.inspection import inspect
from annulet.store.inspection.rebuilding import rebuild
from tests.store.data_directories import body_of, declare, put, shrink

LATER = 1 << 62
COUNT = 30
FLIPS = 2
FLIPS_SOAK = 400
SQLITE_MEMORY = "-shm"
"""Ends names of files that SQLite makes anew; of a process that died they say nothing."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed. Two queues, a checkpoint between their messages."""
    folder = tmp_path_factory.mktemp("killed")
    asyncio.run(leave(folder / "living", folder / "killed"))
    shrink(folder / "killed")
    return folder / "killed"


async def leave(living: Path, target: Path) -> None:
    async with testing.broker(data_dir=living, http=False) as running:
        for name in ("first", "second"):
            declare(running.broker, name)
            for number in range(COUNT):
                put(running.broker, name, body_of(number))
                await running.broker.commit.durable()
            await running.broker.commit.maintain(checkpoint=True)
        put(running.broker, "first", body_of(COUNT))
        await running.broker.commit.durable()
        async with running.broker.commit.upkeep_paused():
            shutil.copytree(living, target)


def files_of(data: Path) -> list[Path]:
    """Return the files that hold something."""
    return sorted(
        path.relative_to(data)
        for path in data.rglob("*")
        if path.is_file() and any(path.read_bytes()) and not path.name.endswith(SQLITE_MEMORY) and path.name != "lock"
    )


async def there(data: Path) -> tuple[int, int, list[str]]:
    """Start; return how many messages are there, how many the broker says are lost, and its warnings."""
    async with testing.broker(data_dir=data, http=False) as running:
        queues = running.broker.hosts["/"].queues.values()
        count = sum(queue.statistics().message_count for queue in queues)
        return count, running.broker.log.report.lost_records, warnings(running.broker)


async def flip(killed: Path, data: Path, name: Path, moments: random.Random) -> str:
    """Flip one bit of a file, look, start; hold what is said to what is there. Return what became of it."""
    shutil.copytree(killed, data)
    path = data / name
    content = bytearray(path.read_bytes())
    place, bit = moments.choice([place for place, byte in enumerate(content) if byte]), 1 << moments.randrange(8)
    print(f"bit {bit} of byte {place} of {name}")
    content[place] ^= bit
    path.write_bytes(content)
    seen = inspect(data, LATER)
    try:
        count, lost, said = await there(data)
    except StoreError as error:
        remedied = any(word in str(error) for word in ("backup", "doctor"))
        assert not seen.sound, "the doctor sees it first"
        assert remedied, "there is a remedy"
        heal(killed, data, name)
        assert (await there(data))[0] == 2 * COUNT + 1
        fate = "refused"
    else:
        assert count + lost == 2 * COUNT + 1, "what is missing is said"
        assert bool(said) >= bool(lost)
        fate = "reported" if lost or said else "harmless"
    shutil.rmtree(data)
    return fate


def heal(killed: Path, data: Path, name: Path) -> None:
    """Do what the message of the refusal says, as an operator."""
    if name.name == FORMAT_FILE or "history" in name.name:
        for each in files_of(killed):
            if each.parent == Path():
                shutil.copy(killed / each, data / each)
        return
    for end in ("", "-wal", "-shm"):
        (data / f"{CATALOGUE_FILE}{end}").unlink(missing_ok=True)
    rebuild(data)
    with closing(Catalogue(data / CATALOGUE_FILE)) as catalogue:
        assert {queue.name for queue in catalogue.queues("/")} == {"first", "second"}


async def test_a_flipped_bit_in_any_file(killed: Path, tmp_path: Path, moments: random.Random) -> None:
    names = files_of(killed)
    kinds = {name.name.partition("-")[0].rpartition(".")[2] for name in names}
    assert {"segment", "queues", "written", "checkpoint", "json"} <= kinds
    fates = [await flip(killed, tmp_path / "data", name, moments) for name in names for _ in range(FLIPS)]
    assert "refused" in fates


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_the_same_many_times(killed: Path, tmp_path: Path, moments: random.Random) -> None:
    for name in files_of(killed) * FLIPS_SOAK:
        await flip(killed, tmp_path / "data", name, moments)
