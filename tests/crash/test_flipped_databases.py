"""A flipped bit in catalogue or history: the broker starts with all messages, or refuses by name and touches nothing.

Of the history a value may be another one: it is memory of what happened, and nothing of it decides what is there.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet.core.management import pause_queue, purge
from annulet.store.database.catalogue import OPERATOR_QUEUE
from annulet.store.files.data_format import CATALOGUE_FILE, HISTORY_FILE, LOG_DIRECTORY
from annulet.store.files.errors import StoreError
from annulet.store.inspection.inspection import ERROR, inspect
from tests.bulk.helpers import Bench, bench
from tests.crash.mortal_broker import lease_request
from tests.store.data_directories import shrink

FLIPS = 6
FLIPS_SOAK = 600
COUNT = 40
RING = 5
MESSAGES = {
    "work": {b"%d" % number for number in range(COUNT)},
    "ring": {b"%d" % number for number in range(COUNT - RING, COUNT)},
    "leased": {b"%d" % number for number in range(COUNT)},
    "dead": set[bytes](),
    "paused": set[bytes](),
}
LATER = 1 << 62
"""Milliseconds since 1970: after all that was accepted."""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that has some of everything and was stopped cleanly. Not to be changed."""
    directory = tmp_path_factory.mktemp("closed") / "data"
    asyncio.run(fill(directory))
    shrink(directory)
    return directory


async def fill(directory: Path) -> None:
    async with bench(directory) as here:
        now, catalogue = here.broker.clock(), here.broker.catalogue
        here.declare("work", arguments={"x-max-priority": 3, "x-dead-letter-address": "dead"})
        ring = here.declare("ring", arguments={"x-ring-size": RING})
        for name in ("leased", "dead", "paused"):
            here.declare(name)
        catalogue.add_exchange("/", "news", "topic", False, False, {"x-note": "a topic"})
        catalogue.add_binding("/", "news", "queue", "work", "a.#", {})
        catalogue.set_operator_setting(OPERATOR_QUEUE, "/", "ring", {"x-evict": "oldest"})
        catalogue.set_publish_mark("query", 7, now)
        for queue in ("work", "ring", "leased"):
            await here.publish(queue, [b"%d" % number for number in range(COUNT)])
        here.host.effects.duplicate_noted("work", "order 8", 10)
        work = here.host.queues["work"]
        work.return_entries(work.acquire(10, -1, now), now)
        pause_queue(here.host, here.host.queues["paused"], user="anna", now=now)
        purge(here.host, ring, user="anna", now=now).cancel(now)
        leases = here.service.leases
        lease = await leases.open(lease_request(fresh=True))
        await leases.extend("/", "lease", lease["generation"], 0)
        await here.broker.commit.durable()


def tables_of(path: Path) -> list[str]:
    """Return the names of a sound database's tables, but for that of the highest ids ever given."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return [str(name) for (name,) in tables]


def content_of(path: Path, tables: list[str]) -> dict[str, list[str]]:
    """Return all rows of these tables. Asked for by name: SQLite finds them whatever it says they are (their type)."""
    with closing(sqlite3.connect(path)) as connection:
        return {name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in tables}


def messages(here: Bench) -> dict[str, set[bytes]]:
    return {
        name: {entry.message.body for entry in [*queue.order.entries(), *queue.schedule.entries(), *queue.delivering]}
        for name, queue in here.host.queues.items()
    }


def log_of(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((data / LOG_DIRECTORY).iterdir())}


async def started(data: Path) -> dict[str, set[bytes]]:
    async with bench(data) as here:
        return messages(here)


async def flip_and_start(closed: Path, data: Path, name: str, moments: random.Random) -> bool:
    """Flip one bit, look, start; return whether it was refused."""
    shutil.copytree(closed, data)
    path, before = data / name, log_of(data)
    content = bytearray(path.read_bytes())
    place = moments.choice([place for place, byte in enumerate(content) if byte])  # most of a page is not in use
    bit = 1 << moments.randrange(8)
    print(f"{name} bit {bit} of byte {place}")
    content[place] ^= bit
    path.write_bytes(content)
    errors = [finding for finding in inspect(data, LATER).findings if finding.severity == ERROR]
    if errors:
        assert [finding.code.partition("-")[0] for finding in errors] == [path.stem]
        with pytest.raises(StoreError, match=f"(?s){re.escape(str(path))}.*restore.* from a backup"):
            await started(data)
        assert log_of(data) == before, "nothing was done to the log"
        shutil.copyfile(closed / name, path)
        for end in ("-wal", "-shm"):
            path.with_name(name + end).unlink(missing_ok=True)
    elif name == CATALOGUE_FILE:
        tables = tables_of(closed / name)
        assert content_of(path, tables) == content_of(closed / name, tables), "damage is not noticed"
    assert await started(data) == MESSAGES
    shutil.rmtree(data)
    return bool(errors)


async def flips(closed: Path, tmp_path: Path, name: str, moments: random.Random, count: int) -> int:
    return sum([await flip_and_start(closed, tmp_path / "data", name, moments) for _ in range(count)])


@pytest.mark.parametrize("name", [CATALOGUE_FILE, HISTORY_FILE])
async def test_a_flipped_bit_is_named_or_harmless(
    closed: Path, tmp_path: Path, moments: random.Random, name: str
) -> None:
    assert await flips(closed, tmp_path, name, moments, FLIPS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [CATALOGUE_FILE, HISTORY_FILE])
async def test_the_same_many_times(closed: Path, tmp_path: Path, moments: random.Random, name: str) -> None:
    assert await flips(closed, tmp_path, name, moments, FLIPS_SOAK) > FLIPS_SOAK // 4
