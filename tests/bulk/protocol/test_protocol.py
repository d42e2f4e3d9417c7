"""Requests as JSON: what is not one is refused by name."""

from __future__ import annotations

import msgspec
import pytest

from annulet.bulk.protocol import protocol


def test_every_action_comes_back() -> None:
    request = protocol.ExtendLease(virtual_host="v", lease="l", generation=2, start=3)
    assert protocol.tag_of(request) == "lease.extend"
    decoded = msgspec.json.decode(msgspec.json.encode(request), type=protocol.Action)
    assert decoded == request
    assert (request.messages_max, request.bytes_max, request.last_sequence) == (protocol.ANY,) * 3


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b'{"type":"lease.steal","lease":"l"}',
        b'{"type":"lease.renew","lease":"l"}',
        b'{"type":"lease.renew","lease":"l","generation":"1"}',
        b'{"type":"lease.renew","lease":"l","generation":1,"extra":1}',
    ],
)
def test_malformed_requests(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=protocol.Action)


def test_ids_belong_to_a_user_and_a_virtual_host() -> None:
    names = [
        protocol.scoped(host, user, query)
        for host in ("/", "a", "a/b", "a@b")
        for user in ("ann", "ann@a", "ann/a", "")
        for query in ("q", "ann@a/q", "/q")
    ]
    assert len(set(names)) == len(names)
    assert protocol.scoped("/", "ann", "") == protocol.scoped_before("/", "") == ""
    assert protocol.owner_of(protocol.scoped("/", "ann@a", "q@r")) == "ann%40a"
    assert protocol.owner_of(protocol.scoped_before("a@b", "q@r")) == "a%40b/q"
    assert protocol.owner_of("plain") == ""
