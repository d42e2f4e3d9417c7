"""The section ``[oidc]`` of the configuration: the issuer whose access tokens log in, and what their scopes allow."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from annulet.core.base.linear_expressions import ExpressionError, LinearExpression

if TYPE_CHECKING:
    from collections.abc import Iterable

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures of a private key. Neither ``none`` nor those with a shared secret can be allowed."""

CLOCK_SKEW: Final = 30
"""Seconds by which the clocks of issuer and broker may differ: those that follow a time server differ by less."""
CLOCK_SKEW_MAX: Final = 300

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Issuers that may be asked without TLS."""


class ScopePermissions(msgspec.Struct, frozen=True):
    """Regular expressions for names, as permissions of users have them; an empty one matches nothing."""

    configure: str = ""
    write: str = ""
    read: str = ""
    browse: str = ""
    manage: str = ""


class ScopeSection(msgspec.Struct, frozen=True):
    """``[oidc.scopes.NAME]``: tags and permissions that a scope, role or group of the issuer gives."""

    tags: list[str] = []
    permissions: dict[str, ScopePermissions] = {}  # by virtual host


class OidcSection(msgspec.Struct, frozen=True):
    """``[oidc]``; off without ``issuer``."""

    issuer: str | None = None
    audience: str | None = None
    ca_file: str | None = None  # PEM: authorities of the issuer's certificate; the system's unless it is given
    user_claim: str = "sub"
    scope_claims: list[str] = msgspec.field(default_factory=lambda: ["scope", "scp"])
    scope_prefix: str | None = None  # of scopes as RabbitMQ has them; the audience and a dot
    algorithms: list[str] = msgspec.field(default_factory=lambda: list(ALGORITHMS))
    clock_skew: int = CLOCK_SKEW
    scopes: dict[str, ScopeSection] = {}


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The section with every value valid. ``clock_skew`` is in seconds."""

    issuer: str
    audience: str
    ca_file: Path | None = None
    user_claim: str = "sub"
    scope_claims: tuple[str, ...] = ("scope", "scp")
    scope_prefix: str = ""
    algorithms: tuple[str, ...] = ALGORITHMS
    clock_skew: int = CLOCK_SKEW
    scopes: dict[str, ScopeSection] = {}


class OidcSettingsError(Exception):
    """A setting is missing or wrong. The text names the setting, its value and the remedy."""


def oidc_settings(section: OidcSection, tags: Iterable[str], folder: Path = Path()) -> OidcSettings | None:
    """Return the settings, ``None`` without any. Paths are relative to ``folder``; ``tags``: those that exist.

    Raises :class:`OidcSettingsError`.
    """
    if section.issuer is None:
        if section != OidcSection():
            raise OidcSettingsError("oidc.issuer is missing: the address of the issuer, as its tokens name it in 'iss'")
        return None
    if not section.audience:
        raise OidcSettingsError("oidc.audience is missing: what tokens for this broker name in 'aud'")
    check_address("oidc.issuer", section.issuer)
    if not section.user_claim:
        raise OidcSettingsError("oidc.user_claim is empty; name the claim that has the user's name, usually 'sub'")
    if not 0 <= section.clock_skew <= CLOCK_SKEW_MAX:
        raise OidcSettingsError(f"oidc.clock_skew={section.clock_skew} is not within 0 to {CLOCK_SKEW_MAX} seconds")
    _check_algorithms(section.algorithms)
    _check_scopes(section.scopes, tuple(tags))
    prefix = f"{section.audience}." if section.scope_prefix is None else section.scope_prefix
    return OidcSettings(
        issuer=section.issuer,
        audience=section.audience,
        ca_file=None if section.ca_file is None else folder / Path(section.ca_file).expanduser(),
        user_claim=section.user_claim,
        scope_claims=tuple(section.scope_claims),
        scope_prefix=prefix,
        algorithms=tuple(section.algorithms),
        clock_skew=section.clock_skew,
        scopes=section.scopes,
    )


def check_address(what: str, address: str) -> None:
    """Raise :class:`OidcSettingsError` unless keys may be fetched there: with TLS, or from this machine."""
    try:
        parts = urllib.parse.urlsplit(address)
        scheme, host = parts.scheme, parts.hostname
    except ValueError as error:
        raise OidcSettingsError(f"{what}: {address!r} is no address: {error}") from error
    if scheme == "https" and host:
        return
    if scheme != "http" or host not in LOOPBACK_NAMES:
        raise OidcSettingsError(f"{what}: {address!r} is no https:// address; http:// is for this machine only")


def _check_algorithms(names: list[str]) -> None:
    for name in names:
        if name not in ALGORITHMS:
            raise OidcSettingsError(f"oidc.algorithms: {name!r} is not allowed; take some of {', '.join(ALGORITHMS)}")
    if not names:
        raise OidcSettingsError(f"oidc.algorithms is empty; take some of {', '.join(ALGORITHMS)}")


def _check_scopes(scopes: dict[str, ScopeSection], tags: tuple[str, ...]) -> None:
    for name, scope in scopes.items():
        for tag in scope.tags:
            if tag not in tags:
                raise OidcSettingsError(f"oidc.scopes.{name}.tags: unknown tag {tag!r}; known here: {', '.join(tags)}")
        for host, permissions in scope.permissions.items():
            for kind in permissions.__struct_fields__:
                try:
                    LinearExpression(getattr(permissions, kind))
                except ExpressionError as error:
                    place = f"oidc.scopes.{name}.permissions.{host}.{kind}"
                    raise OidcSettingsError(f"{place}: not a regular expression that can be used: {error}") from error
