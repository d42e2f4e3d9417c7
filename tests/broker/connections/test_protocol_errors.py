from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from annulet.broker.broker import Broker
from annulet.broker.connections import protocol_errors
from annulet.broker.connections.protocol_errors import NAME_CHARACTERS_MAX, OTHER, ProtocolErrors
from annulet.broker.observing.limited_log import LINES_PER_SECOND
from tests.broker.echo import EchoConnection, connected


async def test_an_error_is_counted_and_logged_with_all_that_is_known_of_its_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EchoConnection, "client_name", "billing" * 100, raising=False)
    connection, _ = connected(broker)
    connection.open()
    with capture_logs() as lines:
        connection.note_error("channel 3", "404", "no queue 'q'")
    assert lines == [
        {
            "event": "protocol error", "log_level": "warning", "protocol": "echo", "user": "guest",
            "connection": ("billing" * 100)[:NAME_CHARACTERS_MAX], "peer": connection.name, "where": "channel 3",
            "code": "404", "reason": "no queue 'q'",
        }
    ]  # fmt: skip
    assert broker.protocol_errors.counts == {("echo", "404"): 1}


async def test_many_errors_are_all_counted_and_few_are_logged(broker: Broker) -> None:
    connection, _ = connected(broker)
    connection.open()
    with capture_logs() as lines:
        for _ in range(100):
            connection.note_error("channel 1", "406", "no")
    assert len(lines) <= 2 * LINES_PER_SECOND
    assert broker.protocol_errors.counts == {("echo", "406"): 100}


async def test_the_end_of_a_connection_is_counted_unless_it_is_the_peers(broker: Broker) -> None:
    connection, _ = connected(broker)
    connection.open()
    with capture_logs() as lines:
        for by_peer in (True, False):
            broker.protocol_errors.note_closed(connection, "501", "broken", by_peer=by_peer)
    assert [(line["event"], line["by_peer"]) for line in lines] == [
        ("connection closed", True),
        ("connection closed", False),
    ]
    assert broker.protocol_errors.counts == {("echo", "501"): 1}


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_errors, "CODES_MAX", 2)
    errors = ProtocolErrors()
    for code in ("a", "b", "c", "d", "a"):
        errors.count("p", code)
    assert errors.counts == {("p", "a"): 2, ("p", "b"): 1, ("p", OTHER): 2}
