"""Scopes of access tokens, and what they allow."""

from __future__ import annotations

import pytest

from annulet.broker.security.token_grants import (
    SCOPE_SETS_MAX,
    VERDICTS_MAX,
    ScopeReader,
    TokenGrants,
    Wildcard,
    looks_like_access_token,
)
from annulet.broker.settings.configuration import TAGS
from annulet.broker.settings.oidc_settings import OidcSettings, ScopePermissions, ScopeSection
from annulet.core.base.linear_expressions import LinearExpression


def grants(*scopes: str, **settings: object) -> TokenGrants:
    full = OidcSettings(issuer="https://i", audience="annulet", scope_prefix="annulet.", **settings)  # type: ignore[arg-type]
    return ScopeReader(full, TAGS).grants(frozenset(scopes))


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["", "a", "a/b"], []),
        ("a*", ["a", "ab"], ["ba", ""]),
        ("*a", ["a", "ba"], ["ab"]),
        ("a*a", ["aa", "aba"], ["a", "ab"]),
        ("a*b*c", ["abc", "axbxbc", "abcc"], ["acb", "ac"]),
        ("a**b", ["ab", "axb"], ["a"]),
        ("plain", ["plain"], ["plain2", "Plain", ""]),
        ("a.b", ["a.b"], ["axb"]),
        ("ab*bc", ["abbc"], ["abc"]),
    ],
)
def test_wildcards_are_compared_with_whole_names(pattern: str, inside: list[str], outside: list[str]) -> None:
    wildcard = Wildcard(pattern)
    assert [name for name in inside if not wildcard.search(name)] == []
    assert [name for name in outside if wildcard.search(name)] == []
    expression = LinearExpression(wildcard.pattern)
    assert [name for name in [*inside, *outside] if expression.search(name)] == inside


def test_a_virtual_host_of_the_configuration_is_no_pattern() -> None:
    assert Wildcard("a*", literal=True).search("a*")
    assert not Wildcard("a*", literal=True).search("ab")


def test_patterns_of_a_virtual_host() -> None:
    scopes = {"staff": ScopeSection(permissions={"shop": ScopePermissions(read="^a|b$", browse="x")})}
    found = grants("annulet.read:*/orders.*", "annulet.write:%2F/*", "annulet.tag:monitoring", "staff", scopes=scopes)
    assert found.patterns("/") == {"read": r"^orders\..*$", "write": "^.*$"}
    assert found.patterns("shop") == {"read": r"(?:^orders\..*$)|(?:^a|b$)", "browse": "x"}
    assert grants("annulet.read:shop/*").patterns("/") == {}


def test_scopes_of_rabbitmq() -> None:
    found = grants(
        "annulet.read:%2F/orders*", "annulet.write:shop/*", "annulet.tag:monitoring", "openid", "other.read:*/*"
    )
    assert found.tags == {"monitoring"}
    assert found.allows("read", "/", "orders.new")
    assert found.allows("browse", "/", "orders.new"), "implied by read"
    assert not found.allows("read", "/", "bills")
    assert not found.allows("read", "shop", "orders.new")
    assert not found.allows("write", "/", "orders.new")
    assert found.allows("write", "shop", ""), "the default exchange"
    assert found.enters("/")
    assert found.enters("shop")
    assert not found.enters("other")


def test_the_default_exchange_has_a_name_in_scopes() -> None:
    found = grants("annulet.write:%2F/amq.default")
    assert found.allows("write", "/", "")
    assert not found.allows("write", "/", "amq.topic")


@pytest.mark.parametrize(
    "scope", ["annulet.read:*", "annulet.own:*/*", "annulet.tag:root", "annulet.read:*/*/key", "annulet."]
)
def test_scopes_that_cannot_be_kept_give_nothing(scope: str) -> None:
    found = grants(scope)
    assert not found.tags
    assert not found.enters("/")
    assert not found.allows("read", "/", "q")


def test_a_scope_for_all_routing_keys_counts() -> None:
    assert grants("annulet.write:*/x/*").allows("write", "/", "x")


def test_scopes_of_the_configuration() -> None:
    scopes = {"reader": ScopeSection(["management"], {"a*": ScopePermissions(configure="^x", read="^public")})}
    found = grants("reader", scopes=scopes)
    assert found.tags == {"management"}
    assert found.allows("read", "a*", "public.news")
    assert not found.allows("read", "ab", "public.news"), "a virtual host is meant as it is written"
    assert not found.allows("write", "a*", "public.news"), "an empty expression matches nothing"
    assert found.allows("manage", "a*", "x"), "implied by configure"


def test_answers_and_sets_of_scopes_are_remembered_within_bounds() -> None:
    reader = ScopeReader(OidcSettings(issuer="https://i", audience="annulet", scope_prefix="annulet."), TAGS)
    first = reader.grants(frozenset({"annulet.read:*/a*"}))
    assert reader.grants(frozenset({"annulet.read:*/a*"})) is first
    for number in range(VERDICTS_MAX + 10):
        assert first.allows("read", "/", f"a{number}")
        assert not first.allows("read", "/", f"b{number}")
    assert len(first._verdicts) <= VERDICTS_MAX
    for number in range(SCOPE_SETS_MAX + 10):
        reader.grants(frozenset({str(number)}))
    assert len(reader._read) == SCOPE_SETS_MAX


def test_the_form_of_a_signed_token() -> None:
    assert looks_like_access_token("eyJhbGciOiJub25lIn0.e30.")
    assert not looks_like_access_token("eyJ.only")
    assert not looks_like_access_token("a.b.c")
