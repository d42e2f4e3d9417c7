"""The tables of the catalogue that say who may come in and do what: users, permissions, limits, tokens, virtual hosts.

Part of the :class:`~annulet.store.database.catalogue.Catalogue`, which brings the statements and the transactions: each
method is one transaction there and durable when it returns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from annulet.store.database.definitions import (
    USER,
    VIRTUAL_HOST,
    LimitRecord,
    PermissionRecord,
    TokenRecord,
    UserRecord,
    VirtualHostRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

OF_HOST: Final = (
    "DELETE FROM permissions WHERE virtual_host = ?",
    "DELETE FROM exchanges WHERE virtual_host = ?",
    "DELETE FROM bindings WHERE virtual_host = ?",
    "DELETE FROM subscriptions WHERE virtual_host = ?",
    "DELETE FROM operator_settings WHERE virtual_host = ?",
    "DELETE FROM leases WHERE virtual_host = ?",
    "DELETE FROM lease_ranges WHERE virtual_host = ?",
)
"""What a deleted virtual host leaves behind, but for its queues, which have gone before."""


class Change(Protocol):
    """Run one statement that changes something."""

    def __call__(self, statement: str, *values: object) -> None:
        """Run it with its values."""


class Rows(Protocol):
    """Run one statement that reads."""

    def __call__(self, statement: str, *values: object) -> list[Any]:
        """Run it with its values and return the rows."""


class AccessTables:
    """Records of users, permissions, limits, tokens and virtual hosts. Raises ``CatalogueError`` as the catalogue."""

    def __init__(self, change: Change, rows: Rows, transaction: Callable[[], AbstractContextManager[None]]) -> None:
        self._change = change
        self._rows = rows
        self._transaction = transaction

    # ------------------------------------------------------------------ users

    def users(self) -> list[UserRecord]:
        """Return all users."""
        rows = self._rows("SELECT name, password_hash, tags, scram, source FROM users ORDER BY name")
        return [
            UserRecord(name, known, tuple(json.loads(tags)), scram, source) for name, known, tags, scram, source in rows
        ]

    def set_user(
        self,
        name: str,
        password_hash: str,
        tags: tuple[str, ...] | list[str] = (),
        scram: str = "",
        *,
        source: str = "",
    ) -> None:
        """Create or replace a user. Without ``scram`` its verifiers stay as long as the hash is the same."""
        self._change(
            "INSERT INTO users (name, password_hash, tags, scram, source) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET scram = CASE WHEN excluded.scram = '' "
            "AND password_hash = excluded.password_hash THEN scram ELSE excluded.scram END, "
            "password_hash = excluded.password_hash, tags = excluded.tags, source = excluded.source",
            *(name, password_hash, json.dumps(list(tags)), scram, source),
        )

    def set_scram(self, name: str, scram: str) -> None:
        """Replace the SCRAM verifiers of a user; an unknown user is ignored."""
        self._change("UPDATE users SET scram = ? WHERE name = ?", scram, name)

    def delete_user(self, name: str) -> None:
        """Delete a user with its permissions, limits and tokens; an unknown one is ignored."""
        with self._transaction():
            self._change("DELETE FROM users WHERE name = ?", name)
            self._change("DELETE FROM permissions WHERE user = ?", name)
            self._change("DELETE FROM tokens WHERE user = ?", name)
            self._change("DELETE FROM access_limits WHERE kind = ? AND name = ?", USER, name)

    # ------------------------------------------------------------------ permissions

    def permissions(self) -> list[PermissionRecord]:
        """Return all permissions."""
        rows = self._rows(
            "SELECT user, virtual_host, configure, write, read, browse, manage FROM permissions "
            "ORDER BY user, virtual_host"
        )
        return [PermissionRecord(*row) for row in rows]

    def set_permission(
        self,
        user: str,
        virtual_host: str,
        configure: str,
        write: str,
        read: str,
        *,
        browse: str = "",
        manage: str = "",
    ) -> None:
        """Create or replace the permissions of a user in a virtual host."""
        self._change(
            "INSERT OR REPLACE INTO permissions (user, virtual_host, configure, write, read, browse, manage) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(user, virtual_host, configure, write, read, browse, manage),
        )

    def delete_permission(self, user: str, virtual_host: str) -> None:
        """Delete them; unknown ones are ignored."""
        self._change("DELETE FROM permissions WHERE user = ? AND virtual_host = ?", user, virtual_host)

    # ------------------------------------------------------------------ limits

    def limits(self) -> list[LimitRecord]:
        """Return all limits."""
        rows = self._rows("SELECT kind, name, limit_name, value FROM access_limits ORDER BY kind, name, limit_name")
        return [LimitRecord(*row) for row in rows]

    def set_limit(self, record: LimitRecord) -> None:
        """Create or replace a limit."""
        values = (record.kind, record.name, record.limit, record.value)
        self._change("INSERT OR REPLACE INTO access_limits VALUES (?, ?, ?, ?)", *values)

    def delete_limit(self, kind: str, name: str, limit: str) -> None:
        """Delete a limit; an unknown one is ignored."""
        self._change("DELETE FROM access_limits WHERE kind = ? AND name = ? AND limit_name = ?", kind, name, limit)

    # ------------------------------------------------------------------ tokens

    def tokens(self) -> list[TokenRecord]:
        """Return all tokens."""
        rows = self._rows("SELECT user, name, digest, scope, created_at, expires_at FROM tokens ORDER BY user, name")
        return [TokenRecord(*row) for row in rows]

    def set_token(self, token: TokenRecord) -> None:
        """Create or replace a token."""
        values = (token.user, token.name, token.digest, token.scope, token.created_at, token.expires_at)
        self._change("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?, ?)", *values)

    def delete_token(self, user: str, name: str) -> None:
        """Delete a token; an unknown one is ignored."""
        self._change("DELETE FROM tokens WHERE user = ? AND name = ?", user, name)

    # ------------------------------------------------------------------ virtual hosts

    def virtual_hosts(self) -> list[VirtualHostRecord]:
        """Return all virtual hosts, those whose deletion is under way as well."""
        rows = self._rows("SELECT name, description, tags, deleting FROM virtual_hosts ORDER BY name")
        return [VirtualHostRecord(name, text, tuple(json.loads(tags)), bool(gone)) for name, text, tags, gone in rows]

    def describe_virtual_host(self, name: str, description: str, tags: tuple[str, ...]) -> None:
        """Set description and tags of a virtual host; an unknown one is ignored."""
        values = (description, json.dumps(list(tags)), name)
        self._change("UPDATE virtual_hosts SET description = ?, tags = ? WHERE name = ?", *values)

    def begin_deleting_virtual_host(self, name: str) -> None:
        """Note durably that a virtual host is being deleted, and take its permissions and limits away."""
        with self._transaction():
            self._change("UPDATE virtual_hosts SET deleting = 1 WHERE name = ?", name)
            self._change("DELETE FROM permissions WHERE virtual_host = ?", name)
            self._change("DELETE FROM access_limits WHERE kind = ? AND name = ?", VIRTUAL_HOST, name)

    def delete_virtual_host(self, name: str) -> None:
        """Delete a virtual host whose queues are gone, with everything else of it."""
        with self._transaction():
            for statement in OF_HOST:
                self._change(statement, name)
            self._change("DELETE FROM virtual_hosts WHERE name = ?", name)

    # ------------------------------------------------------------------ facts

    def fact(self, name: str) -> str:
        """Return what is remembered under a name, empty for nothing."""
        rows = self._rows("SELECT value FROM access_facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else ""

    def set_fact(self, name: str, value: str) -> None:
        """Remember something for all later starts."""
        self._change("INSERT OR REPLACE INTO access_facts VALUES (?, ?)", name, value)
