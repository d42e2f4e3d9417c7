"""The demonstration without Spark: a real broker in this process, real clients, every message accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from annulet import testing
from annulet.cli import small_demo
from annulet.cli.main import main
from annulet.cli.remote.options import Remote
from annulet.cli.remote.target import Wanted
from annulet.demo import plots, sample


@pytest.fixture
def remote() -> Iterator[Remote]:
    with testing.broker(http=True, stomp=True) as broker:
        connected = Remote(Wanted(url=broker.http_url), {}, as_json=False, yes=True)
        small_demo.declare(connected)
        yield connected
        connected.close()


def test_every_message_of_a_run_is_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        plots, "save_small", lambda folder, boards, accounts: [folder / f"{len(boards)}-{len(accounts)}.png"]
    )
    outcome = small_demo.run(600)
    assert [check for check in outcome.checks if not check.fits] == []
    assert {account.name: account.added for account in outcome.accounts}["aircraft"] == 600
    assert len(outcome.losses) == small_demo.LOSSES_SHOWN
    assert [path.as_posix() for path in outcome.pictures] == ["demo-output/3-5.png"]


def test_plots_are_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(small_demo, "find_spec", lambda name: None)
    assert small_demo.run(10).pictures == []
    assert list(tmp_path.iterdir()) == []


def test_a_message_too_few_does_not_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(small_demo, "find_spec", lambda name: None)
    real = sample.aircraft_rows
    monkeypatch.setattr(sample, "aircraft_rows", lambda flights: real(flights)[1:])
    outcome = small_demo.run(10)
    assert not outcome.fits
    assert {check.subject.partition(":")[0] for check in outcome.checks if not check.fits} == {"aircraft"}


def test_an_empty_queue_is_browsed(remote: Remote) -> None:
    assert small_demo.browse(remote, "aircraft") == []
    assert small_demo.take(remote, "late", 0) == []


def test_a_folder_to_keep_is_refused(tmp_path: Path) -> None:
    finished = CliRunner().invoke(main, ["demo", "--small", "--keep", str(tmp_path)])
    assert finished.exit_code == 2
    assert "--keep goes without --small" in finished.output
