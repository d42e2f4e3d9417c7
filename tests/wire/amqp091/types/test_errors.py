from __future__ import annotations

from annulet.wire.amqp091.types.errors import (
    ChannelError,
    ConnectionFault,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)


def test_the_type_says_who_broke_the_rule() -> None:
    for error in (ChannelError(404, "gone"), ConnectionFault(530, "no")):
        assert isinstance(error, RemoteProtocolError)
        assert not isinstance(error, LocalProtocolError)
        assert str(error) == f"{error.code} {error.text}"
    assert issubclass(LocalProtocolError, ProtocolError)
    assert not issubclass(LocalProtocolError, RemoteProtocolError)
