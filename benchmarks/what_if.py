"""How many recorded messages a second one task of ``annulet pipeline what-if`` simulates.

Run as ``python -m benchmarks.what_if [MESSAGES]``; without ``ANNULET_PURE=1`` compiled modules are used where they are.
"""

from __future__ import annotations

import sys
import time

from annulet import _build
from annulet.spark.what_if.settings import Setting, setting_of
from annulet.spark.what_if.simulation import simulate
from annulet.spark.what_if.traffic import Arrival

MESSAGES = 20_000
SETTINGS: dict[str, Setting] = {
    "ring of 1000": setting_of({"ring-size": 1000, "rate": 50, "consumers": 2}),
    "newest of each key": setting_of({"last-value-key": "key", "rate": 50, "consumers": 2}),
    "ten priorities, 1000 at most": setting_of({"max-priority": 10, "max-length": 1000, "rate": 50, "consumers": 2}),
}


def main() -> None:
    """Simulate one message every 5 ms for each setting, and print the rates."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    arrivals = [
        Arrival(at=number * 5, size=100, priority=number % 10, properties={"key": str(number % 100)})
        for number in range(count)
    ]
    print("compiled" if _build.compiled() else "pure Python", f"{count:,} messages")
    for name, setting in SETTINGS.items():
        started = time.perf_counter()
        simulate(setting, arrivals)
        print(f"{name}: {count / (time.perf_counter() - started):,.0f} messages/s")


if __name__ == "__main__":
    main()
