"""A real ``annulet serve`` as a process of its own, for tests with real clients and for killing it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from annulet.demo.ports import free_ports

START_SECONDS = 60.0
"""How long a start may take; generous, because two cores may be shared with a JVM."""

STOP_SECONDS = 60.0

POLL_SECONDS = 0.05


class BrokerProcess:
    """Starts on entering, on ports that stay the same over restarts; ends the process on leaving.

    ``data`` of ``None`` keeps everything in memory. The log goes to ``broker.log`` beside or below the data.
    """

    def __init__(
        self,
        data: Path | None,
        *arguments: str,
        bulk: bool = False,
        log_file: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.data = data
        self.bulk = bulk
        self.arguments = arguments
        self.program = [sys.executable, "-c", "from annulet.cli.main import main; main()"]
        self.environment = {**os.environ, **(environment or {})}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start compiles every source anew
        source = str(Path(__file__).resolve().parent.parent / "src")
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
        self.amqp_port, self.http_port, self.bulk_port, self.stomp_port = free_ports(4)
        self.log_file = log_file or (None if data is None else data.with_name(f"{data.name}.log"))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def amqp_url(self) -> str:
        # no path: every client takes that as the virtual host "/"; with a bare slash they disagree
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def bulk_url(self) -> str:
        return f"annulet://guest:guest@127.0.0.1:{self.bulk_port}/"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker was not started"
        return self.process.pid

    def command(self) -> list[str]:
        """Return the command line."""
        where = ["--memory"] if self.data is None else ["--data", str(self.data)]
        return [
            *(*self.program, "serve", *where),
            *("--amqp", f"127.0.0.1:{self.amqp_port}", "--http", f"127.0.0.1:{self.http_port}"),
            *("--stomp", f"127.0.0.1:{self.stomp_port}"),
            *("--bulk", f"127.0.0.1:{self.bulk_port}" if self.bulk else "off"),
            *self.arguments,
        ]

    def start(self, *, wait: bool = True) -> BrokerProcess:
        """Start, and with ``wait`` return when clients may connect."""
        assert self.process is None or self.process.poll() is not None, "the broker runs already"
        if self.log_file is None:
            self.process = subprocess.Popen(self.command(), env=self.environment, stderr=subprocess.DEVNULL)
        else:
            with self.log_file.open("ab") as log:
                self.process = subprocess.Popen(self.command(), env=self.environment, stderr=log)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Return when ``/health/ready`` answers 200; fail with the log's end when the process ends or time is up."""
        assert self.process is not None, "the broker was not started"
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            code = self.process.poll()
            if code is not None:
                raise AssertionError(f"the broker ended with {code} before it was ready:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the broker was not ready within {seconds} s:\n{self.log_end()}")
            time.sleep(POLL_SECONDS)

    def wait_for_log(self, text: str, seconds: float = START_SECONDS) -> None:
        """Return when the log contains ``text``; fail with the log's end when time is up."""
        assert self.log_file is not None, "without a data directory, name a log_file"
        deadline = time.monotonic() + seconds
        while text not in self.log_file.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not logged within {seconds} s:\n{self.log_end()}")
            time.sleep(POLL_SECONDS)

    def is_ready(self) -> bool:
        """Ask the health endpoint once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):  # not listening yet: the caller asks again
            return False
        finally:
            connection.close()

    def get(self, path: str, *, user: str = "guest:guest") -> Any:
        """Return the JSON of an API path."""
        import base64

        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        try:
            token = base64.b64encode(user.encode()).decode()
            connection.request("GET", path, headers={"Authorization": f"Basic {token}"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, (response.status, body)
            return json.loads(body)
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels; ``name`` without ``annulet_``."""
        with urllib.request.urlopen(f"{self.http_url}/metrics") as response:
            lines = response.read().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"annulet_{name} "))

    def kill(self) -> None:
        """``kill -9``: the process gets no chance to write anything. Returns when it is gone."""
        assert self.process is not None, "the broker was not started"
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def terminate(self) -> int:
        """Stop cleanly with SIGTERM and return the exit code."""
        assert self.process is not None, "the broker was not started"
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def restart(self) -> None:
        """Kill when it runs, start on the same ports and data, wait until it is ready."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.start()

    def log_end(self, characters: int = 4000) -> str:
        """Return the end of the log."""
        if self.log_file is None or not self.log_file.exists():
            return "(no log)"
        return self.log_file.read_text(errors="replace")[-characters:]

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
