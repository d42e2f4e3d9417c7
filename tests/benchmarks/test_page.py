from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import BEGIN, END, PAGE, PageError, draw, missed, render, renew, text_of, texts
from benchmarks.report import Summary
from benchmarks.scenarios import SCENARIOS
from benchmarks.targets import COMPILED, LAZY, PURE, RABBITMQ, TARGETS, Target

WORDS = {"tried": "this and that.", "obstacle": "the rest."}


def row(rate: float, cpu: float, **others: float) -> dict[str, float | None]:
    figures = {"rate": rate, "cpu": cpu, "p50": 1.0, "p99": 2.0, "foreign": 0.0, "generator": 0.1, "written": 1.1}
    return {**figures, "rate_ratio": None, "cpu_ratio": None, **others}


def document(summary: Summary) -> dict[str, Any]:
    return {
        "date": "2026-11-29 00:00", "machine": {"cores": 2, "python": "3.11.7", "system": "Linux"}, "sync_ms": 1.5,
        "delay_ms": 6.0, "rounds": 3, "scale": 1.0, "summary": summary,
    }  # fmt: skip


def test_a_share_of_another_brokers_figure_is_met_or_missed() -> None:
    summary: Summary = {"ring": {RABBITMQ: row(100, 10), COMPILED: row(650, 1), PURE: row(50, 20)}}
    assert Target("ring", "rate", 6, COMPILED, ("ring", RABBITMQ)).met(summary) is True
    assert Target("ring", "rate", 7, COMPILED, ("ring", RABBITMQ)).met(summary) is False
    assert Target("ring", "cpu", 0.1, COMPILED, ("ring", RABBITMQ)).met(summary) is True
    assert Target("ring", "cpu", 0.5, PURE, ("ring", RABBITMQ)).met(summary) is False
    assert Target("ring", "rate", 1, COMPILED, ("ring", LAZY)).met(summary) is None


def test_an_absolute_target_is_a_floor_for_rates_and_a_ceiling_for_the_rest() -> None:
    summary: Summary = {"backlog": {COMPILED: row(1000, 5)}}
    assert Target("backlog", "rate", 1000).met(summary) is True
    assert Target("backlog", "rate", 1001).met(summary) is False
    assert Target("backlog", "written", 1.15).met(summary) is True
    assert Target("backlog", "cpu", 4.9).met(summary) is False


def test_the_table_marks_targets_and_the_text_explains_the_missed_ones() -> None:
    summary: Summary = {
        "ring": {
            RABBITMQ: row(100_000, 10),
            COMPILED: row(500_000, 1, rate_ratio=5, cpu_ratio=10, generator=1.9),
        }
    }
    text = render(document(summary))
    assert "| ring of 1000, no consumer | 100,000/s, 10.0 µs | >500,000/s, 1.0 µs (5.0 ×, 1/10.0) |" in text
    assert "rate 6.00 × RabbitMQ ✗" in text
    assert "rate 5.00 × RabbitMQ instead of rate 6.00 × RabbitMQ." in missed(summary, {"ring": WORDS})
    assert missed({}, {}) == "None."


def test_every_load_with_a_target_has_a_text_by_hand() -> None:
    loads = {one.name for one in SCENARIOS}
    rows = texts()
    for target in TARGETS:
        assert target.load in loads
        assert rows[text_of(target.load, [target])].keys() == WORDS.keys()


def test_what_is_beside_the_marks_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{BEGIN}\nold\n{END}\nz\n")
    renew(page, document({}))
    assert page.read_text().startswith(f"a\n{BEGIN}\n\nMade by `make bench` on 2026-11-29 00:00 UTC: 2 virtual cores")
    assert page.read_text().endswith(f"{END}\nz\n")
    page.write_text("no marks")
    with pytest.raises(PageError, match="has no marks"):
        renew(page, document({}))


def test_the_page_of_the_repository_has_the_marks() -> None:
    assert PAGE.read_text().count(BEGIN) == PAGE.read_text().count(END) == 1


def test_the_plot_has_a_bar_for_each_form(tmp_path: Path) -> None:
    summary: Summary = {"ring": {PURE: row(1, 1, rate_ratio=2), COMPILED: row(1, 1, rate_ratio=5)}}
    assert draw(summary, tmp_path / "rates.svg") == str(tmp_path / "rates.svg")
    assert "ring of 1000" in (tmp_path / "rates.svg").read_text()
    assert "nothing to compare" in draw({}, tmp_path / "none.svg")
