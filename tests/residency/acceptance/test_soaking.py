"""How many random events a soak tries is what the environment says."""

from __future__ import annotations

import re

import pytest

from tests.residency.acceptance.soaking import EVENTS, EVENTS_VARIABLE, lives_of, soak_events, soak_seconds


@pytest.mark.parametrize(
    ("given", "events"), [("", EVENTS), ("1", 1), ("1000000", 1_000_000), ("20000000", 20_000_000)]
)
def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch, given: str, events: int) -> None:
    monkeypatch.setenv(EVENTS_VARIABLE, given)
    assert soak_events() == events
    assert soak_seconds(events) == max(3600.0, events / 5)


@pytest.mark.parametrize("given", ["0", "-5", "many"])
def test_what_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(EVENTS_VARIABLE, given)
    with pytest.raises(ValueError, match=re.escape(given)):
        soak_events()


@pytest.mark.parametrize(
    ("events", "lives"), [(1, [1]), (499, [499]), (500, [500]), (501, [500, 1]), (1000, [500, 500])]
)
def test_events_are_shared_between_lives(events: int, lives: list[int]) -> None:
    assert lives_of(events, 500) == lives
