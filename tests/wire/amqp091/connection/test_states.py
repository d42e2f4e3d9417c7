from __future__ import annotations

from annulet.wire.amqp091.connection.methods import METHODS
from annulet.wire.amqp091.connection.states import (
    CHANNEL_TRANSITIONS,
    CONNECTION_TRANSITIONS,
    CONTENT_TRANSITIONS,
    ChannelState,
    ConnectionState,
    ContentState,
)


def test_the_connection_table_has_exactly_the_class_connection_methods_of_a_client() -> None:
    served = {METHODS[identifier].name for _, identifier in CONNECTION_TRANSITIONS}
    client = {
        method.name for method in METHODS.values() if method.name.startswith("connection.") and "C" in method.senders
    }
    assert served == client


def test_every_state_after_the_header_can_end_and_none_can_be_left_once_closed() -> None:
    for state in ConnectionState:
        targets = {target for (origin, _), target in CONNECTION_TRANSITIONS.items() if origin is state}
        if state in {ConnectionState.AWAITING_HEADER, ConnectionState.CHECKING, ConnectionState.CLOSED}:
            assert targets == set()  # while checking nothing is read: the owner moves the connection
        else:
            assert ConnectionState.CLOSED in targets, state


def test_the_handshake_is_one_path() -> None:
    state, path = ConnectionState.STARTING, []
    while state is not ConnectionState.OPEN:
        if state is ConnectionState.CHECKING:
            state = ConnectionState.TUNING  # the owner's answer
        steps = [
            (METHODS[identifier].name, target)
            for (origin, identifier), target in CONNECTION_TRANSITIONS.items()
            if origin is state and target is not ConnectionState.CLOSED
        ]
        assert len(steps) == 1
        path.append(steps[0][0])
        state = steps[0][1]
    assert path == ["connection.start-ok", "connection.tune-ok", "connection.open"]


def test_a_channel_opens_only_when_closed_and_frees_its_number_only_by_agreement() -> None:
    named = {(state, METHODS[identifier].name): target for (state, identifier), target in CHANNEL_TRANSITIONS.items()}
    assert named == {
        (ChannelState.CLOSED, "channel.open"): ChannelState.OPEN,
        (ChannelState.OPEN, "channel.close"): ChannelState.CLOSED,
        (ChannelState.CLOSING, "channel.close"): ChannelState.CLOSING,
        (ChannelState.CLOSING, "channel.close-ok"): ChannelState.CLOSED,
    }


def test_content_always_comes_back_to_a_method() -> None:
    for state in ContentState:
        targets = {target for (origin, _), target in CONTENT_TRANSITIONS.items() if origin is state}
        assert ContentState.METHOD in targets
