"""A real broker as a child process: ``annulet serve`` on free loopback ports, and its HTTP interface."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Final, Self

import pika

from annulet.demo.ports import LOOPBACK, free_ports
from annulet.demo.topology import board

START_SECONDS: Final = 60.0
"""Limit of the broker's start; an empty one takes about a second."""
STOP_SECONDS: Final = 30.0
"""How long a clean shutdown may take before the process is killed."""
LOOK_SECONDS: Final = 0.05
REQUEST_SECONDS: Final = 30.0
"""How long one HTTP request may take; the broker is busy with everything else at the same time."""
LOG_LINES_SHOWN: Final = 15
CONFIGURATION: Final = f"""event_queues = ["{board("*")}"]
event_queue_bytes = "256MiB"
"""
"""The event log of the boards is kept: two events a departure, some 50 MB in all, so that none is pushed out."""
INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)

COMMAND: Final = "import sys; from annulet.cli.main import main; sys.exit(main())"
"""The command of this installation, whether or not its script is on the path."""


class BrokerFailedError(RuntimeError):
    """The broker did not start, or ended unexpectedly; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens, all on one host."""

    amqp: int
    http: int
    bulk: int
    host: str = LOOPBACK
    user: str = "guest"
    password: str = "guest"  # noqa: S105  (works from loopback only, as in RabbitMQ)

    def parameters(self) -> pika.ConnectionParameters:
        """Return pika's parameters; no heartbeat, because a full window may keep the client's loop busy."""
        return pika.ConnectionParameters(
            self.host, self.amqp, credentials=pika.PlainCredentials(self.user, self.password), heartbeat=0
        )

    @property
    def bulk_url(self) -> str:
        """The ``url`` option of Spark's source and sink."""
        return f"annulet://{self.user}:{self.password}@{self.host}:{self.bulk}/"

    def http_url(self, path: str) -> str:
        """Return the address of a resource."""
        return f"http://{self.host}:{self.http}{path}"


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let SIGINT and SIGTERM take effect at the end only: one inside ``Popen`` would leave an unknown process.

    Does nothing outside the main thread, which alone is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    former = {number: signal.signal(number, lambda got, _: came.append(got)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    for deferred in came:
        signal.raise_signal(deferred)


class BrokerProcess:
    """Context manager: starts the broker without waiting, stops it with SIGTERM. Its log goes to ``log``."""

    def __init__(self, data: Path, log: Path) -> None:
        self.data = data
        self.log = log
        amqp, http, bulk = free_ports(3)
        self.address = BrokerAddress(amqp, http, bulk)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        address = self.address
        configuration = self.log.with_name("broker.toml")
        command = [sys.executable, "-c", COMMAND, "serve", "--config", str(configuration), "--data", str(self.data)]
        command += ["--stomp", "off"]
        for name, port in (("amqp", address.amqp), ("http", address.http), ("bulk", address.bulk)):
            command += [f"--{name}", f"{address.host}:{port}"]
        try:
            configuration.write_text(CONFIGURATION)
            with self.log.open("wb") as log, interrupts_deferred():
                # A separate session: Ctrl-C reaches this process only, which then stops the broker.
                self._process = subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                    env=_environment(),
                )  # fmt: skip
        except BaseException:
            self.stop()  # __exit__ is not called without a completed __enter__
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_until_ready(self, stop: Event | None = None) -> None:
        """Return when ``GET /health/ready`` answers 200, or when ``stop`` is set. Raises :class:`BrokerFailedError`."""
        deadline = time.monotonic() + START_SECONDS
        while stop is None or not stop.is_set():
            self.check_alive()
            try:
                with urllib.request.urlopen(  # noqa: S310
                    self.address.http_url("/health/ready"), timeout=REQUEST_SECONDS
                ):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise BrokerFailedError(
                        f"the broker was not ready after {START_SECONDS:.0f} seconds ({error})\n{self._log_end()}"
                    ) from error
            time.sleep(LOOK_SECONDS)

    def check_alive(self) -> None:
        """Raise :class:`BrokerFailedError` when the process has ended."""
        if self._process is None:
            raise BrokerFailedError("the broker was not started")
        code = self._process.poll()
        if code is not None:
            raise BrokerFailedError(f"the broker ended with exit code {code}\n{self._log_end()}")

    def get_json(self, path: str) -> Any:
        """Return the decoded answer to a ``GET`` of a resource. Raises :class:`BrokerFailedError`."""
        request = urllib.request.Request(self.address.http_url(path))  # noqa: S310
        request.add_header("Authorization", _basic(self.address.user, self.address.password))
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise BrokerFailedError(f"GET {path} was answered with {error.code}: {text}") from error
        except OSError as error:
            self.check_alive()
            raise BrokerFailedError(f"GET {path} failed: {error}") from error

    def stop(self) -> int | None:
        """Stop the broker and return its exit code; ``None`` when it was not running. Killed after STOP_SECONDS."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN:]) or f"({self.log} is empty)"


def _environment() -> dict[str, str]:
    """Let the child find this very package, also when it is run from a source tree."""
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
