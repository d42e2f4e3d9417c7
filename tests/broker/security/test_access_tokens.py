"""Access tokens: what a right one says, and each way in which one is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from annulet.broker.security.access_tokens import TOKENS_REMEMBERED_MAX, AccessTokens, access_tokens_of, claim_of
from annulet.broker.security.token_grants import ACCESS_TOKEN_CHARACTERS_MAX, SCOPES_MAX, TokenRefused
from annulet.testing import VirtualClock
from tests.issuer import Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def tokens(issuer: Issuer, clock: VirtualClock) -> AccessTokens:
    return access_tokens_of(issuer.settings(), clock)


async def why_not(tokens: AccessTokens, text: str) -> str:
    with pytest.raises(TokenRefused) as caught:
        await tokens.check(text)
    assert tokens.remembered(text) is None
    return str(caught.value)


async def test_a_right_token(issuer: Issuer, tokens: AccessTokens) -> None:
    text = issuer.token(scope="openid annulet.read:*/*", scp=["annulet.tag:monitoring"], exp=2**33)
    assert tokens.remembered(text) is None
    token = await tokens.check(text)
    assert token.user == "alice"
    assert token.expires_at == (2**33 + 30) * 1000
    assert token.grants.tags == {"monitoring"}
    assert token.grants.allows("read", "/", "q")
    assert tokens.remembered(text) == token


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "EdDSA"])
async def test_other_signatures(issuer: Issuer, tokens: AccessTokens, algorithm: str) -> None:
    issuer.add_key("other", algorithm)
    assert (await tokens.check(issuer.token("other", algorithm=algorithm))).user == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "another"}, "Audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://another.example"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": True}, "no time"),
        ({"sub": None}, "no user name"),
        ({"sub": ""}, "no user name"),
        ({"sub": "a\nb"}, "no user name"),
        ({"sub": "a" * 256}, "no user name"),
        ({"sub": "a\x85b"}, "no user name"),
        ({"sub": "a\u2028b"}, "no user name"),
        ({"sub": "half a character: \ud800"}, "no user name"),
        ({"sub": "\uff41lice"}, "NFKC"),
        ({"sub": "ali\u200bce"}, "NFKC"),
        ({"at_hash": "x"}, "ID or refresh token"),
        ({"typ": "Refresh"}, "ID or refresh token"),
        ({"scope": " ".join(map(str, range(SCOPES_MAX + 1)))}, f"more than {SCOPES_MAX} scopes"),
        ({"filler": "x" * ACCESS_TOKEN_CHARACTERS_MAX}, f"more than {ACCESS_TOKEN_CHARACTERS_MAX} characters"),
    ],
)
async def test_wrong_claims(issuer: Issuer, tokens: AccessTokens, claims: dict[str, Any], reason: str) -> None:
    assert reason in await why_not(tokens, issuer.token(**claims))


async def test_as_many_scopes_as_may_be(issuer: Issuer, tokens: AccessTokens) -> None:
    assert await tokens.check(issuer.token(scope=" ".join(map(str, range(SCOPES_MAX)))))


async def test_several_audiences(issuer: Issuer, tokens: AccessTokens) -> None:
    assert await tokens.check(issuer.token(aud=["another", "annulet"]))


async def test_times_with_the_skew_of_clocks(issuer: Issuer, tokens: AccessTokens, clock: VirtualClock) -> None:
    now = clock() // 1000
    text = issuer.token(exp=now + 10, nbf=now + 30)
    await tokens.check(text)
    clock.advance(39_999 - clock() % 1000)
    await tokens.check(issuer.token(exp=now + 10))
    clock.advance(1)
    assert "expired" in await why_not(tokens, issuer.token(exp=now + 10))
    assert tokens.remembered(text) is None, "it has ended meanwhile"
    assert "not valid yet" in await why_not(tokens, issuer.token(nbf=now + 72))


async def test_no_signature(issuer: Issuer, tokens: AccessTokens) -> None:
    claims = {"iss": issuer.url, "aud": "annulet", "sub": "alice", "exp": 2**33}
    assert "'none'" in await why_not(tokens, jwt.encode(claims, "", "none", {"kid": "first"}))


async def test_a_shared_secret_made_of_the_public_key(issuer: Issuer, tokens: AccessTokens) -> None:
    secret = base64.urlsafe_b64decode(issuer.shown["first"]["x"] + "=")
    claims = {"iss": issuer.url, "aud": "annulet", "sub": "alice", "exp": 2**33}
    assert "'HS256'" in await why_not(tokens, jwt.encode(claims, secret, "HS256", {"kid": "first"}))


async def test_an_extension_that_has_to_be_known(issuer: Issuer, tokens: AccessTokens) -> None:
    claims = {"iss": issuer.url, "aud": "annulet", "sub": "alice", "exp": 2**33}
    headers = {"kid": "first", "crit": ["bound"], "bound": "to something"}
    assert "extension" in await why_not(tokens, jwt.encode(claims, issuer.keys["first"], "ES256", headers))


async def test_a_header_of_many_lists_within_each_other(tokens: AccessTokens) -> None:
    header = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 12_000).decode().rstrip("=")
    assert "malformed" in await why_not(tokens, f"{header}.e30.x")


async def test_a_signature_of_another_key(issuer: Issuer, tokens: AccessTokens) -> None:
    with Issuer() as other:
        other.url = issuer.url
        assert "Signature" in await why_not(tokens, other.token())


async def test_a_changed_claim(issuer: Issuer, tokens: AccessTokens) -> None:
    head, _, signature = issuer.token().split(".")
    claims = {"iss": issuer.url, "aud": "annulet", "sub": "root", "exp": 2**33}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert "Signature" in await why_not(tokens, f"{head}.{body}.{signature}")


async def test_an_unknown_key(issuer: Issuer, tokens: AccessTokens) -> None:
    assert "'another'" in await why_not(tokens, issuer.token(kid="another"))


async def test_a_key_for_another_algorithm(issuer: Issuer, tokens: AccessTokens) -> None:
    issuer.add_key("other", "RS256")
    assert "its key is for 'RS256'" in await why_not(tokens, issuer.token("other", algorithm="PS256"))
    del issuer.shown["first"]["alg"]
    assert await tokens.check(issuer.token()), "a key need not name its algorithm"


async def test_a_short_key(issuer: Issuer, tokens: AccessTokens) -> None:
    issuer.add_key("short", "RS256", bits=1024)
    with pytest.warns(Warning, match="1024"):
        text = issuer.token("short", algorithm="RS256")
    assert "2048 bits" in await why_not(tokens, text)


async def test_an_algorithm_that_the_configuration_leaves_out(issuer: Issuer, clock: VirtualClock) -> None:
    tokens = access_tokens_of(issuer.settings(algorithms=["RS256"]), clock)
    assert "'ES256'" in await why_not(tokens, issuer.token())


@pytest.mark.parametrize(
    "text", ["eyJ..", "eyJhbGciOiJFUzI1NiJ9.e30.", "eyJhbGciOiJFUzI1NiIsImtpZCI6MX0.e30.AA", "eyJ\udcff.a.b"]
)
async def test_malformed_tokens(issuer: Issuer, tokens: AccessTokens, text: str) -> None:
    assert "access token" in await why_not(tokens, text)


async def test_an_issuer_that_is_down_is_no_guess(issuer: Issuer, tokens: AccessTokens) -> None:
    issuer.stop()
    with pytest.raises(TokenRefused) as caught:
        await tokens.check(issuer.token())
    assert not caught.value.guess
    assert "cannot be checked" in str(caught.value)


async def test_tokens_are_forgotten_with_the_keys_and_beyond_the_bound(issuer: Issuer, tokens: AccessTokens) -> None:
    text = issuer.token()
    await tokens.check(text)
    for number in range(TOKENS_REMEMBERED_MAX):
        await tokens.check(issuer.token(number=number))
    assert tokens.remembered(text) is None
    await tokens.check(text)
    assert tokens.keys.on_change is not None
    tokens.keys.on_change()
    assert tokens.remembered(text) is None


def test_names_of_claims_lead_into_nested_ones() -> None:
    claims = {"realm": {"roles": ["a"]}, "https://x.example/roles": ["b"]}
    assert claim_of(claims, "realm.roles") == ["a"]
    assert claim_of(claims, "https://x.example/roles") == ["b"]
    assert claim_of(claims, "realm.other") is None
    assert claim_of(claims, "realm.roles.deeper") is None


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("at+jwt", True),
        ("application/AT+JWT", True),
        ("JWT", True),
        (None, True),
        ("logout+jwt", False),
        ("dpop+jwt", False),
    ],
)
async def test_types_of_tokens(issuer: Issuer, tokens: AccessTokens, kind: str | None, taken: bool) -> None:
    claims = {"iss": issuer.url, "aud": "annulet", "sub": "alice", "exp": 2**33}
    text = jwt.encode(claims, issuer.keys["first"], "ES256", {"kid": "first", "typ": kind})
    if taken:
        assert (await tokens.check(text)).user == "alice"
    else:
        assert f"of type '{kind}'" in await why_not(tokens, text)
