"""Executors whose threads are started before there is work.

An executor starts a thread when work is submitted. If the system has none left at that moment, the submission raises
after the work was queued, and its result is lost. With all its threads running, a submission needs nothing.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Return an executor with ``count`` running threads. Raises ``RuntimeError`` if the system has not so many."""
    executor = ThreadPoolExecutor(count, thread_name_prefix=name)
    all_started = threading.Barrier(count)  # a thread that is idle would be given the next work
    try:
        for _ in range(count):
            executor.submit(all_started.wait)
    except RuntimeError:
        all_started.abort()
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    return executor
