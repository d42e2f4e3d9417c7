"""What a load generator reports of its run: the keys of the generators in C."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Any


class Process:
    """Processor time, memory and written bytes of a process, as the kernel counts them now."""

    def __init__(self, process_id: int) -> None:
        folder = Path("/proc") / str(process_id)
        fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        self.cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        status = (folder / "status").read_text()
        self.resident = int(status.split("VmRSS:")[1].split()[0])  # KiB
        self.written = int((folder / "io").read_text().split("\nwrite_bytes:")[1].split()[0])


class Run:
    """A run from its beginning: the clock, the broker's process and this one's processor time."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._before = Process(process_id)
        self._own = _own_seconds()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._began

    def figures(self, *, sent: int, received: int, sent_after: float, received_after: float) -> dict[str, Any]:
        """Return the report; the last confirm and the last delivery came so many seconds ``after`` the beginning."""
        after = Process(self._process_id)
        passed = max(sent, received, 1)
        return {
            "sent": sent,
            "received": received,
            "send_s": sent_after,
            "send_rate": round(sent / sent_after) if sent_after else 0,
            "recv_s": received_after,
            "recv_rate": round(received / received_after) if received_after else 0,
            "lat_us": {"p50": 0, "p99": 0, "p999": 0},
            "broker_cpu_s": after.cpu - self._before.cpu,
            "broker_us_per_msg": round((after.cpu - self._before.cpu) * 1e6 / passed, 2),
            "own_cpu_us_per_msg": round((_own_seconds() - self._own) * 1e6 / passed, 2),
            "rss_kb0": self._before.resident,
            "rss_kb1": after.resident,
            "written_mb": round((after.written - self._before.written) / 1e6, 1),
            "end": "complete",
        }


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Counter:
    """Counts a text in octets that come in pieces, also where two of them meet."""

    def __init__(self, text: bytes) -> None:
        self.count = 0
        self._text = text
        self._rest = b""

    def feed(self, octets: bytes) -> int:
        """Return the count so far."""
        keep = len(self._text) - 1
        seam = self._rest + octets[:keep]
        self.count += seam.count(self._text) + octets.count(self._text)
        self._rest = octets[-keep:] if len(octets) >= keep else (self._rest + octets)[-keep:]
        return self.count
