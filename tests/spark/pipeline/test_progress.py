"""Figures of batches, from Spark's progress reports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from annulet.spark.pipeline.progress import Watch, backlog_of, lag_of, report_of


def progress(batch: int, rows: int, *, end: int = 40, latest: int = 100, **more: int) -> dict[str, Any]:
    offsets = {"endOffset": {"pos": end}, "latestOffset": json.dumps({"pos": latest, **more})}
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 2000},
        "sources": [offsets, {"endOffset": "17", "latestOffset": None}],
    }


def query(*documents: dict[str, Any]) -> Any:
    return SimpleNamespace(recentProgress=[SimpleNamespace(json=json.dumps(document)) for document in documents])


def test_a_report_has_rows_time_and_backlog() -> None:
    report = report_of("orders", progress(3, 4000))

    assert report.line() == "orders: batch 3, 4,000 rows, 2,000 rows/s, backlog 60, batch time 2.0 s"


def test_a_report_has_the_lag_where_the_source_tells_it() -> None:
    report = report_of("orders", progress(3, 4000, lagMs=61_250))

    assert report.lag_seconds == 61.25
    assert report.line() == "orders: batch 3, 4,000 rows, 2,000 rows/s, backlog 60, lag 61.2 s, batch time 2.0 s"
    assert report_of("orders", progress(3, 4000)).lag_seconds is None


def test_the_lag_of_several_sources_is_the_longest() -> None:
    sources = [source for lag in (10, 3000, 0) for source in progress(0, 1, lagMs=lag)["sources"]]

    assert report_of("x", {**progress(0, 1), "sources": sources}).lag_seconds == 3.0
    assert lag_of({"latestOffset": {"pos": 5, "lagMs": 0}}) == 0.0
    assert lag_of({"latestOffset": "7"}) is None


def test_sources_without_positions_have_no_backlog() -> None:
    assert backlog_of({"endOffset": "5", "latestOffset": "7"}) is None
    assert backlog_of({"endOffset": {"pos": 5}, "latestOffset": None}) is None
    assert backlog_of({"endOffset": {"pos": 5}, "latestOffset": {"pos": 4}}) == 0
    assert backlog_of({"endOffset": {"sequence": 5}, "latestOffset": '{"sequence": 9}'}) == 4
    assert report_of("x", {**progress(0, 0), "sources": []}).backlog is None


def test_each_batch_with_rows_is_given_once() -> None:
    watch = Watch("orders")

    assert [report.batch for report in watch.new(query(progress(0, 5), progress(1, 0)))] == [0]
    assert [report.batch for report in watch.new(query(progress(0, 5), progress(1, 7), progress(2, 1)))] == [1, 2]
    assert (watch.rows, watch.batches) == (13, 3)
