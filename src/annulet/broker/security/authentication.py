"""Permission to connect, and further permissions: users with Argon2 passwords, and permissions as RabbitMQ has them.

A password check costs about 25 ms of CPU on purpose, always in a thread. The outcome of the latest checks is
remembered, so a client that reconnects in a loop costs microseconds. Each failed guess makes the next wait longer, see
``login_throttle``; a password that was right before never waits.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec
import structlog

from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security import password_hashes
from annulet.broker.security.file_users import FIRST_USER, declare_users
from annulet.broker.security.login_throttle import NAME_CHARACTERS_MAX, LoginThrottle
from annulet.broker.security.token_grants import AccessToken, TokenGrants, TokenRefused, looks_like_access_token
from annulet.broker.security.tokens import IMPLIED_BY, TokenScope, digest_of, is_token
from annulet.broker.settings.clock import system_clock
from annulet.broker.settings.scram_verifiers import (
    DIGESTS,
    ITERATIONS_LEAST,
    ScramError,
    ScramVerifier,
    decoy_verifier,
    derive_verifier,
    parse_verifier,
)
from annulet.broker.turns.ready_threads import ready_threads
from annulet.core.base.linear_expressions import Expression, UnusableExpression, stored_expression
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import read_table_content

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from annulet.broker.network.listening import PeerFacts
    from annulet.broker.security.access_tokens import AccessTokens
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.store.database.catalogue import Catalogue
    from annulet.store.database.definitions import PermissionRecord, TokenRecord, UserRecord

logger = structlog.get_logger(__name__)

PermissionKind = Literal["configure", "write", "read", "browse", "manage"]
PERMISSION_KINDS: Final[tuple[PermissionKind, ...]] = ("configure", "write", "read", "browse", "manage")
Patterns = dict[tuple[str, ...], dict[PermissionKind, Expression]]
"""The expressions of a permission, compiled, by their texts."""


REMEMBERED_MAX: Final = 1024
"""Password checks whose outcome is remembered, right and wrong ones each: about 200 KB together."""

CONCURRENT_CHECKS_MAX: Final = 2
"""Threads that check passwords: 12 MiB and one core each. They do nothing else: the C library keeps what a check has
freed for the thread that made it, so each thread of a larger pool would in time keep 12 MiB."""

VERDICTS_MAX: Final = 10_000
"""Remembered answers to "may this user do that to this name", about 2 MB; emptied when full."""

PASSWORD_BYTES_MAX: Final = 1024
"""A longer password is wrong without being hashed."""

NOTHING: Final = "^$"
"""How RabbitMQ reads an empty permission."""

DEFAULT_EXCHANGE_IN_PERMISSIONS: Final = "amq.default"
"""The name permissions know the default exchange by (RabbitMQ)."""

ADMINISTRATOR: Final = "administrator"
"""The tag that allows everything over HTTP."""

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
ANONYMOUS: Final = "ANONYMOUS"
EXTERNAL: Final = "EXTERNAL"
OAUTHBEARER: Final = "OAUTHBEARER"
XOAUTH2: Final = "XOAUTH2"

ACCESS_TOKEN: Final = "(access token)"  # noqa: S105 - a name
"""The name of an issuer's token where one of the broker's has a name."""

AMQP_0: Final = "amqp091"
"""The name of the protocols AMQP 0-x for :meth:`Authenticator.mechanisms`."""

MECHANISM_CHARACTERS: Final = 20
"""Of the name of a mechanism, which a peer chooses, so many are logged: as long as one may be (RFC 4422 §3.1)."""

USERS_NAMED_MAX: Final = 5
"""Names in one line of the log."""


class CredentialsError(Exception):
    """A SASL response is malformed, or names an unknown mechanism. The text names the defect."""


class User(msgspec.Struct, frozen=True):
    """An authenticated user. ``token``: the name of the token that it logged in with; ``scope``: what that leaves.

    ``grants``: of an access token, in place of permissions. ``expires_at``: its end, milliseconds since 1970; else 0.
    """

    name: str
    tags: frozenset[str] = frozenset()
    token: str = ""
    token_digest: str = ""
    scope: TokenScope | None = None
    grants: TokenGrants | None = None
    expires_at: int = 0


class KnownToken(msgspec.Struct, frozen=True):
    """A token as it is checked. ``expires_at``: milliseconds since 1970, 0 for never."""

    user: User
    expires_at: int


class AuthenticationStatistics(msgspec.Struct, frozen=True):
    """Logins since start."""

    accepted: int
    refused: int
    malformed: int  # of the refused: responses that are not what their mechanism prescribes
    unchecked: int  # of the refused: too many attempts of the peer's address were waiting
    delayed: int  # attempts that had to wait because others had failed
    hashed: int  # checks that computed a hash; the others were remembered


class Authenticator:
    """Users and permissions of one catalogue. Belongs to the event loop; only hashing leaves it.

    ``sleep`` (seconds) and ``clock`` (monotonic seconds) are for tests; ``now``: the broker's clock, for
    the end of tokens; ``hasher``: of the first user's password, and of the decoy; ``None``: the product's.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        configuration: BrokerConfiguration,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Clock = system_clock,
        hasher: PasswordHasher | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._loopback_users = frozenset(configuration.loopback_users)
        self._allowed_mechanisms = frozenset(configuration.sasl_mechanisms)
        self._hashes: dict[str, str] = {}  # password hash by user
        self._users: dict[str, User] = {}
        self._verifiers: dict[tuple[str, str], ScramVerifier] = {}  # by (mechanism, user)
        self._scram_offered: tuple[str, ...] = ()
        self._told_unusable: set[str] = set()  # permissions of which the log told that they match nothing
        self._permissions: dict[tuple[str, str], dict[PermissionKind, Expression]] = {}  # by (user, virtual host)
        self._compiled: Patterns = {}
        self._told_without: dict[str, list[str]] = {}  # by mechanism: the users that the log has named
        self._verdicts: dict[tuple[str, str, PermissionKind, str], bool] = {}
        self._key = secrets.token_bytes(32)  # makes remembered digests useless outside this process
        self._scram_key = catalogue.secret("scram-decoy")
        self._right: dict[bytes, None] = {}  # digests of user, password and hash; oldest first
        self._wrong: dict[bytes, None] = {}
        self._first_hash = ""
        self._made_hash: str  # of the first user when this start made it: nothing to be computed again
        self._anonymous = False  # the first user has the well-known password: a client without one may be that user
        self._first_verifiers: dict[tuple[str, str], ScramVerifier] = {}  # its own, as that password is known
        self._tokens: dict[str, KnownToken] = {}  # by digest
        self.access_tokens: AccessTokens | None = None  # of the issuer, if there is one
        self._now = now
        # unknown users cost as much as wrong passwords
        self._decoy = (hasher or password_hashes.HASHER).hash(secrets.token_hex(16))
        self._executor = ready_threads(CONCURRENT_CHECKS_MAX, "annulet-passwords")
        limits = configuration.limits
        self._throttle = LoginThrottle(
            limits.login_delay_first,
            min(limits.login_delay_most, configuration.handshake_timeout / 2),
            limits.max_login_attempts_waiting,
            clock=clock,
        )
        self._sleep = sleep
        self._log = LimitedLog(logger, clock=clock)
        self._accepted = 0
        self._refused = 0
        self._malformed = 0
        self._unchecked = 0
        self._delayed = 0
        self._hashed = 0
        self._made_hash = declare_users(
            catalogue,
            configuration.users,
            hasher,
            first=configuration.first_user,
            mechanisms=configuration.sasl_mechanisms,
        )
        self.reload()

    def statistics(self) -> AuthenticationStatistics:
        """Return the counters of this moment."""
        return AuthenticationStatistics(
            self._accepted, self._refused, self._malformed, self._unchecked, self._delayed, self._hashed
        )

    def reload(self) -> None:
        """Read users and permissions anew. Called after each change in the catalogue."""
        access = self._catalogue.access
        users = access.users()
        self._hashes = {record.name: record.password_hash for record in users}
        self._users = {record.name: User(record.name, frozenset(record.tags)) for record in users}
        self._know_first_user()
        self._verifiers = self._first_verifiers | {
            (verifier.mechanism, record.name): verifier for record in users for verifier in _verifiers_of(record)
        }
        self._offer_scram()
        former, self._compiled = self._compiled, {}
        self._permissions = {
            (record.user, record.virtual_host): self._patterns(record, former) for record in access.permissions()
        }
        self._tell_unusable()
        self._tokens = {
            record.digest: KnownToken(self._user_of(record), record.expires_at)
            for record in access.tokens()
            if record.user in self._users
        }
        self._verdicts.clear()

    def _patterns(self, record: PermissionRecord, former: Patterns) -> dict[PermissionKind, Expression]:
        """Return the compiled expressions of a record; those that were there before need no compiling."""
        key = tuple([getattr(record, kind) for kind in PERMISSION_KINDS])
        compiled = self._compiled.get(key) or former.get(key)
        if compiled is None:
            compiled = {
                kind: stored_expression(text or NOTHING) for kind, text in zip(PERMISSION_KINDS, key, strict=True)
            }
        self._compiled[key] = compiled
        return compiled

    def _tell_unusable(self) -> None:
        """Log each permission that cannot be used, once."""
        for text in self.unusable_permissions():
            if text not in self._told_unusable:
                self._told_unusable.add(text)
                logger.error("permission matches nothing", permission=text, remedy="write it anew without that")

    def unusable_permissions(self) -> list[str]:
        """Return which permissions an earlier version stored that match nothing in this one, with the reasons."""
        return [
            f"{kind} of user '{user}' in virtual host '{host}': {expression.reason}"
            for (user, host), patterns in self._permissions.items()
            for kind, expression in patterns.items()
            if isinstance(expression, UnusableExpression)
        ]

    def _user_of(self, record: TokenRecord) -> User:
        """Return the user of a token, with the tags that both have."""
        scope = msgspec.json.decode(record.scope, type=TokenScope)
        tags = self._users[record.user].tags & set(scope.tags)
        return User(record.user, tags, record.name, record.digest, scope)

    def current(self, user: User) -> User | None:
        """Return a user that logged in before as it is now; ``None`` when the user or its token is gone or expired."""
        if user.grants is not None:
            return user if user.expires_at > self._now() and user.name not in self._users else None
        if not user.token:
            known = self._users.get(user.name)
            return known if known is None or user.tags else User(user.name)
        token = self._tokens.get(user.token_digest)
        return token.user if token is not None and self._is_live(token) else None

    def login_mark(self, user: User) -> bytes:
        """Return a value that changes with the password of a user and tells nothing about it; empty for a token."""
        if user.token or user.grants is not None:
            return b""
        return hmac.digest(self._key, self._hashes.get(user.name, "").encode(), hashlib.sha256)

    def holds(self, user: User, mark: bytes) -> bool:
        """Whether a login still holds: neither user, token and tags nor the password, by its ``mark``, have changed."""
        return self.current(user) == user and self.login_mark(user) == mark

    def refusal(self, user: User, peer: PeerFacts) -> str:
        """Return why a user that has logged in may not use the broker from there; empty when it may."""
        return self._loopback_refusal(user.name, peer)

    def close(self) -> None:
        """End the threads; logins under way are cancelled, up to a hash that is being computed. No login may follow."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ authentication

    def mechanisms(self, peer: PeerFacts, protocol: str) -> tuple[str, ...]:
        """Return the SASL mechanisms this peer is offered, in the order of preference. ``protocol``: e.g. ``amqp10``.

        SCRAM only when every user was given a verifier: clients take it when they see it, and some users could not log
        in. No login changes that: a client that connects again finds the mechanisms that it found before.
        Nor with an issuer of access tokens, which take the place of a password in PLAIN only.
        AMQP 0-x gets PLAIN first, which its clients look for, and no ANONYMOUS, which they do not know.
        """
        issuer = self.access_tokens is not None
        offered = [*([EXTERNAL] if peer.certificate_name else []), *(() if issuer else self._scram_offered)]
        if protocol == AMQP_0:
            offered = [PLAIN, AMQPLAIN, *offered]
        else:
            offered += [PLAIN, OAUTHBEARER, XOAUTH2] if issuer else [PLAIN]
            if peer.is_loopback and self._anonymous:
                offered.append(ANONYMOUS)
        return tuple(name for name in offered if name in self._allowed_mechanisms)

    async def login(self, name: str, password: str, *, peer: PeerFacts, mechanism: str = PLAIN) -> User | None:
        """Return the user when name and password are right and may be used from there; the log says why not.

        ``password`` may be a token of the user; with a token the name may be empty. It may be an access token of the
        issuer, which names its user by itself: the name is ignored then.

        Takes about 25 ms of a thread when this password was not checked lately, and seconds of waiting after failures.
        Cancellation leaves nothing behind but a thread that finishes.
        """
        if is_token(password):
            return await self._login_with_token(name, password, peer=peer, mechanism=mechanism)
        if self.access_tokens is not None and looks_like_access_token(password):
            return await self._login_with_access_token(self.access_tokens, name, password, peer, mechanism)
        digest, known_hash = self._digest(name, password)
        if self._remembered(digest, password) is True:
            return await self.conclude(name, right=True, peer=peer, mechanism=mechanism)
        if not await self.wait_turn(name, peer=peer, mechanism=mechanism):
            return None
        try:
            verdict = self._remembered(digest, password)
            if verdict is None:
                loop = asyncio.get_running_loop()
                verdict = await loop.run_in_executor(self._executor, self._verify, known_hash, password)
                self._remember(digest, verdict)
            still = self._hashes.get(name) == known_hash  # it may have been changed while it was checked
            return await self.conclude(name, right=verdict and still, peer=peer, mechanism=mechanism)
        finally:
            self.end_turn(peer)

    async def _login_with_token(self, name: str, text: str, *, peer: PeerFacts, mechanism: str) -> User | None:
        """As :meth:`login`, with a token in place of the password. A wrong one waits as a wrong password does."""
        token = self._tokens.get(digest_of(text))
        if token is not None and (token.user.name == name or not name) and self._is_live(token):
            known = await self.conclude(token.user.name, right=True, peer=peer, mechanism=mechanism)
            return None if known is None else token.user
        if not await self.wait_turn(name, peer=peer, mechanism=mechanism):
            return None
        try:
            return await self.conclude(name, right=False, peer=peer, mechanism=mechanism)
        finally:
            self.end_turn(peer)

    async def _login_with_access_token(
        self, tokens: AccessTokens, name: str, text: str, peer: PeerFacts, mechanism: str
    ) -> User | None:
        """As :meth:`login`, with an access token of the issuer. One that is remembered as right does not wait."""
        token = tokens.remembered(text)
        if token is not None:
            return await self._admit_bearer(token, peer, mechanism)
        if not await self.wait_turn(name, peer=peer, mechanism=mechanism):
            return None
        try:
            return await self._admit_bearer(await tokens.check(text), peer, mechanism)
        except TokenRefused as error:
            return await self._refuse(name, str(error), peer, mechanism, guess=error.guess)
        finally:
            self.end_turn(peer)

    async def _admit_bearer(self, token: AccessToken, peer: PeerFacts, mechanism: str) -> User | None:
        """Return the user of a right token; its name must be free, and the user may be one of this machine only."""
        if token.user in self._users:
            reason = (
                f"the access token names {token.user!r}, who is a user of this broker; take another oidc.user_claim"
            )
            return await self._refuse(token.user, reason, peer, mechanism, guess=False)
        reason = self._loopback_refusal(token.user, peer)
        if reason:
            return await self._refuse(token.user, reason, peer, mechanism)
        self._accepted += 1
        self._throttle.succeeded(peer.address, token.user)
        return self.bearer(token)

    @staticmethod
    def bearer(token: AccessToken) -> User:
        """Return the user of a right token."""
        grants = token.grants
        return User(token.user, grants.tags, ACCESS_TOKEN, token.digest, grants=grants, expires_at=token.expires_at)

    def _is_live(self, token: KnownToken) -> bool:
        return not token.expires_at or token.expires_at > self._now()

    def login_external(self, authorization: bytes, *, peer: PeerFacts) -> User | None:
        """Return the user a verified client certificate names (RFC 4422 appendix A).

        ``authorization`` is the identity the peer asks for: nothing, or the certificate's.
        """
        name = peer.certificate_name
        if authorization not in {b"", name.encode()}:
            self.note_malformed(peer, EXTERNAL, f"asks for another identity than its certificate's, {name!r}")
            return None
        user = self._users.get(name)
        reason = self._refusal(name, right=user is not None, peer=peer)
        if reason:
            self._note_refused(name, peer, EXTERNAL, reason)
            return None
        self._accepted += 1
        return user

    def login_anonymous(self, *, peer: PeerFacts) -> User | None:
        """Return the first user without its tags (RFC 4505), while its password is the well-known one.

        The permissions in virtual hosts are the first user's; the rights of a tag require a password.
        """
        reason = self._refusal(FIRST_USER, right=self._anonymous, peer=peer)
        if not reason and not peer.is_loopback:
            reason = "anonymous peers may connect from this machine only"
        if reason:
            self._note_refused(FIRST_USER, peer, ANONYMOUS, reason)
            return None
        self._accepted += 1
        return User(FIRST_USER)

    def scram_verifier(self, mechanism: str, name: str) -> ScramVerifier:
        """Return a user's verifier; for others a decoy that no password fits, with the same salt each time."""
        verifier = self._verifiers.get((mechanism, name))
        return decoy_verifier(mechanism, name, self._scram_key) if verifier is None else verifier

    async def wait_turn(self, name: str, *, peer: PeerFacts, mechanism: str) -> bool:
        """Wait as long as failures on record demand. ``False``: refused; else :meth:`end_turn` has to follow."""
        if not self._throttle.enter(peer.address):
            self._unchecked += 1
            self._note_refused(name, peer, mechanism, "too many attempts of this address are waiting; not checked")
            return False
        try:
            delay = self._throttle.delay(peer.address, name)
            if delay:
                self._delayed += 1
                await self._sleep(delay)
        except BaseException:
            self._throttle.leave(peer.address)
            raise
        return True

    def end_turn(self, peer: PeerFacts) -> None:
        """End what :meth:`wait_turn` began."""
        self._throttle.leave(peer.address)

    async def conclude(self, name: str, *, right: bool, peer: PeerFacts, mechanism: str) -> User | None:
        """Count the outcome of a check and return the user; a failure is noted, logged and waits once more."""
        reason = self._refusal(name, right=right, peer=peer)
        if not reason:
            self._accepted += 1
            self._throttle.succeeded(peer.address, name)
            return self._users[name]
        return await self._refuse(name, reason, peer, mechanism)

    async def _refuse(
        self, name: str, reason: str, peer: PeerFacts, mechanism: str, *, guess: bool = True
    ) -> User | None:
        """Count and log a failure; a possible guess waits once more. Returns nothing."""
        self._note_refused(name, peer, mechanism, reason)
        if guess:
            before = self._throttle.delay(peer.address, name)
            after = self._throttle.failed(peer.address, name)
            if after > before:
                await self._sleep(after - before)
        return None

    def note_malformed(self, peer: PeerFacts, mechanism: str, reason: str) -> None:
        """Count and log a response that is not what its mechanism prescribes."""
        self._malformed += 1
        self._note_refused("", peer, mechanism, reason)

    async def hash_password(self, password: str) -> tuple[str, str]:
        """Return the hash of a new password, and its SCRAM verifiers, computed in a thread.

        Verifiers for the mechanisms that the configuration allows, so that the mechanisms go on to be offered.
        """
        wanted = [name for name in DIGESTS if name in self._allowed_mechanisms]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _hash_password, password, wanted)

    # ------------------------------------------------------------------ authorisation

    def is_administrator(self, user: User) -> bool:
        """Return whether a user that logged in as an administrator still is one."""
        current = self.current(user)
        return current is not None and ADMINISTRATOR in current.tags

    @property
    def attempts_waiting(self) -> int:
        """How many logins are under way, those included that wait after a failure."""
        return self._throttle.waiting

    @property
    def anonymous_user(self) -> str:
        """The user that a peer of this machine is without credentials; empty when there is none."""
        return FIRST_USER if self._anonymous else ""

    def may_enter(self, user: str, virtual_host: str) -> bool:
        """Whether the user has any permission entry for a virtual host (RabbitMQ's rule for connection.open)."""
        return (user, virtual_host) in self._permissions

    def admits(self, user: User | None, virtual_host: str) -> bool:
        """As :meth:`may_enter`, within the scope of the token that the user logged in with; ``None``: no user has."""
        if user is not None and user.grants is not None:
            return user.grants.enters(virtual_host)
        if user is None or not self.may_enter(user.name, virtual_host):
            return False
        return user.scope is None or user.scope.enters(virtual_host)

    def allowed(self, user: str, virtual_host: str, kind: PermissionKind, name: str) -> bool:
        """Whether the user may configure, write to, read, browse or manage the exchange or queue ``name``.

        To read is to browse, and to configure is to manage (:data:`IMPLIED_BY`).

        The expression is searched, not matched whole, as in RabbitMQ: anchor it with ``^`` and ``$``.
        """
        question = (user, virtual_host, kind, name)
        verdict = self._verdicts.get(question)
        if verdict is None:
            patterns = self._permissions.get((user, virtual_host))
            subject = name or DEFAULT_EXCHANGE_IN_PERMISSIONS
            verdict = patterns is not None and patterns[kind].search(subject)
            implying = IMPLIED_BY.get(kind)
            if not verdict and implying is not None:
                verdict = self.allowed(user, virtual_host, cast("PermissionKind", implying), name)
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[question] = verdict
        return verdict

    # ------------------------------------------------------------------ inside

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
        """Compute the hash. Touches nothing of the loop's: runs in a thread too.

        A check of an imported hash takes as long as others, so that its time tells nothing.
        """
        octets = password.encode(errors="surrogatepass")
        try:
            if known_hash == password_hashes.NO_PASSWORD or password_hashes.is_imported(known_hash):
                password_hashes.verify(self._decoy, octets)
            return password_hashes.verify(known_hash, octets)
        except password_hashes.UnusableHashError as error:
            logger.warning("stored password hash cannot be used", error=str(error), remedy="set the password anew")
            return False

    def _refusal(self, name: str, *, right: bool, peer: PeerFacts) -> str:
        """Return why a user may not come in, or ``""``."""
        if not right or name not in self._users:
            return "user name or password is wrong"
        return self._loopback_refusal(name, peer)

    def _loopback_refusal(self, name: str, peer: PeerFacts) -> str:
        if name in self._loopback_users and not peer.is_loopback:
            return "this user may connect from this machine only (loopback_users)"
        return ""

    def _note_refused(self, name: str, peer: PeerFacts, mechanism: str, reason: str) -> None:
        self._refused += 1
        self._log.warning(
            "login refused",
            user=name[:NAME_CHARACTERS_MAX],
            peer=str(peer),
            mechanism=mechanism[:MECHANISM_CHARACTERS],
            reason=reason,
        )

    # ------------------------------------------------------------------ SCRAM

    def _offer_scram(self) -> None:
        """Offer each SCRAM mechanism that every user can use."""
        offered = []
        for mechanism in reversed(DIGESTS):  # the strongest first
            without = [
                name for name, known in self._hashes.items() if known and (mechanism, name) not in self._verifiers
            ]
            if not without:
                offered.append(mechanism)
            elif mechanism in self._allowed_mechanisms and without != self._told_without.get(mechanism):
                self._told_without[mechanism] = without
                logger.info(
                    "not offered while users have no verifier",
                    mechanism=mechanism,
                    users=sorted(without)[:USERS_NAMED_MAX],
                    count=len(without),
                    remedy="give them the verifiers that `annulet password-hash --scram` prints",
                )
        self._scram_offered = tuple(offered)

    def _know_first_user(self) -> None:
        """Look, when its hash has changed, whether the first user has the well-known password.

        Then it has verifiers without being given any: with few iterations, as there is nothing to guess.
        """
        first = self._hashes.get(FIRST_USER, "")
        if first == self._first_hash:
            return
        self._first_hash = first
        cheap = password_hashes.is_imported(first) or password_hashes.has_own_cost(first)  # it is checked on the loop
        self._anonymous = first == self._made_hash or (cheap and self._verify(first, FIRST_USER))
        self._anonymous &= bool(first)
        wanted = [name for name in DIGESTS if name in self._allowed_mechanisms] if self._anonymous else []
        self._first_verifiers = {(name, FIRST_USER): _verifier_of_first_user(name) for name in wanted}


@functools.cache
def _verifier_of_first_user(mechanism: str) -> ScramVerifier:
    """Return a verifier of the well-known password, one for all brokers of a process: it takes 3 ms."""
    return derive_verifier(mechanism, FIRST_USER, iterations=ITERATIONS_LEAST)


def _hash_password(password: str, mechanisms: list[str]) -> tuple[str, str]:
    known_hash = password_hashes.HASHER.hash(password.encode(errors="surrogatepass"))
    return known_hash, " ".join(str(derive_verifier(name, password)) for name in mechanisms)


def _verifiers_of(record: UserRecord) -> list[ScramVerifier]:
    """Return the verifiers of a record; one that cannot be used is left out, with a line in the log."""
    verifiers = []
    for text in record.scram.split():
        try:
            verifiers.append(parse_verifier(text))
        except ScramError as error:
            logger.warning("stored SCRAM verifier cannot be used", user=record.name, error=str(error))
    return verifiers


def parse_response(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return user name and password of a SASL response. Raises :class:`CredentialsError`.

    ``PLAIN`` is RFC 4616 (the authorisation identity is ignored, as RabbitMQ does); ``AMQPLAIN`` a field table with
    LOGIN and PASSWORD (AMQP 0-8 and RabbitMQ).
    """
    if mechanism == "PLAIN":
        parts = response.split(b"\x00")
        if len(parts) != 3:
            raise CredentialsError(f"PLAIN response has {len(parts)} fields, 3 are prescribed (RFC 4616 §2)")
        return _text(parts[1], "user name"), _text(parts[2], "password")
    if mechanism in {OAUTHBEARER, XOAUTH2}:
        return _bearer_response(mechanism, response)
    if mechanism == "AMQPLAIN":
        try:
            table = read_table_content(response)
        except RemoteProtocolError as error:
            raise CredentialsError(f"AMQPLAIN response is not a field table: {error.text}") from error
        login, password = table.get("LOGIN"), table.get("PASSWORD")
        if not isinstance(login, str) or not isinstance(password, str):
            raise CredentialsError("AMQPLAIN response needs the text fields LOGIN and PASSWORD")
        return login, password
    raise CredentialsError(f"SASL mechanism {mechanism!r} has no name and password")


def _bearer_response(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return user name and token of ``OAUTHBEARER`` (RFC 7628 §3.1) or ``XOAUTH2`` (Google): pairs between 0x01."""
    fields = _text(response, f"{mechanism} response").split("\x01")
    pairs = dict([field.partition("=")[::2] for field in fields if "=" in field])
    scheme, _, token = pairs.get("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise CredentialsError(f"{mechanism} response has no field 'auth=Bearer TOKEN' between octets 0x01 (RFC 7628)")
    return pairs.get("user", ""), token.strip()


def _text(octets: bytes, what: str) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{what} is not UTF-8") from error
