"""The whole comparison with few messages: every load that can run here, the figures, the plot and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.compare import main
from benchmarks.page import BEGIN, END
from benchmarks.scenarios import AMQP091, GeneratorError, generator_folder

LOADS = ("drain", "transient-16", "stomp-receipts")


@pytest.fixture(autouse=True)
def _generators() -> None:
    try:
        generator_folder(AMQP091)
    except GeneratorError as missing:
        pytest.skip(str(missing))


def test_a_small_run_renews_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    loads = [word for load in LOADS for word in ("--only", load)]
    command = [*loads, "--rounds", "1", "--scale", "0.01", "--report", str(tmp_path / "report"), "--page", str(page)]
    result = CliRunner().invoke(main, [*command, "--broker", "Annulet pure", "--broker", "NATS"])
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "report" / "figures.json").read_text())
    assert figures["failures"] == []
    for load in LOADS:
        [run] = figures["results"][load]["Annulet pure"]
        assert max(run["sent"], run["received"]) >= 1000
        assert run["end"] == "complete"
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text.splitlines()
    assert "| STOMP, persistent, receipts | " in text
