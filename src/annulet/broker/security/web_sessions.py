"""Sessions of the web console: a sign-in begins one, and a cookie names it. They are in memory only.

The text of a cookie is random and is kept as a digest. A session is worth no more than the login that began it: it ends
when its user or token is gone, when the user's tags or password have changed, and after a time without use or in all.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.network.listening import PeerFacts
    from annulet.broker.security.authentication import Authenticator, User
    from annulet.broker.settings.clock import Clock

SESSIONS_MAX: Final = 1000
"""Sessions of all users, about 1 KB each: 1 MB. Above it the one that was unused for longest ends."""

SESSIONS_PER_USER_MAX: Final = 10
"""Browsers of one person. A further sign-in ends the user's session that was unused for longest: other browsers
never keep a user out."""

SESSION_IDLE_SECONDS: Final = 30 * 60
"""A browser that was left alone; an open page uses its session once a second."""

SESSION_SECONDS: Final = 12 * 3600
"""The longest life, however much it is used: a working day."""

SECRET_BYTES: Final = 32
"""Random octets of a cookie, and of the text that changes have to repeat."""


@dataclass(slots=True)
class WebSession:
    """One session. ``host``: the ``Host`` that it was begun with; times are milliseconds since 1970."""

    key: bytes
    user: User
    password_mark: bytes
    host: str
    csrf: str
    begun_at: int
    used_at: int

    def is_over(self, now: int) -> bool:
        """Return whether its time is over. A clock that was set far back ends it too."""
        idle, age = abs(now - self.used_at), abs(now - self.begun_at)
        return idle > SESSION_IDLE_SECONDS * 1000 or age > SESSION_SECONDS * 1000

    def proves(self, csrf: str) -> bool:
        """Return whether a text is the one that changes have to repeat."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode(errors="surrogatepass"))


class WebSessions:
    """All sessions of one broker, the longest unused first. Belongs to the event loop."""

    def __init__(self, authenticator: Authenticator, clock: Clock) -> None:
        self.begun = 0
        self.displaced = 0  # by later ones, because of a bound
        self.revoked = 0  # because of a change of their user, or of its token
        self.expired = 0
        self._authenticator = authenticator
        self._clock = clock
        self._sessions: dict[bytes, WebSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, user: User, host: str) -> tuple[str, WebSession]:
        """Begin a session of a user that has just logged in; return the text of its cookie too."""
        now = self._clock()
        self._forget_expired(now)
        own = [session for session in self._sessions.values() if session.user.name == user.name]
        if len(own) >= SESSIONS_PER_USER_MAX:
            self._displace(own[0])
        elif len(self._sessions) >= SESSIONS_MAX:
            self._displace(next(iter(self._sessions.values())))
        text = secrets.token_urlsafe(SECRET_BYTES)
        mark = self._authenticator.login_mark(user)
        session = WebSession(_key(text), user, mark, host, secrets.token_urlsafe(SECRET_BYTES), now, now)
        self._sessions[session.key] = session
        self.begun += 1
        return text, session

    def find(self, text: str, host: str, peer: PeerFacts) -> WebSession | None:
        """Return the session of a cookie, which counts as used now; ``None`` when there is none for this peer.

        A name that was pointed at this machine is another ``host``, and gets nothing.
        """
        session = self._sessions.get(_key(text))
        if session is None or session.host != host or not self.use(session):
            return None
        return None if self._authenticator.refusal(session.user, peer) else session

    def use(self, session: WebSession) -> bool:
        """Note that a session is used now. ``False``: it has ended."""
        if not self.is_live(session):
            return False
        session.used_at = self._clock()
        self._sessions[session.key] = self._sessions.pop(session.key)
        return True

    def is_live(self, session: WebSession) -> bool:
        """Return whether a session goes on. One whose time is over, or whose user has changed, ends here."""
        if session.key not in self._sessions:
            return False
        if session.is_over(self._clock()):
            self.expired += 1
        elif not self._authenticator.holds(session.user, session.password_mark):
            self.revoked += 1
        else:
            return True
        self.end(session)
        return False

    def end(self, session: WebSession) -> None:
        """End a session. Doing so again is harmless."""
        self._sessions.pop(session.key, None)

    def end_text(self, text: str) -> None:
        """End the session of a cookie, if it is one."""
        self._sessions.pop(_key(text), None)

    def access_changed(self, is_gone: Callable[[User], bool], _reason: str) -> None:
        """End the sessions of users and tokens that are gone: a listener of the revocation."""
        for session in [session for session in self._sessions.values() if is_gone(session.user)]:
            self.revoked += 1
            self.end(session)

    def _displace(self, session: WebSession) -> None:
        self.displaced += 1
        self.end(session)

    def _forget_expired(self, now: int) -> None:
        """End the sessions whose time is over: no request has come that would have ended them."""
        for session in [session for session in self._sessions.values() if session.is_over(now)]:
            self.expired += 1
            self.end(session)


def _key(text: str) -> bytes:
    """Return what a session is found by: looking it up tells nothing about other texts."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
