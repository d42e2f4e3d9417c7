"""Bearer tokens of bulk transfer.

Tokens that clients send instead of their password on every call. Safe to use from any thread.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from annulet.bulk.protocol.errors import AuthenticationError, TokenExpiredError

UserT = TypeVar("UserT")
"""Whatever the server knows its users by."""

TOKEN_SECONDS: Final = 3600.0
"""How long a token is good for.

An old password stops working within the hour; a deleted user at once, see :meth:`TokenStore.forget`. Clients log in
again.
"""

TOKENS_MAX: Final = 10_000
"""Tokens kept, about 2 MB; the oldest makes room."""


@dataclass(frozen=True, slots=True)
class Token(Generic[UserT]):
    """The user of a token, and its end (monotonic seconds)."""

    user: UserT
    expires: float
    from_loopback: bool


class TokenStore(Generic[UserT]):
    """The tokens of one server process, and the users that they are of. They do not survive it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, Token[UserT]] = {}

    def issue(self, user: UserT, *, from_loopback: bool) -> str:
        """Make a token for an authenticated user. It is good from the same side of the loopback border only."""
        now = self._clock()
        text = secrets.token_urlsafe(32)
        with self._lock:
            for old in [old for old, token in self._tokens.items() if token.expires <= now]:
                del self._tokens[old]
            while len(self._tokens) >= TOKENS_MAX:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[text] = Token(user, now + TOKEN_SECONDS, from_loopback)
        return text

    def user_of(self, text: str, *, from_loopback: bool) -> UserT:
        """Return whose token this is. Raises :class:`TokenExpiredError`."""
        with self._lock:
            token = self._tokens.get(text)
        if token is None or token.expires <= self._clock() or (token.from_loopback and not from_loopback):
            raise TokenExpiredError("the bearer token is unknown or expired; log in again")
        return token.user

    def forget(self, gone: Callable[[UserT], bool]) -> None:
        """Forget the tokens of users that are gone."""
        with self._lock:
            for text in [text for text, token in self._tokens.items() if gone(token.user)]:
                del self._tokens[text]


def parse_basic(header: str) -> tuple[str, str]:
    """Return user and password of an ``Authorization.

    Basic`` header (RFC 7617). Raises :class:`AuthenticationError`.
    """
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise AuthenticationError("log in with Authorization: Basic, then use the bearer token of the answer")
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise AuthenticationError(f"the Authorization header is not Basic credentials: {error}") from error
    if not colon:
        raise AuthenticationError(
            "the Authorization header is not Basic credentials: no colon between user and password"
        )
    return user, password
