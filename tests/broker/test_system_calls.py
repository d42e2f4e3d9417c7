"""System calls of a broker at full rate, counted by strace: one for many messages, of a turn, window or read.

Counts do not depend on how fast the machine is, times do. Compiled, 50,000 persistent messages that were confirmed,
consumed and acknowledged took 0.15 calls each: 0.08 readings of a thread's clock, 0.03 futex, 0.03 of sockets and
epoll, 0.004 of the disk. At 2,000 messages a second there were 2.2.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess

MESSAGES = 20_000
WAIT_SECONDS = 30.0
SOCKETS = ("recvfrom", "recvmsg", "sendto", "sendmsg", "read", "write", "epoll_wait", "epoll_ctl")
DISK = ("pwritev", "pwritev2", "pwrite64", "fdatasync", "fsync")
THREADS = ("futex", "clock_gettime")
TRACE = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-c", "-U", "name,calls", "-e"]
TRACE.append(f"trace={','.join(SOCKETS + DISK + THREADS)}")


def works() -> bool:
    """Whether strace is there and may trace."""
    command = [*TRACE, "-o", os.devnull, "true"]
    return shutil.which("strace") is not None and subprocess.run(command, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not works(), reason="needs strace; Debian: apt-get install strace")


def counted(file: Path) -> dict[str, int]:
    """Return the calls by name; strace writes them after the broker has ended."""
    deadline = time.monotonic() + WAIT_SECONDS
    while "total" not in (text := file.read_text()):
        assert time.monotonic() < deadline, f"strace wrote no sum: {text!r}"
        time.sleep(0.05)
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def test_system_calls_are_made_for_many_messages_together(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    counts = tmp_path / "counts"
    counts.touch()
    broker.program = [*TRACE, "-o", str(counts), *broker.program]
    with broker:
        bench = [sys.executable, "-c", "from annulet.cli.main import main; main()", "bench", "--yes", "--json"]
        options = ["-n", str(MESSAGES), "--url", broker.http_url, "--user", "guest"]
        environment = broker.environment | {"ANNULET_PASSWORD": "guest"}
        run = subprocess.run([*bench, *options], env=environment, capture_output=True, text=True, check=True)
        assert json.loads(run.stdout)["lost"] == 0
    calls = counted(counts)
    assert calls["recvfrom"] > 0, "nothing was traced"
    assert sum(calls.get(name, 0) for name in SOCKETS) < 0.2 * MESSAGES, calls
    assert sum(calls.get(name, 0) for name in DISK) < 0.05 * MESSAGES, calls
    assert sum(calls.get(name, 0) for name in THREADS) < 0.6 * MESSAGES, calls
