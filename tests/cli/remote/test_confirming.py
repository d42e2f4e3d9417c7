from __future__ import annotations

from typing import Any

import click
import pytest

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_USAGE, Failure
from annulet.cli.remote.options import Remote
from annulet.cli.remote.target import Wanted


def remote(*, yes: bool) -> Remote:
    return Remote(Wanted(), {}, as_json=False, yes=yes)


def test_yes_neither_shows_nor_asks(capsys: pytest.CaptureFixture[str]) -> None:
    confirm(remote(yes=True), "delete it", "it", ["line"])
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_it_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.cli.remote.confirming.at_terminal", lambda: False)
    with pytest.raises(Failure, match=r"would delete it; .*--yes") as caught:
        confirm(remote(yes=False), "delete it", "it")
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.usefixtures("terminal")
def test_only_the_name_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["it", "It", ""])
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(answers))
    confirm(remote(yes=False), "delete it", "it", [f"line {number}" for number in range(7)])
    shown: Any = capsys.readouterr().err
    assert "line 4" in shown
    assert "line 5" not in shown
    assert "2 more" in shown
    for _ in range(2):
        with pytest.raises(Failure, match="nothing was changed") as caught:
            confirm(remote(yes=False), "delete it", "it")
        assert caught.value.exit_code == EXIT_ABORTED


@pytest.mark.usefixtures("terminal")
def test_a_sample_of_many_says_how_many_and_a_note_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(click, "prompt", lambda *_, **__: "it")
    confirm(remote(yes=False), "drop it", "it", ["a", "b"], total=1000, note="it cannot be undone: why")
    assert capsys.readouterr().err.splitlines() == [
        "This will drop it.", "  a", "  b", "  … and 998 more", "It cannot be undone: why.",
    ]  # fmt: skip


def test_without_a_terminal_the_note_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.cli.remote.confirming.at_terminal", lambda: False)
    with pytest.raises(Failure, match=r"would drop it \(it cannot be undone\); .*--yes"):
        confirm(remote(yes=False), "drop it", "it", note="it cannot be undone")
