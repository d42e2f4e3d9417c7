"""A broker process under test on a data folder of its own, which can be stopped, killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from annulet.store.files.files import UNFINISHED_SUFFIX
from benchmarks.brokers import ROOT, BrokerError, Running, answers, free_port

READY_SECONDS_MAX: Final = 900.0
STOP_SECONDS_MAX: Final = 120.0
POLL_SECONDS: Final = 0.005
HTTP_SECONDS_MAX: Final = 60.0
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
AHEAD: Final = 5
"""By how much the broker's priority is above that of its load, which stands for other machines: on a few cores the loop
would else wait for its own clients. Where the system does not allow that both have the same."""


class Site:
    """Started on entering, killed and its folder removed on leaving. ``arguments`` go to ``annulet serve``.

    ``prelude``: Python that runs in its process before, which changes what no setting does.
    """

    def __init__(self, *arguments: str, pure: bool, folder: Path | None = None, prelude: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="annulet-deep-", dir=folder))
        self.data = self.folder / "data"
        self.port = 0
        self.http_port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._arguments = arguments
        self._program = f"{prelude}\nfrom annulet.cli.main import main; main()"
        self._environment = {
            **os.environ,
            "ANNULET_PURE": "1" if pure else "0",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])),
        }
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start compiles every source anew

    def start(self) -> float:
        """Start; return the seconds until clients are greeted. Raises BrokerError with the end of the log."""
        self.port, self.http_port = free_port(), free_port()
        command = [sys.executable, "-c", self._program, "serve"]
        command += ["--data", str(self.data), "--amqp", f"127.0.0.1:{self.port}"]
        command += ["--http", f"127.0.0.1:{self.http_port}", "--bulk", "off", "--stomp", "off", *self._arguments]
        log = self.folder / "log"
        began = time.monotonic()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, os.getpriority(os.PRIO_PROCESS, 0) - AHEAD)
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() - began > READY_SECONDS_MAX:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise BrokerError(f"not ready after {time.monotonic() - began:.0f} s:\n{tail}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began

    def end(self, number: signal.Signals) -> float:
        """Send SIGTERM or SIGKILL; return the seconds until the process was gone."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(STOP_SECONDS_MAX)
        return time.monotonic() - began

    @property
    def running(self) -> Running:
        """What the load generators want to know."""
        return Running(self.port, self.process_id)

    @property
    def process_id(self) -> int:
        """Of the process started last."""
        assert self.process is not None
        return self.process.pid

    def resident(self) -> int:
        """Return the resident set in bytes. Raises OSError while nothing runs."""
        fields = Path(f"/proc/{self.process_id}/statm").read_text().split()
        return int(fields[1]) * PAGE_BYTES

    def resident_beside(self) -> int:
        """Return the resident set of the processes that the broker has started, in bytes. Raises OSError."""
        children = Path(f"/proc/{self.process_id}/task/{self.process_id}/children").read_text().split()
        return sum(int(Path(f"/proc/{child}/statm").read_text().split()[1]) for child in children) * PAGE_BYTES

    def metrics(self) -> dict[str, float]:
        """Return every sample by its name with labels, without ``annulet_``. Raises OSError while nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=HTTP_SECONDS_MAX)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name.removeprefix("annulet_")] = float(value)
        return samples

    def queue_metric(self, queue: str, name: str) -> int:
        """Return a figure of one queue, 0 when it is not there."""
        return int(self.metrics().get(f'queue_{name}{{queue="{queue}",vhost="/"}}', 0))

    def log_bytes(self, kind: str = "segment") -> int:
        """Return what the segments of the message log take on disk, or the ``heads`` beside them."""
        size = 0
        for path in (self.data / "messages").glob(f"*.{kind}"):
            with contextlib.suppress(FileNotFoundError):  # the broker removes what is empty meanwhile
                size += path.stat().st_size
        return size

    def checkpoint_at(self) -> float:
        """Return when the last checkpoint was written, in seconds since 1970; 0 when there is none."""
        last = 0.0
        for path in (self.data / "messages").glob("checkpoint-*"):
            with contextlib.suppress(FileNotFoundError):  # two are kept, and they get their names when they are whole
                last = max(last, path.stat().st_mtime if path.suffix != UNFINISHED_SUFFIX else 0.0)
        return last

    def drop_cache(self) -> None:
        """Have the system forget the log's pages, so that reads come from the disk."""
        messages = self.data / "messages"
        for path in (*messages.glob("*.segment"), *messages.glob("*.heads")):
            # the broker removes what is empty meanwhile
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def __enter__(self) -> Site:
        try:
            self.start()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
