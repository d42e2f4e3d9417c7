from __future__ import annotations

import pytest

from annulet.cli.remote.failures import EXIT_USAGE, Failure, usage


def test_a_failure_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    failure = Failure(5, "no\nqueue 'a\x1b[31m'")
    failure.show()
    assert capsys.readouterr() == ("", "annulet: no queue 'a\\x1b[31m'\n")
    assert failure.exit_code == 5


def test_usage_has_the_exit_code_of_click() -> None:
    assert usage("x").exit_code == EXIT_USAGE == 2
