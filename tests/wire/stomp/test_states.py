from __future__ import annotations

from annulet.wire.stomp.constants import VERSIONS
from annulet.wire.stomp.states import COMMANDS, COMMANDS_WITH_BODY, REQUIRED_HEADERS, TRANSITIONS, ConnectionState

CLIENT_FRAMES = {"CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "NACK"}


def test_every_client_frame_of_the_specification_has_its_place() -> None:
    assert {command for _, command in TRANSITIONS} == CLIENT_FRAMES | {"DISCONNECT"}


def test_nothing_is_served_before_connect_or_after_disconnect() -> None:
    first = {command for state, command in TRANSITIONS if state is ConnectionState.CONNECTING}
    assert first == {"CONNECT", "STOMP", "DISCONNECT"}
    silent = {ConnectionState.AUTHENTICATING, ConnectionState.DISCONNECTING, ConnectionState.CLOSED}
    assert not silent & {state for state, _ in TRANSITIONS}


def test_tables_exist_for_every_version_and_know_its_commands() -> None:
    assert set(REQUIRED_HEADERS) == set(COMMANDS) == set(VERSIONS)
    for version in VERSIONS:
        assert set(REQUIRED_HEADERS[version]) <= COMMANDS[version]
    assert "NACK" not in COMMANDS["1.0"]
    assert {"SEND", "MESSAGE", "ERROR"} == COMMANDS_WITH_BODY
