from __future__ import annotations

import pytest
import structlog

from annulet.broker.settings import descriptors
from annulet.broker.settings.descriptors import LEAST, RESERVED, fit, raise_limit
from annulet.broker.settings.limits import Limits

LIMITS = Limits(max_connections=1000, max_handshakes=200)
NEEDED = 1000 + 200 + RESERVED


class System:
    """A system that allows so many descriptors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
        self.limits = (soft, hard)
        monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _kind: self.limits)
        monkeypatch.setattr(descriptors.resource, "setrlimit", self.set)

    def set(self, _kind: int, limits: tuple[int, int]) -> None:
        if limits[1] != self.limits[1]:
            raise ValueError("only the soft limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [
        (100, 10_000, NEEDED),
        (100, 500, 500),
        (100, -1, NEEDED),
        (NEEDED, 10_000, NEEDED),
        (5000, 10_000, 5000),
        (-1, -1, -1),
    ],
)
def test_the_limit_is_raised_as_far_as_needed_and_allowed(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, after: int
) -> None:
    system = System(monkeypatch, soft, hard)
    raise_limit(LIMITS)
    assert system.limits == (after, hard)


def test_a_refusal_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    System(monkeypatch, 100, 500)

    def refuse(*_arguments: object) -> None:
        raise OSError(1, "not permitted")

    monkeypatch.setattr(descriptors.resource, "setrlimit", refuse)
    with structlog.testing.capture_logs() as logs:
        raise_limit(LIMITS)
    assert [line["event"] for line in logs] == ["the limit of open files stays"]


@pytest.mark.parametrize("soft", [NEEDED, NEEDED + 1, -1])
def test_limits_that_fit_stay(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    System(monkeypatch, soft, soft)
    assert fit(LIMITS) is LIMITS


@pytest.mark.parametrize("soft", [NEEDED - 1, 1024, RESERVED + LEAST * 4, 50])
def test_connections_and_handshakes_together_leave_the_reserve(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    System(monkeypatch, soft, soft)
    with structlog.testing.capture_logs() as logs:
        fitted = fit(LIMITS)
    assert fitted.max_connections + fitted.max_handshakes <= max(soft - RESERVED, 2 * LEAST)
    assert min(fitted.max_connections, fitted.max_handshakes) >= LEAST
    assert logs[0]["log_level"] == "warning"
    assert logs[0]["max_connections"] == fitted.max_connections
