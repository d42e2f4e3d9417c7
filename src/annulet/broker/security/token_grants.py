"""Tags and permissions that the scopes of an access token give.

Scopes of the issuer are mapped by the configuration (``[oidc.scopes.NAME]``), or say by themselves what they allow, as
RabbitMQ reads them: ``PREFIXread:VHOST/NAME`` with ``*`` for anything, ``PREFIXtag:administrator``.
"""

from __future__ import annotations

import re
import urllib.parse
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from annulet.broker.security.tokens import IMPLIED_BY, KNOWN_OPERATIONS
from annulet.core.base.linear_expressions import LinearExpression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from annulet.broker.settings.oidc_settings import OidcSettings, ScopePermissions

DEFAULT_EXCHANGE: Final = "amq.default"
"""The name permissions know the default exchange by (RabbitMQ)."""

ACCESS_TOKEN_CHARACTERS_MAX: Final = 16_384
"""Of one token; usual ones have 1000 to 3000, and the largest with hundreds of groups 8000."""

SCOPES_MAX: Final = 200
"""Of one token: more are refused, as each is looked at in checks of permissions."""

VERDICTS_MAX: Final = 1000
"""Remembered answers of the grants of one set of scopes, 200 KB; emptied when full."""

SCOPE_SETS_MAX: Final = 256
"""Sets of scopes whose grants are kept for further logins: as many roles are in no organisation chart."""

WILDCARD: Final = "*"


SYNTAX: Final = re.compile(r"[\^$\\.*+?()\[\]{}|]")
"""Characters with a meaning in regular expressions, Python's and those of browsers."""


class NamePattern(Protocol):
    """A test of names."""

    @property
    def pattern(self) -> str:
        """The regular expression that is searched for in a name."""

    def search(self, text: str) -> bool:
        """Return whether the name is meant."""


class Wildcard:
    """A text with ``*`` for anything, compared with whole names, in a time in proportion to the name."""

    __slots__ = ("_first", "_last", "_middle", "_whole", "pattern")

    def __init__(self, text: str, *, literal: bool = False) -> None:
        parts = [text] if literal else text.split(WILDCARD)
        self._whole = parts[0] if len(parts) == 1 else None
        self._first, self._last = parts[0], parts[-1]
        self._middle = parts[1:-1]
        self.pattern = "^" + ".*".join(SYNTAX.sub(r"\\\g<0>", part) for part in parts) + "$"

    def search(self, text: str) -> bool:
        """Return whether the whole name is meant."""
        if self._whole is not None:
            return text == self._whole
        if not text.startswith(self._first):
            return False
        place, end = len(self._first), len(text) - len(self._last)
        for part in self._middle:
            found = text.find(part, place, max(end, 0))
            if found < 0:
                return False
            place = found + len(part)
        return place <= end and text.endswith(self._last)


class Grant:
    """One kind of permission, for names in virtual hosts."""

    __slots__ = ("hosts", "kind", "names")

    def __init__(self, kind: str, hosts: NamePattern, names: NamePattern) -> None:
        self.kind = kind
        self.hosts = hosts
        self.names = names


class TokenGrants:
    """All that a set of scopes allows, in place of a local user's permissions."""

    __slots__ = ("_grants", "_verdicts", "tags")

    def __init__(self, tags: frozenset[str], grants: tuple[Grant, ...]) -> None:
        self.tags = tags
        self._grants = grants
        self._verdicts: dict[tuple[str, str, str], bool] = {}

    def enters(self, virtual_host: str) -> bool:
        """Return whether a scope names the virtual host."""
        return any(grant.hosts.search(virtual_host) for grant in self._grants)

    def allows(self, kind: str, virtual_host: str, name: str) -> bool:
        """Return whether a permission covers the exchange or queue ``name``."""
        question = (kind, virtual_host, name)
        verdict = self._verdicts.get(question)
        if verdict is None:
            kinds = (kind, IMPLIED_BY.get(kind))
            subject = name or DEFAULT_EXCHANGE
            verdict = any(
                grant.kind in kinds and grant.hosts.search(virtual_host) and grant.names.search(subject)
                for grant in self._grants
            )
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[question] = verdict
        return verdict

    def patterns(self, virtual_host: str) -> dict[str, str]:
        """Return a regular expression of names for each kind of permission that a scope gives in a virtual host."""
        found: dict[str, list[str]] = {}
        for grant in self._grants:
            if grant.hosts.search(virtual_host):
                found.setdefault(grant.kind, []).append(grant.names.pattern)
        return {
            kind: patterns[0] if len(patterns) == 1 else "|".join([f"(?:{pattern})" for pattern in patterns])
            for kind, patterns in found.items()
        }


class TokenRefused(Exception):
    """An access token does not count. The text says why, for the log; ``guess``: it may be an attempt at guessing."""

    def __init__(self, reason: str, *, guess: bool = True) -> None:
        super().__init__(reason)
        self.guess = guess


class AccessToken(msgspec.Struct, frozen=True):
    """A checked access token. ``expires_at``: milliseconds since 1970, with the skew of clocks."""

    user: str
    digest: str
    grants: TokenGrants
    expires_at: int


def looks_like_access_token(password: str) -> bool:
    """Return whether a password has the form of a signed token (RFC 7515 §3.1): ``{"`` in base64, and two dots."""
    return password.startswith("eyJ") and password.count(".") == 2


class ScopeReader:
    """Turns scopes into grants, as one configuration says."""

    def __init__(self, settings: OidcSettings, tags: Iterable[str]) -> None:
        self._prefix = settings.scope_prefix
        self._known_tags = frozenset(tags)
        self._configured = {
            name: (frozenset(scope.tags), _configured_grants(scope.permissions))
            for name, scope in settings.scopes.items()
        }
        self._read: dict[frozenset[str], TokenGrants] = {}  # the latest sets of scopes

    def grants(self, scopes: frozenset[str]) -> TokenGrants:
        """Return what these scopes allow; those that mean nothing here are left out."""
        known = self._read.get(scopes)
        if known is None:
            if len(self._read) >= SCOPE_SETS_MAX:
                del self._read[next(iter(self._read))]
            known = self._read[scopes] = self._grants_of(scopes)
        return known

    def _grants_of(self, scopes: frozenset[str]) -> TokenGrants:
        tags: set[str] = set()
        grants: list[Grant] = []
        for scope in sorted(scopes):
            configured = self._configured.get(scope)
            if configured is not None:
                tags |= configured[0]
                grants += configured[1]
            elif scope.startswith(self._prefix):
                kind, _, rest = scope.removeprefix(self._prefix).partition(":")
                if kind == "tag":
                    tags |= {rest} & self._known_tags
                elif kind in KNOWN_OPERATIONS:
                    grants += _named_grants(kind, rest)
        return TokenGrants(frozenset(tags), tuple(grants))


def _named_grants(kind: str, text: str) -> list[Grant]:
    """Return the grant of ``VHOST/NAME`` or ``VHOST/NAME/ROUTING-KEY``, each encoded as in a path.

    A scope for some routing keys only gives nothing: permissions here end at the exchange.
    """
    host, slash, names = text.partition("/")
    name, _, key = names.partition("/")
    if not slash or key not in {"", WILDCARD}:
        return []
    return [Grant(kind, _wildcard(host), _wildcard(name))]


def _wildcard(text: str) -> Wildcard:
    """Return the pattern of a part of a scope. An encoded ``*`` is one as well (RabbitMQ)."""
    return Wildcard(urllib.parse.unquote(text))


def _configured_grants(permissions: Mapping[str, ScopePermissions]) -> tuple[Grant, ...]:
    return tuple(
        Grant(kind, Wildcard(host, literal=True), LinearExpression(getattr(given, kind)))
        for host, given in permissions.items()
        for kind in given.__struct_fields__
        if getattr(given, kind)
    )
