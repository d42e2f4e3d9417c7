"""What a dead connection gives back, measured in small: the figures are those of a million."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.returns import main


@pytest.mark.parametrize("channels", ["1", "3"])
def test_it_says_what_was_held_and_when_it_was_back(channels: str) -> None:
    result = CliRunner().invoke(main, ["--count", "3000", "--channels", channels, "--body-budget", "4"])
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "[info" not in line]
    assert lines[0].startswith("3,000 held: ")
    assert lines[1].startswith("back after ")
    assert lines[2].startswith("taken again in order, ")
