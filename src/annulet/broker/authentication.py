"""Who may connect, and what they may do: users with Argon2 passwords, and permissions as RabbitMQ has them.

A password check costs about 25 ms of CPU on purpose. :meth:`Authenticator.check_async` spends it in a thread;
:meth:`Authenticator.check`, which protocol engines need, spends it on the caller's thread, once: the outcome of the
latest checks is remembered, so a client that reconnects in a loop, rightly or wrongly, costs microseconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final, Literal

import argon2
import msgspec
import structlog

from annulet.broker.listening import is_loopback
from annulet.wire.amqp091.errors import RemoteProtocolError
from annulet.wire.amqp091.values import read_table_content

if TYPE_CHECKING:
    from annulet.broker.configuration import BrokerConfiguration
    from annulet.store.catalogue import Catalogue

logger = structlog.get_logger(__name__)

PermissionKind = Literal["configure", "write", "read"]

HASHER: Final = argon2.PasswordHasher(time_cost=3, memory_cost=12 * 1024, parallelism=1)
"""Argon2id, 12 MiB, 3 passes: one of the parameter sets OWASP holds equivalent, and the one that blocks a loop least
(about 25 ms). Hashes made with other parameters are accepted; the parameters are part of a hash."""

REMEMBERED_MAX: Final = 1024
"""Password checks whose outcome is remembered, right and wrong ones each: about 200 KB together."""

CONCURRENT_CHECKS_MAX: Final = 2
"""Threads that check passwords at once: 12 MiB and one core each."""

VERDICTS_MAX: Final = 10_000
"""Remembered answers to "may this user do that to this name", about 2 MB; emptied when full."""

PASSWORD_BYTES_MAX: Final = 1024
"""A longer password is wrong without being hashed."""

FIRST_USER: Final = "guest"
"""Made with this password at the first start when no user is declared; from loopback only (RabbitMQ does the same)."""

TAGS_OF_FIRST_USER: Final = ("administrator",)
EVERYTHING: Final = ".*"
NOTHING: Final = "^$"
"""How RabbitMQ reads an empty permission."""

DEFAULT_EXCHANGE_IN_PERMISSIONS: Final = "amq.default"
"""The name permissions know the default exchange by (RabbitMQ)."""

MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "ANONYMOUS")


class CredentialsError(Exception):
    """A SASL response is malformed, or names an unknown mechanism. The text says what is wrong."""


class User(msgspec.Struct, frozen=True):
    """An authenticated user."""

    name: str
    tags: frozenset[str] = frozenset()


class AuthenticationStatistics(msgspec.Struct, frozen=True):
    """Logins since start."""

    accepted: int
    refused: int
    malformed: int  # of the refused: responses that are not what their mechanism prescribes
    hashed: int  # checks that computed a hash; the others were remembered


class Authenticator:
    """Users and permissions of one catalogue. Belongs to the event loop; only hashing leaves it."""

    def __init__(self, catalogue: Catalogue, configuration: BrokerConfiguration) -> None:
        self._catalogue = catalogue
        self._loopback_users = frozenset(configuration.loopback_users)
        self._hashes: dict[str, str] = {}  # password hash by user
        self._users: dict[str, User] = {}
        self._permissions: dict[tuple[str, str], dict[PermissionKind, re.Pattern[str]]] = {}  # by (user, virtual host)
        self._verdicts: dict[tuple[str, str, PermissionKind, str], bool] = {}
        self._key = secrets.token_bytes(32)  # makes remembered digests useless outside this process
        self._right: dict[bytes, None] = {}  # digests of user, password and hash; oldest first
        self._wrong: dict[bytes, None] = {}
        self._decoy = HASHER.hash(secrets.token_hex(16))  # unknown users cost as much as wrong passwords
        self._threads = asyncio.Semaphore(CONCURRENT_CHECKS_MAX)
        self._accepted = 0
        self._refused = 0
        self._malformed = 0
        self._hashed = 0
        self._declare(configuration)
        self.reload()

    def statistics(self) -> AuthenticationStatistics:
        """Return the counters of this moment."""
        return AuthenticationStatistics(self._accepted, self._refused, self._malformed, self._hashed)

    def reload(self) -> None:
        """Read users and permissions anew. Called by whoever changed them in the catalogue."""
        users = self._catalogue.users()
        self._hashes = {record.name: record.password_hash for record in users}
        self._users = {record.name: User(record.name, frozenset(record.tags)) for record in users}
        self._permissions = {
            (record.user, record.virtual_host): {
                "configure": re.compile(record.configure or NOTHING),
                "write": re.compile(record.write or NOTHING),
                "read": re.compile(record.read or NOTHING),
            }
            for record in self._catalogue.permissions()
        }
        self._verdicts.clear()

    # ------------------------------------------------------------------ authentication

    def authenticate(self, mechanism: str, response: bytes, peer_address: str) -> User | None:
        """Check a SASL response. Returns ``None`` when it is refused, malformed or of an unknown mechanism."""
        try:
            name, password = parse_response(mechanism, response)
        except CredentialsError as error:
            self._malformed += 1
            self._refused += 1
            logger.warning("login refused", mechanism=mechanism, peer=peer_address, reason=str(error))
            return None
        return self.check(name, password, peer_is_loopback=is_loopback(peer_address), peer=peer_address)

    def check(self, name: str, password: str, *, peer_is_loopback: bool, peer: str = "") -> User | None:
        """Return the user when name and password are right and may be used from there.

        Holds the caller for about 25 ms when this password was not checked lately.
        """
        digest, known_hash = self._digest(name, password)
        verdict = self._remembered(digest, password)
        if verdict is None:
            verdict = self._verify(known_hash, password)
            self._remember(digest, verdict)
        return self._conclude(name, peer_is_loopback=peer_is_loopback, peer=peer, verdict=verdict)

    async def check_async(self, name: str, password: str, *, peer_is_loopback: bool, peer: str = "") -> User | None:
        """:meth:`check` without holding the loop. Cancellation leaves nothing behind but a thread that finishes."""
        digest, known_hash = self._digest(name, password)
        verdict = self._remembered(digest, password)
        if verdict is None:
            async with self._threads:
                verdict = await asyncio.to_thread(self._verify, known_hash, password)
            self._remember(digest, verdict)
        return self._conclude(name, peer_is_loopback=peer_is_loopback, peer=peer, verdict=verdict)

    # ------------------------------------------------------------------ authorisation

    def may_enter(self, user: str, virtual_host: str) -> bool:
        """Whether the user has any permission entry for a virtual host (RabbitMQ's rule for connection.open)."""
        return (user, virtual_host) in self._permissions

    def allowed(self, user: str, virtual_host: str, kind: PermissionKind, name: str) -> bool:
        """Whether the user may configure, write to or read the exchange or queue ``name``.

        The expression is searched, not matched whole, as in RabbitMQ: anchor it with ``^`` and ``$``.
        """
        question = (user, virtual_host, kind, name)
        verdict = self._verdicts.get(question)
        if verdict is None:
            patterns = self._permissions.get((user, virtual_host))
            subject = name or DEFAULT_EXCHANGE_IN_PERMISSIONS
            verdict = patterns is not None and patterns[kind].search(subject) is not None
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[question] = verdict
        return verdict

    # ------------------------------------------------------------------ inside

    def _declare(self, configuration: BrokerConfiguration) -> None:
        """Write the configuration's users to the catalogue; make the first user when there is none at all."""
        catalogue = self._catalogue
        with catalogue.transaction():
            for name, user in configuration.users.items():
                catalogue.set_user(name, user.password_hash, user.tags)
                for virtual_host, permission in user.permissions.items():
                    self._grant(name, virtual_host, permission.configure, permission.write, permission.read)
            if not catalogue.users():
                catalogue.set_user(FIRST_USER, HASHER.hash(FIRST_USER), TAGS_OF_FIRST_USER)
                self._grant(FIRST_USER, "/", EVERYTHING, EVERYTHING, EVERYTHING)

    def _grant(self, user: str, virtual_host: str, configure: str, write: str, read: str) -> None:
        """Give permissions; a virtual host they name exists from then on."""
        if virtual_host not in self._catalogue.virtual_hosts():
            self._catalogue.add_virtual_host(virtual_host)
        self._catalogue.set_permission(user, virtual_host, configure, write, read)

    def _digest(self, name: str, password: str) -> tuple[bytes, str]:
        """Return what a check is remembered under, and the hash to check against (a decoy for unknown users).

        The stored hash is part of the digest, so a changed password is a new question.
        """
        known_hash = self._hashes.get(name, self._decoy)
        fields = (name.encode(errors="surrogatepass"), password.encode(errors="surrogatepass"), known_hash.encode())
        text = b"".join(len(field).to_bytes(8, "big") + field for field in fields)
        return hmac.digest(self._key, text, hashlib.sha256), known_hash

    def _remembered(self, digest: bytes, password: str) -> bool | None:
        if digest in self._right:
            return True
        if digest in self._wrong or len(password.encode(errors="surrogatepass")) > PASSWORD_BYTES_MAX:
            return False
        return None

    def _remember(self, digest: bytes, verdict: bool) -> None:
        self._hashed += 1
        memory = self._right if verdict else self._wrong
        memory[digest] = None
        if len(memory) > REMEMBERED_MAX:
            del memory[next(iter(memory))]

    def _verify(self, known_hash: str, password: str) -> bool:
        """Compute the hash. Touches nothing of the loop's: runs in a thread too."""
        try:
            return HASHER.verify(known_hash, password.encode(errors="surrogatepass"))
        except argon2.exceptions.VerifyMismatchError:
            return False
        except (argon2.exceptions.InvalidHashError, argon2.exceptions.VerificationError) as error:
            logger.warning("stored password hash cannot be used", error=str(error), remedy="set the password anew")
            return False

    def _conclude(self, name: str, *, peer_is_loopback: bool, peer: str, verdict: bool) -> User | None:
        user = self._users.get(name)
        if not verdict or user is None:
            reason = "user name or password is wrong"
        elif name in self._loopback_users and not peer_is_loopback:
            reason = "this user may connect from this machine only (loopback_users)"
        else:
            self._accepted += 1
            return user
        self._refused += 1
        logger.warning("login refused", user=name, peer=peer, reason=reason)
        return None


def parse_response(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return user name and password of a SASL response. Raises :class:`CredentialsError`.

    ``PLAIN`` is RFC 4616 (the authorisation identity is ignored, as RabbitMQ does); ``AMQPLAIN`` a field table with
    LOGIN and PASSWORD (AMQP 0-8 and RabbitMQ); ``ANONYMOUS`` (RFC 4505) is the first user with its first password.
    """
    if mechanism == "PLAIN":
        parts = response.split(b"\x00")
        if len(parts) != 3:
            raise CredentialsError(f"PLAIN response has {len(parts)} fields, 3 are prescribed (RFC 4616 §2)")
        return _text(parts[1], "user name"), _text(parts[2], "password")
    if mechanism == "AMQPLAIN":
        try:
            table = read_table_content(response)
        except RemoteProtocolError as error:
            raise CredentialsError(f"AMQPLAIN response is not a field table: {error.text}") from error
        login, password = table.get("LOGIN"), table.get("PASSWORD")
        if not isinstance(login, str) or not isinstance(password, str):
            raise CredentialsError("AMQPLAIN response needs the text fields LOGIN and PASSWORD")
        return login, password
    if mechanism == "ANONYMOUS":
        return FIRST_USER, FIRST_USER
    raise CredentialsError(f"unknown SASL mechanism {mechanism!r}; known: {' '.join(MECHANISMS)}")


def _text(octets: bytes, what: str) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{what} is not UTF-8") from error
