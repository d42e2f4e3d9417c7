from __future__ import annotations

from annulet.wire.stomp.errors import LocalProtocolError, ProtocolError, RemoteProtocolError


def test_the_type_says_who_broke_the_rule() -> None:
    error = RemoteProtocolError("no such thing", {"version": "1.2"})
    assert str(error) == error.text == "no such thing"
    assert error.headers == {"version": "1.2"}
    assert RemoteProtocolError("x").headers == {}
    assert isinstance(error, ProtocolError)
    assert not isinstance(error, LocalProtocolError)
    assert issubclass(LocalProtocolError, ProtocolError)
