"""Addresses: every part, every error."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.url import BulkUrl, parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("annulet://u:p@host:8816/team", BulkUrl("host", 8816, "u", "p", "team")),
        ("annulet://host", BulkUrl("host", 8815, "guest", "guest", "/")),
        ("annulet://host/", BulkUrl("host")),
        ("annulet://host/%2F", BulkUrl("host")),
        ("annulet://u%40x:p%3A%2F@[::1]:1/a%2Fb", BulkUrl("::1", 1, "u@x", "p:/", "a/b")),
    ],
)
def test_parts(text: str, expected: BulkUrl) -> None:
    assert parse_url(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "scheme"),
        ("host:8815", "scheme"),
        ("amqp://host", "scheme must be annulet:// or annulets://, not amqp://"),
        ("annulet://", "host is missing"),
        ("annulet://host:0", "port 0"),
        ("annulet://host:port", "Port"),
        ("annulet://host:70000", "Port"),
        ("annulet://user@host", "password is missing"),
        ("annulet://host/a/b", "%2F"),
        ("annulet://host/v?lease=x", "options of the reader"),
        ("annulet://host/%ff", "virtual host is not UTF-8"),
        ("annulet://[::1", "url: "),
    ],
)
def test_errors_name_the_part(text: str, part: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        parse_url(text)
    assert part in str(error.value)
    assert "secret" not in str(error.value)


def test_the_password_is_never_shown() -> None:
    url = parse_url("annulet://user:secret@host/v")
    assert "secret" not in f"{url} {url!r}"


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_whatever_is_percent_encoded_comes_back(user: str, password: str, host: str) -> None:
    try:
        parts = [quote(text, safe="") for text in (user, password, host)]
    except UnicodeEncodeError:  # lone surrogates have no UTF-8
        return
    url = parse_url(f"annulet://{parts[0]}:{parts[1]}@localhost:1/{parts[2]}")
    assert (url.user, url.password, url.virtual_host) == (user, password, host)


def test_tls_has_a_scheme_and_a_port_of_its_own() -> None:
    url = parse_url("annulets://u:p@host/v")
    assert (url.tls, url.port, url.location) == (True, 8816, "grpc+tls://host:8816")
    assert str(url) == "annulets://u@host:8816/v"
    assert parse_url("annulet://u:p@host:8816/v").location == "grpc://host:8816"
