"""Triggers, as users write them."""

from __future__ import annotations

import pytest

from annulet.spark.pipeline.triggers import is_trigger


@pytest.mark.parametrize("text", ["available-now", "1 second", "500 milliseconds", "2 hours"])
def test_known_triggers(text: str) -> None:
    assert is_trigger(text)


@pytest.mark.parametrize("text", ["", "now", "5", "5s", "-1 seconds", "5 seconds or so", "1.5 seconds"])
def test_everything_else(text: str) -> None:
    assert not is_trigger(text)
