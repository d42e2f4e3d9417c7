"""Celery for test_every_client.py: an application that sends tasks, and a worker as a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from celery import Celery

from tests.clients.celery_application import trust
from tests.clients.every_client import Declined, EveryClient, Place
from tests.clients.support import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


class CeleryWorker(EveryClient):
    """A worker of Celery as a process of its own, and an application that gives it tasks."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="celery-"))
        self.log = self.folder / "worker.log"
        self.worker: subprocess.Popen[bytes] | None = None
        self.application: Celery | None = None
        self.sent = self.taken = 0

    def connect(self, place: Place) -> None:
        self.place = place
        environment = {
            **os.environ, "CELERY_BROKER": place.url, "CELERY_QUEUE": self.queue, "CELERY_AUTHORITY": place.authority,
            "CELERY_HEARTBEAT": str(place.heartbeat or 120), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        command = [sys.executable, "-m", "celery", "-A", "tests.clients.celery_application", "worker"]
        command += ["--pool", "threads", "--concurrency", "1", "--without-gossip", "--without-mingle"]
        command += ["--hostname", f"{self.queue}@%h", "--loglevel", "info"]
        with self.log.open("wb") as output:
            self.worker = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)
        if self._wait_logged(" ready.", "ACCESS_REFUSED") != " ready.":
            raise Declined(self.log.read_text())
        self._make_application()

    def _make_application(self) -> None:
        """Make an application whose connections are new."""
        if self.application is not None:
            self.application.close()
        self.application = Celery(self.queue, broker=self.place.url, set_as_current=False)
        self.application.conf.task_default_queue = self.queue
        self.application.conf.broker_transport_options = {"confirm_publish": True}
        if self.place.authority:
            trust(self.application, self.place.authority)

    def _wait_logged(self, *texts: str, count: int = 1) -> str:
        """Return which of the texts is in the log of the worker first, so many times."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            written = self.log.read_text()
            for text in texts:
                if written.count(text) >= count:
                    return text
            time.sleep(0.05)
        raise TimeoutError(f"the worker said nothing of {texts}:\n{self.log.read_text()}")

    def _send(self, body: str, countdown: float = 0) -> None:
        assert self.application is not None
        task = self.application.signature("tests.clients.celery_application.add", (body, ""))
        self.sent += 1
        task.apply_async(countdown=countdown, ignore_result=True)

    def publish(self, body: str) -> None:
        self._send(body)

    def leave(self, body: str) -> None:
        """A task for later is a message that the worker holds."""
        self._send(body, countdown=1)
        self._wait_logged("] received", count=self.sent)

    def take(self) -> str:
        """Return what the task returned that ran last: its body."""
        self.taken += 1
        self._wait_logged(" succeeded in ", count=self.taken)
        return re.findall(r" succeeded in \S+: '(.*)'$", self.log.read_text(), re.MULTILINE)[self.taken - 1]

    def hold(self) -> str:
        """A task for later is a message that the worker holds."""
        self._send("held", countdown=600)
        self._wait_logged("] received", count=self.sent)
        self._wait_idle()
        return "held"

    def _wait_idle(self) -> None:
        """Have the worker answer, which it does when it has what it asked for before.

        For a task for later it asks for one message more (basic.qos), and waits for that as long as it takes: neither
        heartbeats nor anything else tells it of a broker that falls silent meanwhile.
        """
        assert self.application is not None
        (node,) = re.findall(r"\] (.+@\S+) ready\.$", self.log.read_text(), re.MULTILINE)[-1:]
        assert self.application.control.ping(destination=[node], timeout=PATIENCE_SECONDS, limit=1)

    def wait_lost(self) -> str:
        return self._wait_logged("Connection to broker lost")

    def reconnect(self, place: Place) -> None:
        self.wait_lost()
        self._wait_logged("Connected to", count=2)
        self._make_application()

    def close(self) -> None:
        if self.application is not None:
            self.application.close()
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait(PATIENCE_SECONDS)
        shutil.rmtree(self.folder)
