"""Celery's monitor Flower with ``--broker-api``, and ``celery inspect``, beside a worker."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent.parent
APPLICATION = ["-m", "celery", "-A", "tests.clients.celery_application"]
MISSING = importlib.util.find_spec("flower") is None


@contextmanager
def running(managed: BrokerProcess, log: Path, *arguments: str) -> Iterator[None]:
    environment = {**os.environ, "CELERY_BROKER": managed.amqp_url, "CELERY_QUEUE": "work", "PYTHONPATH": str(ROOT)}
    environment["FLOWER_UNAUTHENTICATED_API"] = "true"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *APPLICATION, *arguments], env=environment, cwd=ROOT, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def fetched(url: str, log: Path) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            if time.monotonic() > deadline:
                raise AssertionError(log.read_text()) from None
            time.sleep(0.2)


@pytest.mark.skipif(MISSING, reason="flower is not installed")
def test_flower_and_inspect_see_the_queue_and_its_worker(managed: BrokerProcess, tmp_path: Path) -> None:
    [port] = free_ports(1)
    api = f"http://guest:guest@127.0.0.1:{managed.http_port}/api/"
    worker_log, log = tmp_path / "worker.log", tmp_path / "flower.log"
    flower = ("flower", f"--broker-api={api}", f"--port={port}", "--address=127.0.0.1")
    with running(managed, worker_log, "worker", "--pool", "solo", "--loglevel", "info"), running(managed, log, *flower):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "ready" not in worker_log.read_text():
            assert time.monotonic() < deadline, worker_log.read_text()
            time.sleep(0.2)
        lengths: list[dict[str, object]] = []
        while not lengths:
            assert time.monotonic() < deadline, log.read_text()
            lengths = json.loads(fetched(f"http://127.0.0.1:{port}/api/queues/length", log))["active_queues"]
        [length] = [item for item in lengths if item["name"] == "work"]
        assert length["messages"] == 0
        page = fetched(f"http://127.0.0.1:{port}/broker", log)
        assert "work" in page
        environment = {**os.environ, "CELERY_BROKER": managed.amqp_url, "PYTHONPATH": str(ROOT)}
        inspected = subprocess.run(
            [sys.executable, *APPLICATION, "inspect", "active_queues", "--json", "--timeout", "10"],
            env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert inspected.returncode == 0, inspected.stdout + inspected.stderr
        [queues] = json.loads(inspected.stdout).values()
        assert [queue["name"] for queue in queues] == ["work"]
