"""Messages to systemd, over a real datagram socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from annulet.cli.service_manager import ServiceManager
from tests.broker_process import BrokerProcess

SECONDS = 30.0
"""A message that does not come within these fails a test."""


class Manager:
    """The service manager's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(SECONDS)

    def next(self) -> dict[str, str]:
        """Return the assignments of the next message."""
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def until(self, name: str) -> dict[str, str]:
        """Return the next message that has a name."""
        while True:
            message = self.next()
            if name in message:
                return message


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    end = Manager(tmp_path / "notify")
    yield end
    end.socket.close()


def test_a_broker_says_ready_reloading_and_stopping(manager: Manager, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"}
    process = BrokerProcess(tmp_path / "data", environment=environment)
    process.start()
    try:
        first = manager.next()
        assert first == {"STATUS": "recovering", "EXTEND_TIMEOUT_USEC": "60000000"}
        assert manager.until("READY")["STATUS"] == "serving"
        assert process.get("/health/ready")
        manager.until("WATCHDOG")
        manager.until("WATCHDOG")
        assert process.process is not None
        process.process.send_signal(signal.SIGHUP)
        assert int(manager.until("RELOADING")["MONOTONIC_USEC"]) > 0
        manager.until("READY")
    finally:
        assert process.terminate() == 0
    assert manager.until("STOPPING")["STATUS"] == "stopping"


async def test_the_watchdog_is_fed_by_the_loop_and_by_nothing_else(manager: Manager) -> None:
    told = ServiceManager({"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "20000"})
    told.ready(asyncio.get_running_loop())
    assert "READY" in manager.next()
    assert "WATCHDOG" in manager.next()
    manager.socket.settimeout(0.2)  # the loop is held: nothing comes
    with pytest.raises(TimeoutError):
        manager.next()
    manager.socket.setblocking(False)
    for _ in range(3):
        while True:
            await asyncio.sleep(0.005)
            try:
                assert "WATCHDOG" in manager.next()
                break
            except BlockingIOError:
                continue
    told.close()


async def test_another_process_watchdog_and_no_socket_send_nothing(manager: Manager) -> None:
    environment = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getppid())}
    told = ServiceManager(environment)
    told.ready(asyncio.get_running_loop())
    assert "READY" in manager.next()
    await asyncio.sleep(0.02)
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.next()
    told.close()
    silent = ServiceManager({"WATCHDOG_USEC": "1000"})
    silent.starting(asyncio.get_running_loop())
    silent.ready(asyncio.get_running_loop())
    silent.stopping("stopping")
    silent.close()


def test_an_abstract_socket_and_one_that_is_gone(tmp_path: Path) -> None:
    name = f"annulet-{tmp_path.name}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind("\0" + name)
        end.settimeout(SECONDS)
        told = ServiceManager({"NOTIFY_SOCKET": "@" + name})
        told.stopping("stopping")
        assert end.recv(4096) == b"STOPPING=1\nSTATUS=stopping"
        told.close()
    gone = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nowhere")})
    with structlog.testing.capture_logs() as logs:
        gone.reloading()
    gone.close()
    assert [(line["event"], line["message"]) for line in logs] == [
        ("the service manager cannot be told", "RELOADING=1")
    ]
