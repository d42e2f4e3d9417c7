"""The broker as a whole: start, stop, upkeep, and defects that stay where they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.broker import TICK_SECONDS, Broker
from annulet.broker.durability.upkeep import LogUpkeep
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint
from annulet.store.files.errors import DirectoryInUseError, LogFailedError, StoreError
from annulet.store.files.files import OsFileSystem
from annulet.store.files.lock import DirectoryLock
from tests.broker.amqp091.peer import Peer, persistent, publish
from tests.broker.timers import Timers


def make(data: Path | None = None) -> Broker:
    return Broker(BrokerConfiguration(data_directory=data, amqp=Endpoint(LOOPBACK, 0), http=None, bulk=None))


async def declare(broker: Broker, name: str = "q") -> Peer:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue=name, durable=True))
    await peer.take()
    return peer


class Recorder:
    """A service that notes what happens to it."""

    def __init__(self, *, fail: bool = False) -> None:
        self.calls: list[str] = []
        self.fail = fail

    def restore(self, broker: Broker) -> None:
        assert not broker.ready
        assert "/" in broker.hosts
        self.calls.append("restore")

    async def start(self, broker: Broker) -> None:
        self.calls.append("start")
        if self.fail:
            raise OSError(98, "Address already in use")

    async def stop(self) -> None:
        self.calls.append("stop")


async def test_a_new_data_directory_has_a_durable_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    sync = OsFileSystem.sync_directory

    def note(files: OsFileSystem, path: Path) -> None:
        synced.append(path)
        sync(files, path)

    monkeypatch.setattr(OsFileSystem, "sync_directory", note)
    broker = make(tmp_path / "deep" / "data")
    await broker.start()
    await broker.stop()
    assert synced[:2] == [tmp_path, tmp_path / "deep"], "of whatever is in it nothing would be found"


async def test_services_are_restored_before_they_start_and_stop_once() -> None:
    broker, service = make(), Recorder()
    broker.add_service(service)
    await broker.start()
    assert broker.ready
    assert broker.amqp_address[1] > 0
    await broker.stop()
    await broker.stop()
    assert service.calls == ["restore", "start", "stop"]
    assert not broker.ready


async def test_what_is_to_be_done_before_listening_finds_everything_recovered_and_no_listener() -> None:
    broker, service = make(), Recorder()
    broker.add_service(service)

    def before_listening() -> None:
        assert service.calls == ["restore"]
        assert broker.amqp_address == ("", 0)
        service.calls.append("before")

    await broker.start(before_listening)
    await broker.stop()
    assert service.calls == ["restore", "before", "start", "stop"]


async def test_broker_that_cannot_start_leaves_the_directory_free(tmp_path: Path) -> None:
    broker = make(tmp_path)
    broker.add_service(Recorder(fail=True))
    with pytest.raises(OSError, match="in use"):
        await broker.start()
    with DirectoryLock(tmp_path):
        assert broker.stopping


async def test_second_broker_in_a_directory_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    first, second = make(tmp_path), make(tmp_path)
    await first.start()
    with pytest.raises(DirectoryInUseError):
        await second.start()
    with pytest.raises(DirectoryInUseError):
        DirectoryLock(tmp_path).acquire()
    await first.stop()


async def test_stopping_closes_connections_with_320_and_ends_when_they_answer() -> None:
    broker = make()
    await broker.start()
    peer = await Peer(broker).open(1)
    stopping = asyncio.ensure_future(broker.stop())
    assert (await peer.one(commands.Connection.Close)).reply_code == 320
    assert not stopping.done()
    await peer.send(0, commands.Connection.CloseOk())
    await stopping
    assert broker.connections == set()


async def test_stopping_cuts_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.broker.broker.DRAIN_SECONDS", 0.0)
    broker = make()
    await broker.start()
    peer = await Peer(broker).open(1)
    await broker.stop()
    assert peer.transport.closing
    assert broker.connections == set()


async def test_disk_that_fails_at_the_last_moment_does_not_keep_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make(tmp_path)
    await broker.start()
    peer = await declare(broker)

    def write(_: object) -> None:
        raise LogFailedError("disk gone")

    monkeypatch.setattr(broker.log, "write", write)
    peer.receive(persistent(1, "q"))
    peer.connection.abort()
    with structlog.testing.capture_logs() as lines:
        await broker.stop()
    # Who notices is whoever comes first: the write of the window, or the stop that waits for it.
    assert {"message log cannot be written", "not everything was written down"} & {line["event"] for line in lines}
    with DirectoryLock(tmp_path):
        assert broker.commit.failed


async def test_failed_disk_is_reported_to_who_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        failure = LogFailedError("disk gone")

        def write(_: object) -> None:
            raise failure

        peer = await declare(broker)
        monkeypatch.setattr(broker.log, "write", write)
        peer.receive(persistent(1, "q"))
        assert await broker.failed() is failure
        assert not broker.accepts_durable(1, broker.clock())
        with pytest.raises(StoreError):
            await broker.commit.durable()
        peer.connection.abort()


async def test_defect_in_one_flush_silences_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False) as running:
        broken, sound = await Peer(running.broker).open(1), await Peer(running.broker).open(1)

        def write(data: bytes) -> None:
            raise RuntimeError("defect")

        monkeypatch.setattr(broken.transport, "write", write)
        broken.connection.engine.output.heartbeat()
        broken.connection.mark_dirty()
        await sound.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
        assert broken.transport.closing
        sound.connection.abort()


async def test_defect_in_what_ends_a_defective_connection_silences_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody asks for a turn while somebody waits for one: without it all would be silent for ever."""
    async with testing.broker(http=False) as running:
        broken, beside, later = [await Peer(running.broker).open(1) for _ in range(3)]

        def defect(*_: bytes) -> None:
            raise RuntimeError("defect")

        monkeypatch.setattr(broken.transport, "write", defect)
        monkeypatch.setattr(broken.transport, "abort", defect)
        monkeypatch.setattr(running.broker.loop, "call_exception_handler", lambda context: None)
        broken.connection.engine.output.heartbeat()
        broken.connection.mark_dirty()
        await beside.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
        await later.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
        monkeypatch.undo()
        for peer in (broken, beside, later):
            peer.connection.abort()


async def test_upkeep_goes_on_after_a_defect_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False) as running:
        broker = running.broker

        def clock() -> int:
            raise RuntimeError("defect")

        timers = Timers(broker, monkeypatch)
        monkeypatch.setattr(broker, "clock", clock)
        with pytest.raises(RuntimeError):
            broker.tick()
        monkeypatch.undo()
        assert timers.waiting == [TICK_SECONDS]


async def test_stopping_is_not_stopped_by_failed_upkeep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make(tmp_path)
    await broker.start()

    async def maintain(*, checkpoint: bool = False) -> None:
        raise RuntimeError("defect")

    assert broker.log_upkeep is not None
    await broker.log_upkeep.stop()  # the first round of the start has ended
    monkeypatch.setattr(broker.commit, "maintain", maintain)
    broker.log_upkeep = LogUpkeep(broker.commit, broker.loop, broker.clock())
    broker.tick()
    with structlog.testing.capture_logs() as logged:
        await broker.stop()
    assert "upkeep of the message log failed" in [line["event"] for line in logged]
    with DirectoryLock(tmp_path):
        assert broker.stopping


async def test_a_stop_ends_all_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that somebody asked for beside the timer's."""
    broker = make()
    await broker.start()
    timers = Timers(broker, monkeypatch)
    broker.tick()
    broker.tick()
    ticks = timers.of(broker)
    assert [due.handle.cancelled() for due in ticks] == [True, False]
    await broker.stop()
    assert [due.handle.cancelled() for due in ticks] == [True, True]


async def test_messages_expire_without_anybody_asking() -> None:
    clock = testing.VirtualClock()
    async with testing.broker(http=False, clock=clock) as running:
        broker = running.broker
        peer = await declare(broker)
        await peer.send(1, publish(1, "q", expiration="1000"))
        queue = broker.hosts["/"].queues["q"]
        clock.advance(1000)
        broker.tick()
        assert (queue.order.count, queue.statistics().messages_expired) == (0, 1)
        peer.connection.abort()


async def test_created_host_is_there_after_a_restart(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        running.broker.create_host("tenant")
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        assert set(running.broker.hosts) == {"/", "tenant"}
