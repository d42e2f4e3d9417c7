"""Threads that are started before there is work, and what happens if the system has none left."""

from __future__ import annotations

import threading

import pytest

from annulet.broker.turns.ready_threads import ready_threads


def running(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_work_needs_no_new_thread(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ready_threads(count, f"ready-{count}-")
    assert running(f"ready-{count}-") == count
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    met = threading.Barrier(count)
    assert sorted(work.result(30) for work in [executor.submit(met.wait, 30) for _ in range(count)]) == [*range(count)]
    executor.shutdown()
    assert running(f"ready-{count}-") == 0


def test_no_thread_is_left_if_one_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_one(thread: threading.Thread) -> None:
        if started:
            no_thread(thread)
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        ready_threads(2, "ready-none-")
    started[0].join(30)
    assert not started[0].is_alive()
