"""Users, permissions, limits and tokens as operators change them at run time: checked, durable, in effect on return.

Two sources have users: the configuration file and operators. The file's belong to it, and a change of one of them at
run time is refused with the file's name. Everything else is kept in the catalogue until an operator takes it away.

After each change the authenticator reads the records anew, and ``on_change`` gets the users that may have fewer rights
now, so that their open connections are looked at.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from annulet.broker.security.authentication import ADMINISTRATOR, PERMISSION_KINDS
from annulet.broker.security.file_users import declare_users
from annulet.broker.security.given_limits import check_limit
from annulet.broker.security.password_hashes import NO_PASSWORD
from annulet.broker.security.tokens import TokenScope, digest_of, new_token
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.linear_expressions import ExpressionError, LinearExpression
from annulet.core.configuration.arguments.values import refuse_line_breaks
from annulet.store.database.definitions import (
    OF_FILE,
    USER,
    LimitRecord,
    PermissionRecord,
    TokenRecord,
    UserRecord,
)
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from annulet.broker.security.authentication import Authenticator
    from annulet.broker.security.given_limits import GivenLimits
    from annulet.broker.settings.configuration import UserDeclaration
    from annulet.store.database.catalogue import Catalogue

logger = structlog.get_logger(__name__)

NAME_BYTES_MAX: Final = 255
"""Of a user, virtual host, tag or token: the longest name that AMQP 0-9-1 can say."""

TAGS_MAX: Final = 32
"""Tags of a user: six are known."""

EXPRESSION_CHARACTERS_MAX: Final = 4096
"""Of a permission: a list of a hundred long names."""

RETRY_MILLISECONDS: Final = 60_000
"""After a catalogue that refused to forget expired tokens: they are without effect anyway."""

TOKENS_PER_USER_MAX: Final = 100
"""One for each program that works in the user's name."""


class AccessDirectory:
    """The records of one broker. Belongs to the event loop.

    Each change is durable when its method returns, and takes effect then; those inside of :meth:`together` when that
    ends. All methods raise ``CatalogueError`` when the file refuses, and nothing has changed then.

    ``on_change(users, of_tokens)`` is called after changes with the names of the users that may have fewer rights, and
    of those of which tokens have gone. ``source`` names the configuration file in errors.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        authenticator: Authenticator,
        limits: GivenLimits,
        *,
        source: str = "",
    ) -> None:
        self.on_change: Callable[[frozenset[str], frozenset[str]], None] | None = None
        self.on_limits: Callable[[], None] | None = None  # called after changes of limits
        self._catalogue = catalogue
        self._access = catalogue.access
        self._authenticator = authenticator
        self._limits = limits
        self._source = source or "the configuration file"
        self._users: dict[str, UserRecord] = {}
        self._permissions: dict[tuple[str, str], PermissionRecord] = {}
        self._tokens: dict[tuple[str, str], TokenRecord] = {}
        self._expires_at = 0  # of the token that ends first; 0: none ends
        self._depth = 0  # brackets of together()
        self._narrowed: set[str] = set()  # users that may have fewer rights than before
        self._of_tokens: set[str] = set()  # users of which tokens have gone
        self._read()
        self._note_expiry()

    def _read(self) -> None:
        access = self._access
        self._users = {record.name: record for record in access.users()}
        self._permissions = {(record.user, record.virtual_host): record for record in access.permissions()}
        self._tokens = {(record.user, record.name): record for record in access.tokens()}
        self._limits.replace(access.limits())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make the changes inside one transaction, in effect when it ends; an exception undoes all of them. Nests."""
        self._depth += 1
        try:
            with self._catalogue.transaction():
                yield
        except BaseException:
            if self._depth == 1:
                self._narrowed.clear()
                self._of_tokens.clear()
                self._read()
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            narrowed, self._narrowed = frozenset(self._narrowed), set()
            self._authenticator.reload()
            self._replace_limits()
            self._note_expiry()
            of_tokens, self._of_tokens = frozenset(self._of_tokens), set()
            if (narrowed or of_tokens) and self.on_change is not None:
                self.on_change(narrowed, of_tokens)

    # ------------------------------------------------------------------ users

    def users(self) -> list[UserRecord]:
        """Return all users by name."""
        return [self._users[name] for name in sorted(self._users)]

    def user(self, name: str) -> UserRecord:
        """Return a user. Raises :class:`NotFound`."""
        record = self._users.get(name)
        if record is None:
            raise NotFound(f"no user '{name}'")
        return record

    def set_user(
        self,
        name: str,
        tags: Sequence[str],
        *,
        password_hash: str | None = None,
        scram: str = "",
        force: bool = False,
    ) -> bool:
        """Create or change a user. Returns whether it is a new one.

        ``password_hash``: ``None`` to keep that of an existing user; empty for a user without a password. ``force``:
        also if no administrator is left. Raises :class:`InvalidArgument`, :class:`PreconditionFailed`.
        """
        known = self._users.get(name)
        check_name("user", name)
        _check_tags(tags)
        self._refuse_of_file(name)
        if password_hash is None:
            password_hash = NO_PASSWORD if known is None else known.password_hash
            scram = "" if known is None else known.scram
        record = UserRecord(name, password_hash, tuple(dict.fromkeys(tags)), scram)
        if not force:
            self._require_administrator([*(user for user in self.users() if user.name != name), record])
        with self.together():
            self._access.set_user(name, record.password_hash, record.tags, record.scram)
            self._users[name] = record
        return known is None

    def delete_users(self, names: Sequence[str], *, force: bool = False) -> None:
        """Delete users with their permissions, limits and tokens. Raises :class:`NotFound` if one is missing.

        ``force``: also if no administrator is left.
        """
        for name in names:
            self.user(name)
            self._refuse_of_file(name)
        leaving = set(names)
        if not force:
            self._require_administrator([user for user in self.users() if user.name not in leaving])
        with self.together():
            for name in leaving:
                self._access.delete_user(name)
                del self._users[name]
                self._permissions = {key: kept for key, kept in self._permissions.items() if key[0] != name}
                self._tokens = {key: kept for key, kept in self._tokens.items() if key[0] != name}
            self._narrowed |= leaving

    def _refuse_of_file(self, name: str) -> None:
        """Raise :class:`PreconditionFailed` for a user that the configuration file has."""
        record = self._users.get(name)
        if record is not None and record.source == OF_FILE:
            raise PreconditionFailed(
                f"user '{name}' is declared in {self._source}; change it there, then send SIGHUP to the broker"
            )

    def _require_administrator(self, users: Sequence[UserRecord]) -> None:
        """Raise :class:`PreconditionFailed` when a change takes the last administrator away."""
        if _administrators(self.users()) and not _administrators(users):
            raise PreconditionFailed(
                "no user tagged 'administrator' with a password would be left; make another one first, or repeat with "
                "force=true (on the command line: --force)"
            )

    def reload_file(self, users: Mapping[str, UserDeclaration]) -> None:
        """Follow the file's users of now, and revoke users and permissions that it no longer names."""
        known, permissions = self._users.keys(), self._permissions
        with self.together():
            declare_users(self._catalogue, users)
            self._read()
            self._narrowed |= known - self._users.keys()
            self._narrowed |= {key[0] for key, record in permissions.items() if self._permissions.get(key) != record}

    # ------------------------------------------------------------------ permissions

    def permissions(self) -> list[PermissionRecord]:
        """Return all permissions, by user and virtual host."""
        return [self._permissions[key] for key in sorted(self._permissions)]

    def permission(self, user: str, virtual_host: str) -> PermissionRecord:
        """Return the permissions of a user in a virtual host. Raises :class:`NotFound`."""
        record = self._permissions.get((user, virtual_host))
        if record is None:
            raise NotFound(f"user '{user}' has no permissions in vhost '{virtual_host}'")
        return record

    def set_permission(self, record: PermissionRecord) -> bool:
        """Give a user permissions in a virtual host, which the caller knows to be there. Returns whether it had none.

        Raises :class:`NotFound`, :class:`InvalidArgument`, :class:`PreconditionFailed`.
        """
        self.user(record.user)
        self._refuse_of_file(record.user)
        for kind in PERMISSION_KINDS:
            _check_expression(kind, getattr(record, kind))
        key = (record.user, record.virtual_host)
        known = self._permissions.get(key)
        with self.together():
            self._access.set_permission(
                record.user,
                record.virtual_host,
                record.configure,
                record.write,
                record.read,
                browse=record.browse,
                manage=record.manage,
            )
            self._permissions[key] = record
            if known not in {None, record}:
                self._narrowed.add(record.user)
        return known is None

    def delete_permission(self, user: str, virtual_host: str) -> None:
        """Take a user's permissions in a virtual host away. Raises :class:`NotFound`, :class:`PreconditionFailed`."""
        self.permission(user, virtual_host)
        self._refuse_of_file(user)
        with self.together():
            self._access.delete_permission(user, virtual_host)
            del self._permissions[user, virtual_host]
            self._narrowed.add(user)

    def host_goes(self, virtual_host: str) -> None:
        """Note durably that a virtual host is being deleted: no client may enter it from here on."""
        with self.together():
            self._access.begin_deleting_virtual_host(virtual_host)
            self._narrowed |= {user for user, host in self._permissions if host == virtual_host}
            self._permissions = {key: kept for key, kept in self._permissions.items() if key[1] != virtual_host}
        self._replace_limits()

    def file_users_of(self, virtual_host: str) -> list[str]:
        """Return the users whose permissions in a virtual host the configuration file declares."""
        return [user for user, host in self._permissions if host == virtual_host and self._is_of_file(user)]

    def _is_of_file(self, user: str) -> bool:
        record = self._users.get(user)
        return record is not None and record.source == OF_FILE

    # ------------------------------------------------------------------ limits

    def limits(self, kind: str) -> dict[str, dict[str, int]]:
        """Return the limits of users or virtual hosts (``kind``), by name."""
        return self._limits.all_of(kind)

    def set_limit(self, kind: str, name: str, limit: str, value: object) -> None:
        """Set a limit of a user, or of a virtual host that the caller knows to be there.

        Raises :class:`NotFound`, :class:`InvalidArgument`.
        """
        number = check_limit(kind, limit, value)
        if kind == USER:
            self.user(name)
        with self._catalogue.transaction():
            self._access.set_limit(LimitRecord(kind, name, limit, number))
        self._replace_limits()

    def delete_limit(self, kind: str, name: str, limit: str) -> None:
        """Take a limit away. Raises :class:`NotFound`."""
        if limit not in self._limits.all_of(kind).get(name, {}):
            raise NotFound(f"{kind} '{name}' has no limit '{limit}'")
        self._access.delete_limit(kind, name, limit)
        self._replace_limits()

    def _replace_limits(self) -> None:
        self._limits.replace(self._access.limits())
        if self.on_limits is not None:
            self.on_limits()

    # ------------------------------------------------------------------ tokens

    def tokens(self) -> list[TokenRecord]:
        """Return all tokens, by user and name, without their texts."""
        return [self._tokens[key] for key in sorted(self._tokens)]

    def token(self, user: str, name: str) -> TokenRecord:
        """Return a token. Raises :class:`NotFound`."""
        record = self._tokens.get((user, name))
        if record is None:
            raise NotFound(f"user '{user}' has no token '{name}'")
        return record

    def make_token(self, user: str, name: str, scope: TokenScope, *, now: int, expires_at: int) -> str:
        """Make a token of a user and return its text, which is stored nowhere; one of that name is replaced.

        Times are milliseconds since 1970; ``expires_at`` 0 for never. Raises :class:`NotFound`,
        :class:`InvalidArgument`.
        """
        known = self.user(user)
        check_name("token", name)
        scope.check()
        if expires_at and expires_at <= now:
            raise InvalidArgument(f"'expires_at' is {expires_at}, which is over; give a time to come, or 0 for never")
        for tag in scope.tags:
            if tag not in known.tags:
                raise InvalidArgument(f"tag {tag!r} is none of user '{user}'; it has {', '.join(known.tags) or 'none'}")
        others = sum(of_user == user and of_name != name for of_user, of_name in self._tokens)
        if others >= TOKENS_PER_USER_MAX:
            raise PreconditionFailed(f"user '{user}' has {TOKENS_PER_USER_MAX} tokens, which is the limit; delete some")
        text = new_token()
        record = TokenRecord(user, name, digest_of(text), msgspec.json.encode(scope).decode(), now, expires_at)
        with self.together():
            self._access.set_token(record)
            self._tokens[user, name] = record
            self._of_tokens.add(user)  # one of that name may have been replaced
        return text

    def delete_token(self, user: str, name: str) -> None:
        """Revoke a token: connections that logged in with it end. Raises :class:`NotFound`."""
        self.token(user, name)
        with self.together():
            self._access.delete_token(user, name)
            del self._tokens[user, name]
            self._of_tokens.add(user)

    def _note_expiry(self) -> None:
        self._expires_at = min((token.expires_at for token in self._tokens.values() if token.expires_at), default=0)

    def tick(self, now: int) -> None:
        """Delete the tokens whose time is over, with a line in the log."""
        if not self._expires_at or self._expires_at > now:
            return
        expired = [key for key, record in self._tokens.items() if record.expires_at and record.expires_at <= now]
        try:
            with self.together():
                for user, name in expired:
                    self.delete_token(user, name)
                    logger.info("token expired", user=user, token=name)
        except CatalogueError as error:
            self._expires_at = now + RETRY_MILLISECONDS
            logger.error("expired tokens stay in the catalogue, without effect", error=str(error))  # noqa: TRY400 - the text says it all
            if self.on_change is not None:
                self.on_change(frozenset(), frozenset(user for user, _ in expired))


def check_name(kind: str, name: str) -> None:
    """Raise :class:`InvalidArgument` for a name of a user or token that is empty, too long, or has line breaks."""
    if not name:
        raise InvalidArgument(f"the name of a {kind} is empty; give one")
    if len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
        raise InvalidArgument(f"the name of a {kind} has more than {NAME_BYTES_MAX} bytes; give a shorter one")
    refuse_line_breaks(kind, name)


def _check_tags(tags: Sequence[str]) -> None:
    if len(tags) > TAGS_MAX:
        raise InvalidArgument(f"'tags' has {len(tags)} tags, {TAGS_MAX} are allowed")
    for tag in tags:
        check_name("tag", tag)


def _check_expression(kind: str, text: str) -> None:
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise InvalidArgument(f"'{kind}' has {len(text)} characters, {EXPRESSION_CHARACTERS_MAX} are allowed")
    try:
        LinearExpression(text)
    except ExpressionError as error:
        raise InvalidArgument(
            f"'{kind}' is not a regular expression that can be used: {error}; '.*' matches all, '' nothing"
        ) from error


def _administrators(users: Sequence[UserRecord]) -> list[str]:
    """Return the users that can administrate: a client certificate alone is no reason to rely on."""
    return [user.name for user in users if ADMINISTRATOR in user.tags and user.password_hash != NO_PASSWORD]
