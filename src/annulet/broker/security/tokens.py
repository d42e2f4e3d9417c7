"""API tokens: a second password of a user, for automation, with a scope and an end.

A token is 256 random bits, so one pass of SHA-256 is enough for its digest, which is all that is stored. Its text is
shown once. It takes the place of the password: in HTTP Basic, HTTP Bearer, SASL PLAIN, STOMP's ``passcode`` and the
login of bulk transfer.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from annulet.core.base.errors import InvalidArgument

TOKEN_PREFIX: Final = "annulet-token-"  # noqa: S105 - how tokens begin, so that they are found where they leaked
TOKEN_BYTES: Final = 32

OPERATIONS: Final = ("configure", "write", "read")
"""The operations of a scope that does not name any."""

FURTHER_OPERATIONS: Final = ("browse", "manage")
"""Implied by ``read`` and ``configure``."""

KNOWN_OPERATIONS: Final = (*OPERATIONS, *FURTHER_OPERATIONS)
"""The permissions of its user that a scope may keep."""

IMPLIED_BY: Final = {"browse": "read", "manage": "configure"}
"""RabbitMQ's permissions imply those that it does not have: looking at messages, and operations on them."""


class TokenScope(msgspec.Struct, frozen=True):
    """The rights of its user that a token keeps.

    ``operations`` of :data:`KNOWN_OPERATIONS`; ``virtual_hosts``: empty for all of the user's; ``tags``: those of the
    user's that it has too. HTTP changes settings, users and permissions only with ``configure``.
    """

    operations: tuple[str, ...] = OPERATIONS
    virtual_hosts: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def allows(self, operation: str, virtual_host: str) -> bool:
        """Return whether an operation in a virtual host is within the scope."""
        named = operation in self.operations or IMPLIED_BY.get(operation) in self.operations
        return named and self.enters(virtual_host)

    def enters(self, virtual_host: str) -> bool:
        """Return whether a virtual host is within the scope."""
        return not self.virtual_hosts or virtual_host in self.virtual_hosts

    def check(self) -> None:
        """Raise :class:`InvalidArgument` for an unknown operation, or for none."""
        for operation in self.operations:
            if operation not in KNOWN_OPERATIONS:
                raise InvalidArgument(f"operation {operation!r} is unknown; take some of {', '.join(KNOWN_OPERATIONS)}")
        if not self.operations:
            raise InvalidArgument(f"'operations' is empty; name some of {', '.join(KNOWN_OPERATIONS)}")


def new_token() -> str:
    """Return the text of a new token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def is_token(password: str) -> bool:
    """Return whether a password is meant as a token."""
    return password.startswith(TOKEN_PREFIX)


def digest_of(text: str) -> str:
    """Return the stored form of a token."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
