"""The thread that reads ahead: order, defects, its end, and what it holds on to."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from structlog.testing import capture_logs

from annulet.broker.paging.reading_thread import ReadingThread


class Work:
    """Notes that it was done; ``error`` is raised."""

    def __init__(self, done: list[str], error: Exception | None = None) -> None:
        self._done = done
        self._error = error

    def run(self) -> None:
        self._done.append(threading.current_thread().name)
        if self._error is not None:
            raise self._error


def test_works_are_done_in_order_in_one_thread_until_it_is_closed() -> None:
    before = set(threading.enumerate())  # brokers of other tests may have one
    reading = ReadingThread()
    done: list[int] = []
    for number in range(100):
        reading.submit(lambda number=number: done.append(number))
    reading.close()
    assert done == list(range(100))
    assert set(threading.enumerate()) <= before


def test_the_thread_is_there_before_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = ReadingThread()

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    done: list[str] = []
    reading.submit(Work(done).run)
    reading.close()
    assert done == ["annulet-read"]


def test_a_defect_is_logged_and_the_next_work_done() -> None:
    reading = ReadingThread()
    done: list[str] = []
    with capture_logs() as events:
        reading.submit(Work(done, ZeroDivisionError()).run)
        reading.submit(Work(done).run)
        reading.close()
    assert done == ["annulet-read"] * 2
    assert [(event["event"], event["exc_info"]) for event in events] == [("defect while reading ahead", True)]


def test_what_was_done_is_let_go_of_while_the_thread_waits() -> None:
    reading, began = ReadingThread(), threading.Event()
    done: list[str] = []
    work = Work(done)
    reference = weakref.ref(work)
    reading.submit(work.run)
    del work
    reading.submit(began.set)
    assert began.wait(30)
    gc.collect()
    assert reference() is None
    reading.close()
