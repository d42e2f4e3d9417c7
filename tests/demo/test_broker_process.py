from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from annulet.demo.broker_process import BrokerFailedError, BrokerProcess


def test_starts_answers_and_stops_cleanly(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", tmp_path / "log") as process:
        process.wait_until_ready()
        names = [queue["name"] for queue in process.get_json("/api/v1/queues")["items"]]
        assert names == ["amq.events"]
        assert process.stop() == 0
    assert process.stop() is None


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder should be")
    with (
        BrokerProcess(data, tmp_path / "log") as process,
        pytest.raises(BrokerFailedError, match="exit code 2") as error,
    ):
        process.wait_until_ready()
    assert str(data) in str(error.value)


def test_waiting_ends_when_asked_to(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    with BrokerProcess(tmp_path / "data", tmp_path / "log") as process:
        process.wait_until_ready(stop)


def test_an_error_answer_is_shown(broker: BrokerProcess) -> None:
    with pytest.raises(BrokerFailedError, match=r"/api/v1/queues\?nonsense=1 was answered with 400: .*nonsense"):
        broker.get_json("/api/v1/queues?nonsense=1")


def test_a_process_that_was_not_started_is_not_alive(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailedError, match="was not started"):
        BrokerProcess(tmp_path / "data", tmp_path / "log").check_alive()


def test_the_url_for_spark_names_everything(broker: BrokerProcess) -> None:
    assert broker.address.bulk_url == f"annulet://guest:guest@127.0.0.1:{broker.address.bulk}/"


def test_an_interrupt_while_it_starts_leaves_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGINT)  # after the fork, before anybody has the process
        return started[0]

    start = subprocess.Popen
    # A shell starts what it puts in the background with SIGINT ignored: the test brings its own handler.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    process = BrokerProcess(tmp_path / "data", tmp_path / "log")
    try:
        with pytest.raises(KeyboardInterrupt):
            process.__enter__()
        assert started[0].poll() is not None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, former)
        process.stop()


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as nohup and a shell's background jobs do
    try:
        with BrokerProcess(tmp_path / "data", tmp_path / "log") as process:
            signal.raise_signal(signal.SIGINT)
            process.wait_until_ready()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert process.stop() == 0
    finally:
        signal.signal(signal.SIGINT, former)
