from __future__ import annotations

import importlib
import sys

import pytest

from annulet.cli.lean_imports import hidden


def test_a_hidden_package_is_not_found_until_the_end() -> None:
    assert "this" not in sys.modules
    with hidden("this"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("this")
    assert importlib.util.find_spec("this") is not None


def test_a_package_that_is_already_imported_stays() -> None:
    with hidden("pytest"):
        assert importlib.import_module("pytest") is pytest
