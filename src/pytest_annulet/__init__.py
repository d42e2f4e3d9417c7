"""The pytest plugin of Annulet: the fixtures ``annulet`` and ``annulet_session``, a real broker for tests.

It is a package of its own because pytest imports plugins at each start: this one imports pytest only, and the broker
when a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.testing.session import BrokerSession
    from annulet.testing.threaded import ThreadedBroker

MARK = "annulet"
"""The mark with options for the broker of a test."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers", f"{MARK}(**options): options of annulet.testing.broker() for the fixture `annulet` of this test"
    )


@pytest.fixture(scope="session")
def _annulet_thread() -> Iterator[BrokerSession]:
    """The thread and the port of the brokers of all tests, each process of pytest-xdist having its own."""
    from annulet.testing.session import BrokerSession  # noqa: PLC0415 - takes long to import

    session = BrokerSession()
    yield session
    session.close()


@pytest.fixture
def annulet(_annulet_thread: BrokerSession, request: pytest.FixtureRequest) -> Iterator[ThreadedBroker]:
    """Give the test a broker without anything in it. ``@pytest.mark.annulet(...)`` has options for it."""
    started = _annulet_thread.start(**options_of(request))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def annulet_session() -> Iterator[ThreadedBroker]:
    """Give all tests one broker, whose queues and messages stay from test to test."""
    from annulet.testing.context import broker  # noqa: PLC0415 - takes long to import

    with broker() as started:
        yield started


def options_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options of the marks of a test, the closest winning.

    Raises ``pytest.UsageError`` for arguments without a name.
    """
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARK))):
        if mark.args:
            raise pytest.UsageError(
                f"@pytest.mark.{MARK} has the argument {mark.args[0]!r}; it takes names, as {MARK}(durable=True)"
            )
        options.update(mark.kwargs)
    return options
