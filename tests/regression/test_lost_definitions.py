"""Issue 30, A4: a definition that is gone costs no message, and what a damaged directory lost is said."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from annulet import testing
from annulet.broker.durability.upkeep import CHECKPOINT_MILLISECONDS
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_mark import mark_path
from annulet.store.files.data_format import CATALOGUE_FILE, HISTORY_FILE
from annulet.store.files.errors import CatalogueError
from annulet.store.inspection.inspection import inspect
from annulet.store.inspection.rebuilding import rebuild
from annulet.store.segments.segment import segment_name
from tests.store.data_directories import body_of, declare, put

COUNT = 300
LATER = 1 << 62
SHORT_BY = 20_000
MEBIBYTE = 1 << 20
JOURNAL = f"{CATALOGUE_FILE}-wal"


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """What a broker leaves that confirmed messages and was killed: the queue is in the journal of the catalogue."""
    async with testing.broker(data_dir=tmp_path / "living", http=False) as running:
        declare(running.broker, "work")
        for number in range(COUNT):
            put(running.broker, "work", body_of(number))
            await running.broker.commit.durable()
        shutil.copytree(tmp_path / "living", tmp_path / "killed")
    return tmp_path / "killed"


async def started(data: Path) -> list[bytes]:
    async with testing.broker(data_dir=data, http=False) as running:
        return [entry.message.body for entry in running.broker.hosts["/"].queues["work"].order.entries()]


def segments(data: Path) -> dict[str, int]:
    return {path.name: len(path.read_bytes().rstrip(b"\0")) for path in (data / "messages").glob("*.segment")}


@pytest.mark.parametrize("lost", ["catalogue", "journal", "a bit of the journal"])
async def test_a_catalogue_that_is_gone_or_older_costs_no_message(killed: Path, lost: str) -> None:
    """A4: "Catalogue missing, or its -wal missing or with one bit flipped, beside a log with messages"."""
    journal = killed / JOURNAL
    if lost == "a bit of the journal":
        content = bytearray(journal.read_bytes())
        content[-2000] ^= 1  # in its last transaction, where SQLite sees a torn end
        journal.write_bytes(content)
    else:
        journal.unlink()
        if lost == "catalogue":
            (killed / CATALOGUE_FILE).unlink()
    before = segments(killed)
    assert not inspect(killed, LATER).sound
    with pytest.raises(CatalogueError, match="annulet doctor --rebuild"):
        await started(killed)
    assert segments(killed) == before
    rebuild(killed)
    assert await started(killed) == [body_of(number) for number in range(COUNT)]


async def test_messages_of_an_unknown_queue_are_kept_and_said(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A4: "messages of unknown queues are dropped, their segments deleted within 16 s"; also without any mark."""
    with closing(Catalogue(killed / CATALOGUE_FILE)) as catalogue, catalogue.transaction():
        catalogue._execute("DELETE FROM queues", ())  # not deleted by anybody: lost
    mark_path(killed).unlink()
    async with testing.broker(data_dir=killed) as running:
        broker = running.broker
        declare(broker, "work")
        assert broker.hosts["/"].queues["work"].queue_id == 2, "the id is not given to another queue"
        for _ in range(3):  # checkpoints, after which what is dead goes
            await broker.commit.maintain(checkpoint=True)
        assert broker.orphans == {1: COUNT}
        assert broker.log.statistics().live_records == COUNT
        async with httpx.AsyncClient(base_url=running.http_url) as client:
            ready = (await client.get("/health/ready")).json()
            metrics = (await client.get("/metrics")).text
    assert ready["status"] == "degraded"
    assert f"{COUNT} messages of 1 queues that the catalogue does not know are kept" in ready["warnings"][0]
    assert f"annulet_orphaned_messages {COUNT}" in metrics
    assert "queue_id=1" in capsys.readouterr().out
    assert [(queue.name, queue.messages) for queue in rebuild(killed)] == [("work.recovered-1", COUNT)]
    async with testing.broker(data_dir=killed, http=False) as running:
        assert running.broker.hosts["/"].queues["work.recovered-1"].statistics().message_count == COUNT
        assert running.broker.orphans == {}
    assert CHECKPOINT_MILLISECONDS  # what the wait of 16 s was made of: two checkpoints


async def test_a_last_segment_that_was_cut_says_what_it_cost(killed: Path) -> None:
    """A4: "The last segment cut by 20 KB loses 113 confirmed messages silently: say it"."""
    path = killed / "messages" / segment_name(1)
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content[:-SHORT_BY])
    lost = COUNT - content[:-SHORT_BY].count(b"guest@test")
    doctor = inspect(killed, LATER)
    assert doctor.figures["log"]["lost_messages"] in (lost, lost + 1), "the record at the cut is gone as well"
    lost = doctor.figures["log"]["lost_messages"]
    assert lost > SHORT_BY // 2000
    async with testing.broker(data_dir=killed) as running:
        assert running.broker.hosts["/"].queues["work"].statistics().message_count == COUNT - lost
        async with httpx.AsyncClient(base_url=running.http_url) as client:
            ready = (await client.get("/health/ready")).json()
    assert ready["status"] == "degraded"
    assert f"{lost} messages lost" in ready["warnings"][0]


@pytest.mark.parametrize("place", ["the header", "an early frame"])
async def test_a_flipped_bit_in_the_journal_of_the_history_says_what_it_cost(tmp_path: Path, place: str) -> None:
    """A4: "A bit flip anywhere in the data directory is either harmless, repaired, or reported with what it cost"."""
    async with testing.broker(data_dir=tmp_path / "living", http=False) as running:
        declare(running.broker, "work")
        history = running.broker.history
        assert history is not None
        for number in range(20):
            running.broker.hosts["/"].effects.duplicate_noted("work", f"order {number}", 1000)
            put(running.broker, "work", body_of(number))
            await running.broker.commit.durable()
        shutil.copytree(tmp_path / "living", tmp_path / "killed")
    killed = tmp_path / "killed"
    assert "history-shortened" not in {finding.code for finding in inspect(killed, LATER).findings}
    journal = killed / f"{HISTORY_FILE}-wal"
    content = bytearray(journal.read_bytes())
    content[20 if place == "the header" else 40 + 10 * (4096 + 24)] ^= 1
    journal.write_bytes(content)
    (finding,) = [finding for finding in inspect(killed, LATER).findings if finding.code == "history-shortened"]
    (count,) = re.findall(r"the last (\d+) changes of the history are dropped", finding.text)
    assert int(count) > 1
    async with testing.broker(data_dir=killed) as running:
        assert running.broker.hosts["/"].queues["work"].statistics().message_count == 20
        async with httpx.AsyncClient(base_url=running.http_url) as client:
            ready = (await client.get("/health/ready")).json()
        assert ready["status"] == "degraded"
        assert f"the last {count} changes of the history are dropped" in ready["warnings"][0]
    async with testing.broker(data_dir=killed, http=False) as running:
        assert running.broker.history is not None
        assert running.broker.history.history.dropped.text == "", "it was said once"


async def test_a_cut_segment_before_others_says_what_it_cost(tmp_path: Path) -> None:
    """A4: a segment behind the checkpoint that was cut between two windows, with a later one whole, left no trace."""
    async with testing.broker(data_dir=tmp_path / "living", http=False) as running:
        declare(running.broker, "work")
        for number in range(40):
            put(running.broker, "work", bytes([number]) * MEBIBYTE)
            await running.broker.commit.durable()
        shutil.copytree(tmp_path / "living", tmp_path / "killed")
    first = tmp_path / "killed" / "messages" / segment_name(1)
    content = first.read_bytes()
    assert (tmp_path / "killed" / "messages" / segment_name(3)).exists()
    first.write_bytes(content[: content.index(bytes([9]) * 1000)])
    assert {"log-doubtful", "log-lost"} & {finding.code for finding in inspect(tmp_path / "killed", LATER).findings}
    async with testing.broker(data_dir=tmp_path / "killed") as running:
        assert running.broker.hosts["/"].queues["work"].statistics().message_count < 40
        async with httpx.AsyncClient(base_url=running.http_url) as client:
            ready = (await client.get("/health/ready")).json()
    assert ready["status"] == "degraded"
    assert "damaged records in the message log" in ready["warnings"][0]
