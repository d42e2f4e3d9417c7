from __future__ import annotations

import runpy
import sys

import pytest

from annulet import __version__


def test_the_package_runs_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["annulet", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("annulet", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"annulet {__version__} (")
