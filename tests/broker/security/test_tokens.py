"""The texts and scopes of tokens."""

from __future__ import annotations

from annulet.broker.security.tokens import TOKEN_PREFIX, TokenScope, digest_of, is_token, new_token


def test_each_token_is_another_one_and_looks_like_one() -> None:
    first, second = new_token(), new_token()
    assert first != second
    assert is_token(first)
    assert not is_token("password")
    assert len(first) - len(TOKEN_PREFIX) >= 43, "256 bits"
    assert digest_of(first) != digest_of(second)
    assert first not in digest_of(first)
    assert digest_of("\udcff"), "any text is hashed"


def test_a_scope_leaves_operations_and_virtual_hosts() -> None:
    scope = TokenScope(("read",), ("shop",))
    assert scope.allows("read", "shop")
    assert not scope.allows("write", "shop")
    assert not scope.allows("read", "/")
    assert scope.enters("shop")
    assert not scope.enters("/")
    assert TokenScope().allows("configure", "any")
