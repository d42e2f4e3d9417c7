"""Celery with quorum queues: countdowns wait in a tree of 28 queues of the broker (its native delayed delivery)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from tests.clients import celery_delayed
from tests.clients.celery_delayed import add, flaky
from tests.clients.support import PATIENCE_SECONDS, Peer

ROOT = Path(__file__).resolve().parent.parent.parent
LEVELS = 28


@pytest.fixture(scope="module")
def application(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """The application with a worker that is ready."""
    if not peer.ours:
        pytest.skip("the delay queues of Celery have names of their own, which another broker may have already")
    queue = f"delayed-{os.getpid()}"
    log = tmp_path_factory.mktemp("celery") / "delayed.log"
    environment = {**os.environ, "CELERY_BROKER": peer.url, "CELERY_QUEUE": queue, "PYTHONPATH": str(ROOT)}
    application = celery_delayed.application
    application.conf.update(broker_url=peer.url)
    celery_delayed.use_queue(queue)
    command = [sys.executable, "-m", "celery", "-A", "tests.clients.celery_delayed", "worker"]
    command += ["--pool", "threads", "--concurrency", "2", "--hostname", "delayed@%h", "--loglevel", "info"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while " ready." not in log.read_text():
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield application
    finally:
        worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        with application.connection_for_write() as connection:
            channel = connection.default_channel
            for name in (queue, *(f"celery_delayed_{level}" for level in range(LEVELS))):
                channel.queue_delete(name)
        application.close()


def test_a_countdown_waits_in_the_broker(application: Celery) -> None:
    started = time.monotonic()
    assert add.apply_async((40, 2), countdown=1.5).get(timeout=PATIENCE_SECONDS) == 42
    assert time.monotonic() - started >= 1


def test_the_longest_delay_is_a_queue_of_the_broker(application: Celery) -> None:
    with application.connection_for_write() as connection:
        declared = connection.default_channel.queue_declare(f"celery_delayed_{LEVELS - 1}", passive=True)
        assert declared.consumer_count == 0


def test_retries_with_a_countdown_go_on_until_it_works(application: Celery) -> None:
    """B21: the retry carries the ``x-death`` of the attempt before it, where Celery is older than 5.6."""
    assert flaky.delay(3).get(timeout=PATIENCE_SECONDS) == 3
