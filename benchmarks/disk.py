"""The disk below the brokers: what a sync takes, and a wrapper that lets each sync take longer.

strace delays the system call itself, so that it meets every program alike; a library below the C functions
(``LD_PRELOAD``) misses those that make their system calls themselves, as programs in Go do.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from typing import Final

SYNCS: Final = "fsync,fdatasync,sync_file_range,msync"
PROBES: Final = 20
PAGE: Final = 4096


def slow_disk(milliseconds: float) -> list[str]:
    """Return the words before a command whose syncs, and those of its children, take so much longer."""
    delay = round(milliseconds * 1000)
    return [
        "strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null",
        "-e", f"trace={SYNCS}", "-e", f"inject={SYNCS}:delay_exit={delay}",
    ]  # fmt: skip


def why_no_slow_disk() -> str:
    """Return why syncs cannot be delayed here, empty when they can."""
    if shutil.which("strace") is None:
        return "no strace (Debian: apt-get install strace)"
    finished = subprocess.run([*slow_disk(0.001), "true"], capture_output=True, text=True, check=False)
    return "" if finished.returncode == 0 and not finished.stderr else f"strace: {finished.stderr.strip()}"


def sync_milliseconds() -> float:
    """Return the median of what a sync of one page takes where the brokers have their data."""
    taken = []
    with tempfile.NamedTemporaryFile(prefix="annulet-bench-") as file:
        for number in range(PROBES):
            os.pwrite(file.fileno(), bytes(PAGE), number * PAGE)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(taken), 2)
