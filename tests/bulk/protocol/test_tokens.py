"""Bearer tokens and Basic credentials."""

from __future__ import annotations

import base64

import pytest

from annulet.bulk.protocol import tokens
from annulet.bulk.protocol.errors import AuthenticationError, TokenExpiredError
from annulet.bulk.protocol.tokens import TOKEN_SECONDS, TokenStore, parse_basic


def test_a_token_ends_at_its_limit() -> None:
    now = [0.0]
    store = TokenStore(lambda: now[0])
    token = store.issue("ann", from_loopback=True)
    now[0] = TOKEN_SECONDS - 1
    assert store.user_of(token, from_loopback=True) == "ann"
    now[0] = TOKEN_SECONDS
    with pytest.raises(TokenExpiredError):
        store.user_of(token, from_loopback=True)


def test_a_token_of_the_loopback_is_worthless_elsewhere() -> None:
    store = TokenStore()
    token = store.issue("guest", from_loopback=True)
    with pytest.raises(TokenExpiredError):
        store.user_of(token, from_loopback=False)
    assert store.user_of(store.issue("ann", from_loopback=False), from_loopback=True) == "ann"


def test_the_oldest_token_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    store = TokenStore()
    first, second, third = (store.issue(name, from_loopback=True) for name in "abc")
    with pytest.raises(TokenExpiredError):
        store.user_of(first, from_loopback=True)
    assert [store.user_of(token, from_loopback=True) for token in (second, third)] == ["b", "c"]


def test_basic_credentials() -> None:
    encoded = base64.b64encode("ann:pass:wörd".encode()).decode()
    assert parse_basic(f"Basic {encoded}") == ("ann", "pass:wörd")


@pytest.mark.parametrize(
    "header", ["", "Bearer x", "Basic !!", "Basic " + base64.b64encode(b"nocolon").decode(), "Basic //8="]
)
def test_malformed_credentials(header: str) -> None:
    with pytest.raises(AuthenticationError):
        parse_basic(header)
