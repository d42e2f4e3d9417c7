"""Access tokens of an OpenID Connect issuer (RFC 9068) in place of a password.

A token is checked against the issuer's keys: signature, issuer, audience, times. Its claims name the user and the
scopes; these give tags and permissions, as no local user is behind it. Needs the extra ``annulet[oidc]``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from annulet.broker.security.issuer_keys import IssuerKeys, IssuerUnavailableError
from annulet.broker.security.token_grants import (
    ACCESS_TOKEN_CHARACTERS_MAX,
    SCOPES_MAX,
    AccessToken,
    ScopeReader,
    TokenRefused,
)
from annulet.broker.settings.configuration import TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.security.issuer_keys import JsonKey
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.oidc_settings import OidcSettings

USER_NAME_BYTES_MAX: Final = 255

TYPES: Final = frozenset({"at+jwt", "jwt"})
"""Types in the header of access tokens: RFC 9068 §2.1, and that of most issuers, which do not follow it. No type is
``jwt``."""

ID_TOKEN_CLAIMS: Final = frozenset({"at_hash", "c_hash"})
"""Claims that only ID tokens have (OpenID Connect Core §3). ``nonce`` is in access tokens of Keycloak, too."""

OTHER_KINDS: Final = frozenset({"ID", "Refresh", "Offline"})
"""What Keycloak calls its other tokens in the claim ``typ``."""

TOKENS_REMEMBERED_MAX: Final = 1024
"""Tokens that were right, by digest: a client that reconnects costs no check of a signature."""

RSA_BITS_LEAST: Final = 2048
"""Shorter keys are refused (RFC 7518 §3.3)."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, ends of lines, and halves of characters: JSON can have them, and no other text can."""


class AccessTokens:
    """Checks tokens of one issuer. Belongs to the event loop."""

    def __init__(self, settings: OidcSettings, tags: Iterable[str], *, now: Clock, keys: IssuerKeys) -> None:
        self.keys = keys
        keys.on_change = self._forget
        self._settings = settings
        self._scopes = ScopeReader(settings, tags)
        self._now = now
        self._skew = settings.clock_skew * 1000
        self._right: dict[str, AccessToken] = {}  # by digest; oldest first
        self._jwt = jwt.PyJWT()

    def remembered(self, text: str) -> AccessToken | None:
        """Return a token that was right before and still is."""
        token = self._right.get(_digest(text))
        return token if token is not None and token.expires_at > self._now() else None

    async def check(self, text: str) -> AccessToken:
        """Return what a token says. Raises :class:`TokenRefused`. May wait for the issuer's keys."""
        if len(text) > ACCESS_TOKEN_CHARACTERS_MAX:
            raise TokenRefused(f"the access token has more than {ACCESS_TOKEN_CHARACTERS_MAX} characters")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise TokenRefused(f"the access token is malformed: {error}") from error
        if "crit" in header:  # no extension is known here (RFC 7515 §4.1.11)
            raise TokenRefused(f"the access token needs extension {str(header['crit'])[:60]}, which is unknown")
        if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in TYPES:
            raise TokenRefused(f"the token is of type {str(header['typ'])[:20]!r}, not an access token (at+jwt)")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._settings.algorithms:
            raise TokenRefused(
                f"the access token is signed with {str(algorithm)[:20]!r}, which oidc.algorithms has not"
            )
        try:
            key = await self.keys.find(key_id)
        except IssuerUnavailableError as error:
            raise TokenRefused(f"the access token cannot be checked: {error}", guess=False) from error
        if key is None:
            raise TokenRefused(f"the access token is signed with key {str(key_id)[:60]!r}, which the issuer has not")
        token = self._read(text, self._claims(text, key, str(algorithm)))
        if len(self._right) >= TOKENS_REMEMBERED_MAX:
            del self._right[next(iter(self._right))]
        self._right[token.digest] = token
        return token

    def _forget(self) -> None:
        """The issuer has other keys."""
        self._right.clear()

    def _claims(self, text: str, key: JsonKey, algorithm: str) -> dict[str, Any]:
        """Return the claims of a token with the right signature, issuer and audience."""
        settings = self._settings
        if key.get("alg", algorithm) != algorithm:
            raise TokenRefused(f"the access token is signed with {algorithm}, its key is for {str(key['alg'])[:20]!r}")
        try:
            public = jwt.PyJWK(key, algorithm=algorithm).key
            if getattr(public, "key_size", RSA_BITS_LEAST) < RSA_BITS_LEAST and key["kty"] == "RSA":
                raise TokenRefused(f"the issuer's key has less than {RSA_BITS_LEAST} bits")
            return self._jwt.decode(
                text,
                public,
                algorithms=[algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
                },
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError, UnsupportedAlgorithm) as error:
            raise TokenRefused(f"the access token is refused: {error}") from error

    def _read(self, text: str, claims: dict[str, Any]) -> AccessToken:
        now = self._now()
        if not ID_TOKEN_CLAIMS.isdisjoint(claims) or claims.get("typ") in OTHER_KINDS:
            raise TokenRefused("the token is an ID or refresh token, not an access token; ask the issuer for one")
        expires_at = _milliseconds(claims, "exp") + self._skew
        if expires_at <= now:
            raise TokenRefused("the access token has expired")
        if "nbf" in claims and _milliseconds(claims, "nbf") - self._skew > now:
            raise TokenRefused("the access token is not valid yet")
        name = claim_of(claims, self._settings.user_claim)
        if not isinstance(name, str) or not name or _CONTROL.search(name) or len(name.encode()) > USER_NAME_BYTES_MAX:
            raise TokenRefused(
                f"claim {self._settings.user_claim!r} of the access token is no user name of 1 to "
                f"{USER_NAME_BYTES_MAX} bytes; correct oidc.user_claim"
            )
        if unicodedata.normalize("NFKC", name) != name or any(unicodedata.category(each) == "Cf" for each in name):
            raise TokenRefused(
                f"claim {self._settings.user_claim!r} of the access token has characters that look like others or that "
                "nobody sees; the issuer has to give the name in the form NFKC"
            )
        scopes: set[str] = set()
        for claim in self._settings.scope_claims:
            scopes.update(_texts(claim_of(claims, claim)))
        if len(scopes) > SCOPES_MAX:
            raise TokenRefused(f"the access token has more than {SCOPES_MAX} scopes")
        return AccessToken(name, _digest(text), self._scopes.grants(frozenset(scopes)), expires_at)


def access_tokens_of(settings: OidcSettings, now: Clock) -> AccessTokens:
    """Return the tokens of a configured issuer, whose keys are fetched with the first login."""
    return AccessTokens(settings, TAGS, now=now, keys=IssuerKeys(settings.issuer, settings.ca_file))


def claim_of(claims: dict[str, Any], name: str) -> object:
    """Return a claim, ``None`` without it. A name with dots is that of a claim, or a way into nested claims."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(value: object) -> list[str]:
    """Return the scopes of a claim: a text separated by blanks (RFC 8693 §4.2), or a list of texts."""
    if isinstance(value, str):
        return value.split()
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise TokenRefused(f"claim {name!r} of the access token is no time")
    return int(value * 1000)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
