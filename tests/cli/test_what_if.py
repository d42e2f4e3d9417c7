"""``annulet pipeline what-if`` and ``report``: options, goals, exit codes, what they print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from annulet.cli import what_if as command
from annulet.cli.main import main
from annulet.spark.what_if.settings import grid, parse_goal
from annulet.spark.what_if.simulation import Result, simulate
from annulet.spark.what_if.traffic import Arrival

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = grid({"rate": 10}, {"ring-size": [2, 9]})


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "Missing option '--vary'"),
        (["--vary", "ring-size"], 2, "'ring-size': write NAME=VALUE, such as ring-size=1000"),
        (["--vary", "ring-sise=5"], 1, "annulet pipeline: ring-sise=5: "),
        (["--vary", "ring-size=5", "--goal", "lost"], 1, "annulet pipeline: goal 'lost': write METRIC <= NUMBER"),
    ],
)
def test_wrong_settings_are_told_before_java_is_looked_for(arguments: list[str], code: int, text: str) -> None:
    result = CliRunner().invoke(main, ["pipeline", "what-if", "folder", *arguments])

    assert result.exit_code == code
    assert text in result.output


def test_plots_without_matplotlib_are_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["pipeline", "what-if", "folder", "--vary", "ring-size=5", "--plots", "pictures"])
    assert result.exit_code == 1
    assert "--plots needs matplotlib; pip install matplotlib, or leave it out" in result.output


def test_the_smallest_setting_is_named_or_that_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    results = [Result(published=10, losses={"expired": 5}), Result(published=10)]

    assert command.tell_goal("loss <= 0%", parse_goal("loss <= 0%"), SETTINGS, results)
    assert not command.tell_goal("loss <= 0%", parse_goal("loss <= 0%"), SETTINGS, results[:1] * 2)
    assert capsys.readouterr().out.splitlines() == [
        "goal 'loss <= 0%': the smallest setting is ring-size 9",
        "goal 'loss <= 0%': no setting meets it; vary further",
    ]


def test_tables_have_the_names_and_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    command.show("Title", [{"ring-size": 1000, "loss %": 2.5}])
    command.show("Nothing", [])

    output = capsys.readouterr().out
    assert "ring-size" in output
    assert "1,000" in output
    assert "Nothing: no messages" in output


def event_messages(spark: SparkSession) -> DataFrame:
    """Return archived messages of the event log: four arrivals, of which a consumer had two."""
    accepted = [{"event": "accepted", "sequence": number, "at": 1000 * number, "size": 1} for number in range(1, 5)]
    handled = [
        {"event": event, "sequence": number, "at": 5000 + 100 * number, "consumer": consumer}
        for number in (1, 2)
        for event, consumer in (("delivered", "c"), ("acknowledged", ""))
    ]
    batch = {"vhost": "/", "queue": "q", "waiting": 3, "delivering": 0, "events": [*accepted, *handled]}
    return spark.createDataFrame(
        [(0, "amq.events", "amq.events", json.dumps(batch).encode(), datetime(2023, 11, 14, tzinfo=UTC), "2023-11-14")],
        "position BIGINT, queue STRING, address STRING, body BINARY, enqueued_at TIMESTAMP, date STRING",
    ).selectExpr(
        "position", "queue", "address", "body", "0L AS delivery_count", "4 AS priority", "enqueued_at",
        "cast(null AS timestamp) AS expires_at", "cast(null AS string) AS group_id",
        "map('k', 'v') AS properties", "date",
    )  # fmt: skip


@pytest.mark.spark
def test_an_archive_is_tried_under_other_settings(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from annulet.spark.archive.table import Table

    @contextmanager
    def session(*_arguments: Any, **_options: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(command, "session", session)
    frame = spark.sql(
        "SELECT id AS position, 'q' AS queue, 'q' AS address, encode('x', 'utf-8') AS body, 0L AS delivery_count, "
        "cast(id % 2 AS int) AS priority, timestamp_millis(1700000000000) AS enqueued_at, "
        "cast(null AS timestamp) AS expires_at, cast(null AS string) AS group_id, map('k', 'v') AS properties, "
        "'2023-11-14' AS date FROM range(10)"
    )
    Table(tmp_path / "a").append(frame, "w", 0, partition_by=["date", "address"])
    Table(tmp_path / "a").append(event_messages(spark), "w", 1, partition_by=["date", "address"])
    file, plots = tmp_path / "found.json", tmp_path / "plots"
    arguments = [
        "--address",
        "q",
        "--vary",
        "ring-size=9,2",
        "--set",
        "rate=10",
        "--json",
        str(file),
        "--plots",
        str(plots),
    ]

    result = CliRunner().invoke(main, ["pipeline", "what-if", str(tmp_path / "a"), *arguments, "--goal", "depth < 2"])

    assert result.exit_code == 3, result.output
    assert "goal 'depth < 2': no setting meets it" in result.output
    assert "By priority" in result.output
    document = json.loads(file.read_text())
    arrivals = [Arrival(at=1_700_000_000_000, size=1, priority=number % 2) for number in range(10)]
    expected = [simulate(setting, arrivals) for setting in SETTINGS]
    assert [row["delivered"] for row in document["settings"]] == [found.delivered for found in expected]
    assert document["depth"] == [[list(point) for point in found.depth] for found in expected]
    assert len(list(plots.glob("*.png"))) == 3

    recorded = ["--arrivals-of", "q", "--consumers-of", "q", "--vary", "prefetch=1,2", "--json", str(file)]
    result = CliRunner().invoke(main, ["pipeline", "what-if", str(tmp_path / "a"), *recorded])
    assert result.exit_code == 0, result.output
    assert [row["published"] for row in json.loads(file.read_text())["settings"]] == [4, 4]
    result = CliRunner().invoke(main, ["pipeline", "what-if", str(tmp_path / "a"), *recorded, "--set", "rate=1"])
    assert result.exit_code == 1
    assert "rate: the consumers work as recorded" in result.output

    result = CliRunner().invoke(main, ["pipeline", "report", str(tmp_path / "a"), "--json", str(file)])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert [row["queue"] for row in report["queues"]] == ["q"]
    assert [(row["accepted"], row["depth"]) for row in report["events"]] == [(4, 3)]
    assert max(depth for _, depth in report["depth"]["q"]) == 3


def test_a_report_is_a_table_and_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def session(*_arguments: Any, **_options: Any) -> Iterator[None]:
        yield None

    row = {"queue": "orders", "messages": 10, "first": datetime(2026, 1, 2, tzinfo=UTC)}
    monkeypatch.setattr(command, "session", session)
    became = {"vhost": "/", "queue": "orders", "accepted": 10, "depth": 7}
    document = {"queues": [row], "events": [became], "depth": {"orders": [(1, 7)]}}
    monkeypatch.setattr(command, "reported", lambda *_arguments: document)

    result = CliRunner().invoke(main, ["pipeline", "report", "folder", "--json", str(tmp_path / "r.json")])

    assert result.exit_code == 0
    assert "What happened" in result.output
    assert "What became of it" in result.output
    assert json.loads((tmp_path / "r.json").read_text()) == {
        "queues": [{**row, "first": "2026-01-02T00:00:00+00:00"}], "events": [became], "depth": {"orders": [[1, 7]]},
    }  # fmt: skip
