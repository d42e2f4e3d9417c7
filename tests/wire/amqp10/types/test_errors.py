from __future__ import annotations

import pytest

from annulet.wire.amqp10.types.errors import (
    ConnectionFault,
    DecodeError,
    LinkFault,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    SessionFault,
)


@pytest.mark.parametrize("kind", [LinkFault, SessionFault, ConnectionFault])
def test_errors_of_the_peer_carry_condition_and_description(kind: type[RemoteProtocolError]) -> None:
    error = kind("amqp:not-found", "no queue 'q'")
    assert (error.condition, error.description) == ("amqp:not-found", "no queue 'q'")
    assert str(error) == "amqp:not-found: no queue 'q'"
    assert isinstance(error, ProtocolError)
    assert not isinstance(error, LocalProtocolError)


def test_octets_that_cannot_be_decoded_close_the_connection() -> None:
    error = DecodeError("octet 3")
    assert isinstance(error, ConnectionFault)
    assert (error.condition, error.description) == ("amqp:decode-error", "octet 3")


def test_our_own_errors_are_not_the_peers() -> None:
    assert not isinstance(LocalProtocolError("x"), RemoteProtocolError)
