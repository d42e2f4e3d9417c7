"""A real Celery worker as a process of its own, with results over rpc://."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery, chain, group

from tests.clients import celery_application
from tests.clients.celery_application import add, broken, flaky, once_then_die, tail
from tests.clients.support import PATIENCE_SECONDS, Peer

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def application(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """The application with a worker that is ready."""
    queue = f"celery-{os.getpid()}"
    log = tmp_path_factory.mktemp("celery") / "worker.log"
    environment = {**os.environ, "CELERY_BROKER": peer.url, "CELERY_QUEUE": queue, "PYTHONPATH": str(ROOT)}
    application = celery_application.application
    application.conf.update(broker_url=peer.url, task_default_queue=queue)
    command = [sys.executable, "-m", "celery", "-A", "tests.clients.celery_application", "worker"]
    command += ["--pool", "prefork", "--concurrency", "2", "--hostname", "prefork@%h", "--loglevel", "info"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not application.control.ping(timeout=0.5):
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
        yield application
    finally:
        worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        with application.connection_for_write() as connection:
            connection.default_channel.queue_delete(queue)
        application.close()


def test_results_come_back(application: Celery) -> None:
    results = [add.delay(number, 1) for number in range(20)]
    assert [result.get(timeout=PATIENCE_SECONDS) for result in results] == list(range(1, 21))


def test_retries_are_new_messages_until_it_works(application: Celery) -> None:
    result = flaky.delay(3)
    assert result.get(timeout=PATIENCE_SECONDS) == 3


def test_failures_come_back_as_exceptions(application: Celery) -> None:
    with pytest.raises(ValueError, match="no use"):
        broken.delay().get(timeout=PATIENCE_SECONDS)


def test_chains_and_groups(application: Celery) -> None:
    assert chain(add.s(1, 2), add.s(3))().get(timeout=PATIENCE_SECONDS) == 6
    results = group(add.s(number, number) for number in range(5))().get(timeout=PATIENCE_SECONDS)
    assert results == [0, 2, 4, 6, 8]
    assert tail.delay(results).get(timeout=PATIENCE_SECONDS) == 20


def test_a_countdown_is_kept_by_the_worker(application: Celery) -> None:
    assert add.apply_async((2, 2), countdown=0.2).get(timeout=PATIENCE_SECONDS) == 4


def test_the_worker_answers_remote_control(application: Celery) -> None:
    inspect = application.control.inspect(timeout=PATIENCE_SECONDS, limit=1)
    registered = inspect.registered()
    (name,) = registered
    assert name.startswith("prefork@")
    assert "tests.clients.celery_application.add" in registered[name]
    (answer,) = application.control.inspect(timeout=PATIENCE_SECONDS, limit=1).stats().values()
    assert answer["broker"]["transport"] == "amqp"


def test_a_task_whose_process_dies_runs_again(application: Celery, tmp_path: Path) -> None:
    """acks_late: the message of a lost child goes back to the queue and is delivered again."""
    assert once_then_die.delay(str(tmp_path / "marker")).get(timeout=PATIENCE_SECONDS) == "survived"


def test_more_tasks_for_later_than_the_prefetch_do_not_stop_the_worker(application: Celery) -> None:
    """B11: the worker holds them unacknowledged, and raises its prefetch by ``basic.qos`` for each."""
    waiting = [add.apply_async((1, 1), countdown=3600) for _ in range(10)]
    try:
        assert add.delay(40, 2).get(timeout=PATIENCE_SECONDS) == 42
    finally:
        application.control.revoke([result.id for result in waiting])
        for result in waiting:
            result.forget()


def test_a_pool_that_grows_takes_more_tasks(application: Celery) -> None:
    """B11: ``pool_grow`` raises the prefetch of a consumer that is there."""
    before = _prefetch(application)
    application.control.pool_grow(2, reply=True, timeout=PATIENCE_SECONDS, limit=1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _prefetch(application) < before + 2:
        assert time.monotonic() < deadline
    assert add.delay(1, 2).get(timeout=PATIENCE_SECONDS) == 3


def _prefetch(application: Celery) -> int:
    (answer,) = application.control.inspect(timeout=PATIENCE_SECONDS, limit=1).stats().values()
    return int(answer["prefetch_count"])
