from __future__ import annotations

import pytest

from annulet.wire.amqp10.connection import states
from annulet.wire.amqp10.connection.states import (
    CONNECTION_TRANSITIONS,
    LINK_TRANSITIONS,
    SESSION_TRANSITIONS,
    ConnectionState,
    LinkState,
    SessionState,
)


@pytest.mark.parametrize(
    ("table", "first", "last"),
    [
        (CONNECTION_TRANSITIONS, ConnectionState.AWAITING_HEADER, ConnectionState.ENDED),
        (SESSION_TRANSITIONS, SessionState.UNMAPPED, SessionState.UNMAPPED),
        (LINK_TRANSITIONS, LinkState.DETACHED, LinkState.DETACHED),
    ],
)
def test_the_end_can_be_reached_from_every_state_and_only_from_there(table: dict, first: object, last: object) -> None:  # type: ignore[type-arg]
    # The peer's part only: these states are entered by what this side does.
    own = {
        (ConnectionState.AUTHENTICATING, ConnectionState.AWAITING_SASL_RESPONSE),
        (ConnectionState.AUTHENTICATING, ConnectionState.AWAITING_AMQP_HEADER),
        (ConnectionState.OPENED, ConnectionState.CLOSE_SENT),
        (ConnectionState.OPENED, ConnectionState.DISCARDING),
        (SessionState.MAPPED, SessionState.END_SENT),
        (SessionState.MAPPED, SessionState.DISCARDING),
        (LinkState.ATTACH_RECEIVED, LinkState.ATTACHED),
        (LinkState.ATTACHED, LinkState.DETACH_SENT),
    }
    steps = {(state, target) for (state, _), target in table.items()}
    steps |= {step for step in own if isinstance(step[0], type(first))}
    reached = {first}
    for _ in steps:
        reached |= {target for state, target in steps if state in reached}
    assert reached == set(type(first))  # type: ignore[call-overload]
    for state in type(first):  # type: ignore[attr-defined]
        ahead = {state}
        for _ in steps:
            ahead |= {target for source, target in steps if source in ahead}
        assert last in ahead


def test_states_say_what_they_mean() -> None:
    for kind in (ConnectionState, SessionState, LinkState):
        assert len({state.value for state in kind}) == len(kind)


def test_open_comes_once_and_close_only_after_it() -> None:
    assert [state for state, what in CONNECTION_TRANSITIONS if what == "open"] == [ConnectionState.AWAITING_OPEN]
    assert (ConnectionState.AWAITING_OPEN, "close") not in CONNECTION_TRANSITIONS
    assert "§2.4.6" in (states.__doc__ or "")
