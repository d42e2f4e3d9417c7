from __future__ import annotations

import io

import pandas as pd
import pytest
from rich.console import Console

from annulet.demo import report
from annulet.demo.reconciliation import Check, QueueAccount
from annulet.demo.what_if import AS_IT_IS, Trial

TRIAL = Trial("board.EWR", "ring of 1,000", 1234, 1000, {"replaced-ring": 234})
ACCOUNT = QueueAccount("aircraft", "last value", 1000, 40, 0, 0, {"replaced-key": 950}, 7)


def printed(table: object) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_books_show_what_is_unaccounted_for() -> None:
    line = next(
        line for line in printed(report.accounts_table([ACCOUNT], {"aircraft": 12})).splitlines() if "aircraft" in line
    )

    assert line.split() == ["aircraft", "1,000", "40", "0", "12", "950", "replaced-key", "10"]


def test_books_fit_a_terminal_of_80_columns() -> None:
    account = QueueAccount("statistics", "FIFO", 336_776, 111_111, 0, 111_111, {"replaced-ring": 114_554}, 0)

    table = report.accounts_table([account], {"statistics": 336_776})

    assert Console(width=200).measure(table).maximum <= 80


def test_trials_show_what_a_rule_would_have_kept() -> None:
    line = next(line for line in printed(report.trials_table([TRIAL])).splitlines() if "EWR" in line)

    assert line.split() == ["board.EWR", "ring", "of", "1,000", "1,234", "1,000", "234", "replaced-ring"]
    longest = Trial("board.EWR", AS_IT_IS, 120_835, 120_835, {"replaced-ring": 120_735})
    assert Console(width=200).measure(report.trials_table([longest])).maximum <= 80


def test_a_mismatch_stands_out_with_its_detail() -> None:
    text = printed(report.checks_table([Check("rows", 3, 2, "missing: 1"), Check("more", 1, 1)]))

    assert "MISMATCH missing: 1" in text
    assert "fits" in text


def test_counters_of_the_books_are_listed_only_when_they_do_not_fit() -> None:
    checks = [Check("a: added", 1, 1, of_books=True), Check("b: added", 1, 2, of_books=True)]

    text = printed(report.checks_table(checks))

    assert "(and 1 figures" in text
    assert "a: added" not in text
    assert "b: added" in text


@pytest.mark.parametrize(
    ("delay", "status"),
    [
        (None, "cancelled"),
        (float("nan"), "cancelled"),
        (-5, "on time"),
        (0, "on time"),
        (1, "1 min late"),
        (75.0, "75 min late"),
    ],
)
def test_status(delay: float | None, status: str) -> None:
    assert report.status_of(delay) == status


def test_board_shows_cancelled_flights(frame: pd.DataFrame) -> None:
    flights = frame[frame["origin"] == "LGA"].astype({"dep_delay": "float64"}).to_dict("records")
    text = printed(report.board_table("LGA", flights))

    assert "cancelled" in text
    assert "06:15" in text


def test_clock() -> None:
    assert [report.clock(5), report.clock(517), report.clock(2400)] == ["00:05", "05:17", "24:00"]


def test_shown() -> None:
    assert report.shown(336776) == "336,776"
    assert report.shown({"b": 2000, "a": 1}) == "a 1, b 2,000"
    assert report.shown({}) == "none"
    assert report.shown(True) == "yes"


def test_json_fits_only_when_every_check_does() -> None:
    good, bad = Check("a", 1, 1), Check("b", 1, 2)

    assert report.as_json([ACCOUNT], [], [good], {"total": 1.234}, ["x.png"], 3)["fits"] is True
    document = report.as_json([ACCOUNT], [TRIAL], [good, bad], {"total": 1.234}, ["x.png"], 3)
    assert document["fits"] is False
    assert document["seconds"] == {"total": 1.23}
    assert document["queues"][0]["unaccounted"] == 10


def test_books_without_files_have_no_column_for_them() -> None:
    assert "Parquet" in printed(report.accounts_table([ACCOUNT], {"aircraft": 12}))
    assert "Parquet" not in printed(report.accounts_table([ACCOUNT], {}))


def test_losses_show_queue_reason_and_key() -> None:
    loss = {"queue": "aircraft", "reason": "replaced-key", "key": "N1", "size": 174, "publisher": ""}

    line = next(line for line in printed(report.losses_table([loss])).splitlines() if "N1" in line)

    assert line.split() == ["aircraft", "replaced-key", "N1", "174", "-"]
