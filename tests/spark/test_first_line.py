"""Errors of the data source as Spark's Python processes tell them. What users see: ``test_source``, ``test_sink``."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest
from pyspark.util import handle_worker_exception

from annulet.bulk.protocol.errors import NotFoundError
from annulet.spark import first_line
from annulet.spark.first_line import HIDE_TRACEBACK, told_first


@told_first
class Reader:
    def partitions(self) -> None:
        raise NotFoundError("no queue 'q': declare it")

    def read(self) -> Iterator[int]:
        yield 1
        raise NotFoundError("no queue 'q': declare it")

    def stop(self) -> None:
        raise ValueError("not ours")


def told(work: object) -> list[str]:
    """Lines of what a process of Spark would say."""
    assert callable(work)
    out = io.BytesIO()
    try:
        work()
    except Exception as error:  # noqa: BLE001 - as Spark does
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode().splitlines()  # behind a mark and the length


@pytest.fixture
def of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_line, "_is_of_spark", lambda: True)
    monkeypatch.setenv(HIDE_TRACEBACK, "")  # put back at the end
    monkeypatch.delenv(HIDE_TRACEBACK)
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")  # as in most of them


@pytest.mark.usefixtures("of_spark")
def test_the_text_comes_first_and_the_traceback_behind_it() -> None:
    for work in (Reader().partitions, lambda: list(Reader().read())):
        os.environ.pop(HIDE_TRACEBACK, None)
        lines = told(work)
        assert lines[:2] == [
            "annulet.bulk.protocol.errors.NotFoundError: no queue 'q': declare it",
            "Traceback (most recent call last):",
        ]
        assert any("test_first_line.py" in line for line in lines)


@pytest.mark.usefixtures("of_spark")
def test_errors_of_others_keep_their_traceback_first() -> None:
    assert told(Reader().stop)[0] == "Traceback (most recent call last):"


def test_in_a_process_that_spark_did_not_start_nothing_is_hidden() -> None:
    assert told(Reader().partitions)[0] == "Traceback (most recent call last):"
    assert HIDE_TRACEBACK not in os.environ


def test_methods_keep_their_signatures() -> None:
    import inspect

    from annulet.spark.source import AnnuletStreamReader

    assert list(inspect.signature(AnnuletStreamReader.latestOffset).parameters) == ["self", "start", "limit"]
