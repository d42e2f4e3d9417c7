from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from annulet.admin.requests import local_requests
from annulet.admin.requests.local_requests import (
    came_over_loopback,
    host_name,
    is_local,
    is_local_name,
    machine_name,
    origin_authority,
    peer_address,
    refused_origin,
)
from annulet.broker.settings.configuration import BrokerConfiguration, Endpoint

PLAIN = BrokerConfiguration()
NAMED = BrokerConfiguration(http=Endpoint("Broker.Example", 8161), local_host_names=("desk.lan",))


def connection(client: str = "127.0.0.1", configuration: BrokerConfiguration = PLAIN, **headers: str) -> HTTPConnection:
    scope: dict[str, Any] = {
        "type": "http",
        "client": (client, 40_000),
        "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()],
        "app": SimpleNamespace(state=SimpleNamespace(broker=SimpleNamespace(configuration=configuration))),
    }
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8161", "localhost"),
        ("127.0.0.1:8161", "127.0.0.1"),
        ("[::1]:8161", "::1"),
        ("[::FFFF:127.0.0.1]", "::ffff:127.0.0.1"),
        ("127.evil.example", "127.evil.example"),
        ("localhost@evil.example", ""),
        ("localhost:80@evil.example", ""),
        ("localhost:80.evil.example", ""),
        ("localhost/evil", ""),
        ("local host", ""),
        ("::1", ""),
        ("[::1", ""),
        ("[", ""),
        ("", ""),
    ],
)
def test_the_name_in_an_authority(authority: str, name: str) -> None:
    assert host_name(authority) == name


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        ("http://localhost:3000", "localhost:3000"),
        ("HTTPS://App.Example", "app.example"),
        ("http://[::1]:80", "[::1]:80"),
        ("null", ""),
        ("http://[", ""),
        ("http://localhost/path", ""),
        ("localhost", ""),
        ("", ""),
    ],
)
def test_the_authority_of_an_origin(origin: str, authority: str) -> None:
    assert origin_authority(origin) == authority


LOCAL_NAMES = ("localhost", "ip6-localhost", "127.0.0.1", "127.8.8.8", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1")
OTHER_NAMES = ("127.evil.example", "127.", "127.1", "localhost.evil.example", "evil.localhost.example", "0.0.0.0", "")


def test_names_of_this_machine() -> None:
    assert [name for name in (*LOCAL_NAMES, *OTHER_NAMES) if is_local_name(name, PLAIN)] == [*LOCAL_NAMES]
    assert is_local_name(machine_name(), PLAIN)
    given = ("broker.example", "desk.lan")
    assert [is_local_name(name, NAMED) for name in given] == [True, True]
    assert [is_local_name(name, PLAIN) for name in given] == [False, False]


def test_a_machine_without_a_name_is_called_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_requests, "machine_name", lambda: "")
    assert not is_local_name("", PLAIN)


def test_a_request_is_local_when_its_peer_and_its_host_are() -> None:
    assert is_local(connection(host="localhost:8161"))
    assert is_local(connection(client="::1", host="[::1]:8161"))
    assert is_local(connection()), "HTTP/1.0 needs no Host"
    assert not is_local(connection(host="rebound.example"))
    assert not is_local(connection(host="127.evil.example:8161"))
    assert not is_local(connection(client="192.0.2.1", host="localhost"))
    assert not is_local(connection(host="localhost", x_forwarded_for="127.0.0.1"))
    assert not is_local(connection(host="localhost", forwarded="for=127.0.0.1"))
    assert is_local(connection(configuration=NAMED, host="Desk.LAN:8161"))


def test_no_address_of_what_is_not_local_is_one_of_loopback() -> None:
    assert peer_address(connection(host="localhost")) == "127.0.0.1"
    assert peer_address(connection(client="192.0.2.1", host="any.example")) == "192.0.2.1"
    assert peer_address(connection(host="rebound.example")) == "under another name from 127.0.0.1"
    assert peer_address(connection(host="localhost", x_forwarded_for="127.0.0.1")) == "forwarded by 127.0.0.1"
    unknown = connection()
    unknown.scope["client"] = None
    assert (peer_address(unknown), came_over_loopback(unknown)) == ("", False)


@pytest.mark.parametrize(
    ("headers", "client", "refused"),
    [
        ({}, "127.0.0.1", ""),
        ({"origin": "http://localhost:3000"}, "127.0.0.1", ""),
        ({"origin": "https://listed.example"}, "127.0.0.1", ""),
        ({"origin": "http://127.evil.example"}, "127.0.0.1", "http://127.evil.example"),
        ({"origin": "http://evil.example", "host": "evil.example"}, "127.0.0.1", "http://evil.example"),
        ({"origin": "http://same.example", "host": "Same.example"}, "192.0.2.1", ""),
        ({"origin": "http://other.example", "host": "same.example"}, "192.0.2.1", "http://other.example"),
        ({"origin": "http://["}, "127.0.0.1", "http://["),
        ({"origin": ""}, "127.0.0.1", "null"),
        ({"origin": "null", "host": ""}, "192.0.2.1", "null"),
    ],
)
def test_pages_that_may_not_use_the_broker(headers: dict[str, str], client: str, refused: str) -> None:
    assert refused_origin(connection(client, **headers), ("https://listed.example",)) == refused
