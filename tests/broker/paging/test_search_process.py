"""The search process: what it answers, that it ends when nobody needs it, and that whatever becomes of it is told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from annulet.broker.paging import search_process
from annulet.broker.paging.search_process import SearchProcess
from annulet.core.message.message import Message
from annulet.store.log.log import MessageLog
from annulet.store.searching.search import Search
from annulet.store.segments.records import ORDINAL_BITS
from tests.broker.conftest import until
from tests.store.log.test_log_tools import ORIGIN, flush, reader_of, space_of
from tests.store.searching.test_search_tools import RED

PATIENCE = 60.0
"""Seconds on a busy machine; who waits goes on as soon as it is done."""

COUNT = 300


class House:
    """A log on disk in which each tenth message is red, and who asks about it."""

    def __init__(self, directory: Path, *, heads: bool = False) -> None:
        self.log = MessageLog.open(directory, heads=heads)
        self.records = []
        for number in range(COUNT):
            header = b"red" if number % 10 == 9 else b"blue"
            message = Message(header, b"%06d" % number + bytes(1000), ORIGIN, durable=True)
            self.records.append(self.log.append(message, [(3, number + 1)]))
        flush(self.log)
        assert self.log.search is not None
        self.search: Search = self.log.search

    def ask(self, stretches: int = 1) -> None:
        for _ in range(stretches):
            self.search.ask([(self.records[0], self.records[-1])], RED)

    def lacking(self) -> list[int]:
        return [number for number, record in enumerate(self.records) if self.search.clear(record, 1, RED)]


LACKING = [number for number in range(COUNT) if number % 10 != 9]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    house.log.close()


def gone(pid: int) -> bool:
    """Say whether a child has ended and been waited for."""
    return not Path(f"/proc/{pid}").exists()


def open_files(pid: int) -> list[str]:
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]


async def test_it_is_started_on_need_answers_and_ends_when_nobody_asks(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_process, "IDLE_SECONDS", 0.2)
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    assert (process.pid, house.search.prompt) == (0, False)
    for started in (1, 2):
        house.ask()
        pid = process.pid
        assert pid
        await until(lambda: house.search.pending == 0, PATIENCE)
        assert house.lacking() == LACKING
        await until(lambda: process.pid == 0, PATIENCE)
        await until(lambda pid=pid: gone(pid), PATIENCE)  # type: ignore[misc]
        assert (process.started, process.failed) == (started, 0)
    process.close()


async def test_it_looks_at_the_heads_where_there_are_any(tmp_path: Path) -> None:
    """The segment's own headers are made unlike them meanwhile, which shows where it has looked."""
    house = House(tmp_path, heads=True)
    task = space_of(house.log).heads.task(least=1)
    assert task is not None
    task.run()
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    path = tmp_path / "000000000001.segment"
    with path.open("r+b") as file:
        written = file.read()
        file.seek(0)
        file.write(written.replace(b"red", b"rot"))
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    assert house.lacking() == LACKING
    assert reader_of(house.log).heads.open_files == 1
    assert {name for name in open_files(process.pid) if name.startswith("/")} == {"/dev/null"}
    process.close()
    house.log.close()
    assert reader_of(house.log).heads.open_files == 0


async def test_it_has_a_lower_priority_than_the_broker_and_no_file_but_its_own(house: House) -> None:
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    assert {name for name in open_files(process.pid) if name.startswith("/")} == {"/dev/null"}
    pid = process.pid
    process.close()
    assert gone(pid)


async def test_more_than_the_socket_takes_is_sent_when_there_is_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_process, "SEND_BYTES", 1)  # the least that the system allows
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    asked = 0
    while house.search.has_room:
        house.ask()
        asked += 1
    assert process._unsent, "it fills the socket"
    await until(lambda: house.search.pending == 0, PATIENCE)
    assert house.search.known == asked
    assert house.lacking() == LACKING
    process.close()


async def test_a_process_that_is_killed_is_told_of_once_and_nothing_waits_for_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_process, "RETRY_SECONDS", 0.3)
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    os.kill(process.pid, signal.SIGSTOP)  # so that it dies in the middle of the search
    called: list[int] = []
    house.ask(3)
    house.search.wait(lambda: called.append(1))
    pid = process.pid
    with capture_logs() as logs:
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bool(called), PATIENCE)
        await until(lambda: gone(pid), PATIENCE)
        await until(lambda: bool(logs), PATIENCE)
    assert [(line["log_level"], line["status"]) for line in logs] == [("warning", -signal.SIGKILL)]
    assert (process.failed, house.search.pending, house.search.prompt) == (1, 0, False)
    await until(lambda: house.search.has_room, PATIENCE)  # later it may be started again
    house.search.release(house.records[0] >> ORDINAL_BITS)
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    assert (house.lacking(), process.started, process.failed) == (LACKING, 2, 1)
    process.close()


async def test_a_process_that_cannot_be_started_is_told_of_and_not_tried_again_at_once(house: House) -> None:
    process = SearchProcess(asyncio.get_running_loop(), house.search, executable="/nowhere/python")
    with capture_logs() as logs:
        house.ask(5)
    assert [line["event"] for line in logs] == ["search process failed"]
    assert "/nowhere/python" in logs[0]["reason"]
    assert (process.started, process.failed, house.search.pending, house.search.has_room) == (0, 1, 0, False)
    process.close()


async def test_what_it_wrote_before_it_ended_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_process, "PROGRAM", "raise SystemExit('no library here')")
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    with capture_logs() as logs:
        house.ask()
        await until(lambda: any(line["log_level"] == "warning" for line in logs), PATIENCE)
    assert (logs[-1]["status"], "no library here" in logs[-1]["error"]) == (1, True)
    assert (process.failed, house.search.pending) == (1, 0)
    process.close()


async def test_a_process_that_is_silent_is_waited_for_no_more_and_given_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    assert house.search.prompt
    pid = process.pid
    os.kill(pid, signal.SIGSTOP)
    called: list[int] = []
    house.ask()
    house.search.wait(lambda: called.append(1))
    await until(lambda: bool(called), PATIENCE)
    assert (house.search.prompt, house.search.pending) == (False, 1), "walks go on, and the answer may yet come"
    monkeypatch.setattr(search_process, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(search_process, "KILL_SECONDS", 0.1)
    await until(lambda: process.failed == 1, PATIENCE)
    await until(lambda: gone(pid), PATIENCE)
    assert (house.search.pending, house.search.has_room) == (0, False)
    process.close()


async def test_it_ends_with_the_broker_also_when_that_is_killed(house: House) -> None:
    """At the end of the socket, which the system closes for a process that is killed."""
    process = SearchProcess(asyncio.get_running_loop(), house.search)
    house.ask()
    await until(lambda: house.search.pending == 0, PATIENCE)
    pid, child = process.pid, process._process
    assert child is not None
    assert process._channel is not None
    asyncio.get_running_loop().remove_reader(process._channel)
    process._channel.close()
    await until(lambda: child.poll() is not None, PATIENCE)
    assert child.returncode == 0
    process._channel = None
    process.close()
    assert gone(pid)
