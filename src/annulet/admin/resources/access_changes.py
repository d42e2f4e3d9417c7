"""Changes of users, permissions, tokens, limits and virtual hosts, each with its entry in the audit trail.

Both APIs make them through this class. Passwords, hashes and tokens are never in the trail.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import broker_of, require_still
from annulet.admin.resources.audit import audit_access
from annulet.broker.security.authentication import PASSWORD_BYTES_MAX
from annulet.broker.security.file_users import EVERYTHING
from annulet.broker.security.password_hashes import NO_PASSWORD, read_hash
from annulet.broker.security.tokens import TOKEN_PREFIX, is_token
from annulet.core.base.errors import InvalidArgument
from annulet.store.database.definitions import OF_FILE, USER, VIRTUAL_HOST, PermissionRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from annulet.broker.security.authentication import User
    from annulet.broker.security.tokens import TokenScope

DELETION_SECONDS: Final = 10.0
"""How long a request waits for the deletion of a virtual host, which goes on by itself after that."""


class AccessChanges:
    """Makes the changes of one request, in the name of its user."""

    def __init__(self, request: Request, user: User) -> None:
        self._request = request
        self._user = user
        self._broker = broker_of(request)
        self._directory = self._broker.access_directory

    def _note(self, operation: str, target: str, arguments: Any = None, virtual_host: str = "") -> None:
        audit_access(self._broker, self._user, operation, target, arguments, virtual_host=virtual_host)

    # ------------------------------------------------------------------ users

    async def put_user(
        self,
        name: str,
        tags: Sequence[str],
        *,
        password: str | None = None,
        password_hash: str | None = None,
        algorithm: str | None = None,
        force: bool = False,
    ) -> bool:
        """Create or change a user. Returns whether it is a new one; without password and hash it keeps its own."""
        if password is not None and password_hash is not None:
            raise InvalidArgument("'password' and 'password_hash' are given; give one of them")
        scram = ""
        known_hash = None if password_hash is None else read_hash(password_hash, algorithm)
        if password is not None:
            size = len(password.encode(errors="surrogatepass"))
            if not 0 < size <= PASSWORD_BYTES_MAX:
                raise InvalidArgument(
                    f"'password' has {size} bytes; give 1 to {PASSWORD_BYTES_MAX}, or an empty 'password_hash' for a "
                    "user without a password"
                )
            if is_token(password):
                raise InvalidArgument(f"'password' begins with {TOKEN_PREFIX!r}, as tokens do; give another one")
            known_hash, scram = await self._broker.authenticator.hash_password(password)
            require_still(self._request)
        made = self._directory.set_user(name, tags, password_hash=known_hash, scram=scram, force=force)
        what = "kept" if known_hash is None else "none" if known_hash == NO_PASSWORD else "set"
        self._note("put-user", name, {"tags": list(tags), "password": what})
        return made

    def delete_users(self, names: Sequence[str], *, force: bool = False) -> None:
        """Delete users; their open connections end."""
        self._directory.delete_users(names, force=force)
        for name in names:
            self._note("delete-user", name)

    # ------------------------------------------------------------------ permissions

    def put_permission(self, record: PermissionRecord) -> bool:
        """Give a user permissions in a virtual host. Returns whether it had none there."""
        self._broker.virtual_hosts.record(record.virtual_host)
        made = self._directory.set_permission(record)
        given = {"configure": record.configure, "write": record.write, "read": record.read}
        self._note("set-permissions", record.user, given, record.virtual_host)
        return made

    def delete_permission(self, user: str, virtual_host: str) -> None:
        """Take a user's permissions in a virtual host away; its connections there end."""
        self._directory.delete_permission(user, virtual_host)
        self._note("delete-permissions", user, None, virtual_host)

    # ------------------------------------------------------------------ limits

    def set_limit(self, kind: str, name: str, limit: str, value: object) -> None:
        """Set a limit of a user or a virtual host."""
        if kind == VIRTUAL_HOST:
            self._broker.virtual_hosts.record(name)
        self._directory.set_limit(kind, name, limit, value)
        self._note(f"set-{kind}-limit", name, {limit: value}, "" if kind == USER else name)

    def delete_limit(self, kind: str, name: str, limit: str) -> None:
        """Take a limit away."""
        self._directory.delete_limit(kind, name, limit)
        self._note(f"delete-{kind}-limit", name, {"limit": limit}, "" if kind == USER else name)

    # ------------------------------------------------------------------ tokens

    def make_token(self, user: str, name: str, scope: TokenScope, expires_at: int) -> str:
        """Make a token and return its text."""
        now = self._broker.clock()
        text = self._directory.make_token(user, name, scope, now=now, expires_at=expires_at)
        given = {
            "operations": scope.operations,
            "virtual_hosts": scope.virtual_hosts,
            "tags": scope.tags,
            "expires_at": expires_at,
        }
        self._note("make-token", f"{user}/{name}", given)
        return text

    def delete_token(self, user: str, name: str) -> None:
        """Revoke a token; connections that logged in with it end."""
        self._directory.delete_token(user, name)
        self._note("delete-token", f"{user}/{name}")

    # ------------------------------------------------------------------ virtual hosts

    def put_virtual_host(self, name: str, description: str, tags: tuple[str, ...]) -> bool:
        """Create or describe a virtual host. Returns whether it is a new one.

        The maker of a new one gets all permissions there (RabbitMQ), unless it is a user of the configuration file.
        """
        made = self._broker.virtual_hosts.put(name, description, tags)
        self._note("put-virtual-host", name, {"description": description, "tags": tags}, name)
        if made and self._directory.user(self._user.name).source != OF_FILE:
            self.put_permission(PermissionRecord(self._user.name, name, EVERYTHING, EVERYTHING, EVERYTHING))
        return made

    async def delete_virtual_host(self, name: str) -> bool:
        """Delete a virtual host with all in it. Returns whether that is done; otherwise it goes on by itself."""
        work = self._broker.virtual_hosts.delete(
            name, lambda messages: self._note("deleted-virtual-host", name, {"messages": messages})
        )
        self._note("delete-virtual-host", name)
        try:
            await asyncio.wait_for(asyncio.shield(work), DELETION_SECONDS)
        except TimeoutError:
            return False
        return True


def limits_of(request: Request, kind: str, name: str) -> dict[str, int]:
    """Return the limits of a user or virtual host."""
    return broker_of(request).access_directory.limits(kind).get(name, {})
