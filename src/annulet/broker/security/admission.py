"""How many may come in: connections in all, of one peer address, of one user, and those that are not logged in yet.

Used by the listeners of all messaging protocols, in this order for each connection::

    reason = admission.may_connect(peer)     # counts the connection when it answers ""
    reason = admission.may_open(user, peer, host)  # after the login; counts it to the user when it answers ""
    admission.closed(peer, user, host)             # once, when the socket is gone; user "" without may_open's ""

A connection that ``may_connect`` refused is not counted, and ``closed`` is not called for it. So that it can learn why
in its own protocol, it may be served up to that error when :meth:`Admission.may_explain` allows it, for at most
:data:`EXPLANATION_SECONDS`; else it is cut.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.network.listening import site_of
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security.given_limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, GivenLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from annulet.broker.network.listening import PeerFacts
    from annulet.broker.settings.limits import Limits

EXPLANATION_SECONDS: Final = 2.0
"""How long a refused peer may take to get so far that it can be told why."""

EXPLANATIONS_PER_SECOND: Final = 50
"""Refused peers that are told why; further ones are cut. With their time this bounds them to 100 connections."""

LIMIT_CONNECTIONS: Final = "max_connections"
LIMIT_HANDSHAKES: Final = "max_handshakes"
LIMIT_ADDRESS_HANDSHAKES: Final = "max_handshakes_per_address"
LIMIT_ADDRESS: Final = "max_connections_per_address"
LIMIT_USER: Final = "max_connections_per_user"
LIMIT_GIVEN: Final = "given_limits"
"""Refusals by limits that operators gave to users and virtual hosts at run time."""
LIMIT_HTTP: Final = "http_connections_max"
LIMIT_WEB_SOCKETS: Final = "web_sockets_max"
LIMIT_STRANGERS: Final = "web_socket_strangers_per_address_max"
COUNTED_LIMITS: Final = (
    LIMIT_CONNECTIONS,
    LIMIT_HANDSHAKES,
    LIMIT_ADDRESS_HANDSHAKES,
    LIMIT_ADDRESS,
    LIMIT_USER,
    LIMIT_GIVEN,
    LIMIT_HTTP,
    LIMIT_WEB_SOCKETS,
    LIMIT_STRANGERS,
)

SETTINGS_OF_LIMITS: Final = {
    "max_frame_size": "frame_max",
    "max_message_size": "max_message_bytes",
    "max_body_bytes": "max_message_bytes",
    "handle_max": "max_links_per_session",
    "max_headers": "stomp_headers_max",
}
"""The names of some limits in the engines, which follow the standards, and those of the settings."""


class Admission:
    """Counts connections against the limits. Belongs to the event loop."""

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        when_refused: Callable[[str], None] | None = None,
        given: GivenLimits | None = None,
    ) -> None:
        self.limits = limits
        self.given = GivenLimits() if given is None else given
        self._when_refused = when_refused  # told the limit's name, where another one counts for all
        self.connections = 0
        self.handshakes = 0  # of the connections, those not logged in; and TLS hand-shakes under way
        self.http_connections = 0  # counted by the slots of the HTTP listeners
        self.handshakes_timed_out = 0
        self.idle_closed = 0
        self.silent_closed = 0
        self.refused: Counter[str] = Counter(dict.fromkeys(COUNTED_LIMITS, 0))  # by the limit's name
        self.limit_hits: Counter[tuple[str, str]] = Counter()  # of ended connections, by protocol and limit
        self.by_user: Counter[str] = Counter()
        self.by_host: Counter[str] = Counter()  # by virtual host
        self.channels_by_user: Counter[str] = Counter()  # channels, sessions of AMQP 1.0, STOMP connections
        self.by_address: Counter[str] = Counter()
        self.handshakes_by_address: Counter[str] = Counter()
        self.web_socket_strangers: Counter[str] = Counter()  # WebSockets that are not logged in, by address
        self._clock = clock
        self._explained_at = 0.0  # start of the second that is counted
        self._explained = 0
        self._log = LimitedLog(structlog.get_logger(__name__), clock=clock)

    def may_connect(self, peer: PeerFacts) -> str:
        """Count a new connection and return ``""``, or return why it may not come in."""
        limits = self.limits
        if self.connections >= limits.max_connections:
            return self._refuse(LIMIT_CONNECTIONS, f"the broker has {limits.max_connections} connections", peer)
        refusal = self._no_handshake(peer)
        if refusal:
            return refusal
        most = limits.max_connections_per_address
        site = site_of(peer.address)
        if most and self.by_address[site] >= most:
            return self._refuse(LIMIT_ADDRESS, f"address {site} has {most} connections", peer)
        self.connections += 1
        self._handshake_began(peer)
        self.by_address[site] += 1
        return ""

    def may_open(self, user: str, peer: PeerFacts, host: str = "") -> str:
        """Count a connection to the user it logged in as and return ``""``, or return why it may not go on.

        ``host``: the virtual host it opens; empty for a connection that opens none.
        """
        most = self.limits.max_connections_per_user
        if most and self.by_user[user] >= most:
            return self._refuse(LIMIT_USER, f"user '{user}' has {most} connections", None)
        given = self.given.of_user(user, MAX_CONNECTIONS)
        if 0 <= given <= self.by_user[user]:
            return self._refuse(LIMIT_GIVEN, f"user '{user}' may have {given} connections (max-connections)", None)
        given = self.given.of_host(host, MAX_CONNECTIONS) if host else UNLIMITED
        if 0 <= given <= self.by_host[host]:
            return self._refuse(LIMIT_GIVEN, f"vhost '{host}' may have {given} connections (max-connections)", None)
        self.by_user[user] += 1
        if host:
            self.by_host[host] += 1
        self.handshake_ended(peer)
        return ""

    def may_have_channel(self, user: str) -> str:
        """Return why a user may open no further channel, or ``""``."""
        given = self.given.of_user(user, MAX_CHANNELS)
        if 0 <= given <= self.channels_by_user[user]:
            return self._refuse(LIMIT_GIVEN, f"user '{user}' may have {given} channels (max-channels)", None)
        return ""

    def channel_opened(self, user: str) -> None:
        """Count a channel, or a session of another protocol, to its user."""
        self.channels_by_user[user] += 1

    def channel_closed(self, user: str) -> None:
        """Count it no longer."""
        _decrease(self.channels_by_user, user)

    def closed(self, peer: PeerFacts, user: str = "", host: str = "") -> None:
        """Forget a connection that was counted; ``user`` and ``host`` are those :meth:`may_open` accepted, if any."""
        self.connections -= 1
        _decrease(self.by_address, site_of(peer.address))
        if user:
            self.lingers(user, host)
        else:
            self.handshake_ended(peer)

    def lingers(self, user: str, host: str = "") -> None:
        """Count a connection to its user and virtual host no longer: it has ended, and only its socket is still read.

        Then :meth:`lingering_ended` is called in the place of :meth:`closed`.
        """
        _decrease(self.by_user, user)
        if host:
            _decrease(self.by_host, host)

    def lingering_ended(self, peer: PeerFacts) -> None:
        """Forget the socket of a connection of a user, which was counted all the while: it takes a descriptor."""
        self.connections -= 1
        _decrease(self.by_address, site_of(peer.address))

    def handshake_began(self, peer: PeerFacts) -> bool:
        """Count a socket that no protocol serves yet: a TLS hand-shake, or one whose first octets are awaited.

        ``False``: there are too many; cut it, and do not call :meth:`handshake_ended`.
        """
        if self._no_handshake(peer):
            return False
        self._handshake_began(peer)
        return True

    def handshake_ended(self, peer: PeerFacts) -> None:
        """The socket is gone, or :meth:`may_connect` is asked next."""
        self.handshakes -= 1
        _decrease(self.handshakes_by_address, site_of(peer.address))

    def web_socket_known(self, site: str) -> None:
        """A WebSocket of an address is logged in, or gone."""
        _decrease(self.web_socket_strangers, site)

    def note_http_full(self, peer: str, most: int, victim: str) -> None:
        """Count and log that all slots for HTTP are taken: a new connection is cut, or one of address ``victim``."""
        self.refused[LIMIT_HTTP] += 1
        reason = f"there are {most} HTTP connections; " + (
            f"the one of {victim} that kept the broker waiting longest is cut" if victim else "all are being answered"
        )
        self._log.warning("http connection cut", limit=LIMIT_HTTP, peer=peer, reason=reason)

    def note_refused(self, limit: str) -> None:
        """Count a connection that another admission refused, for listeners that count theirs apart."""
        self.refused[limit] += 1

    def note_web_socket_refused(self, peer: str, limit: str, reason: str) -> None:
        """Log a WebSocket that was answered 403, and count it where it met a limit."""
        if limit:
            self.refused[limit] += 1
        self._log.warning("web socket refused", peer=peer, reason=reason)

    def note_timed_out(self, peer: str, seconds: float) -> None:
        """Count and log a connection that is cut because it was not open in time."""
        self.handshakes_timed_out += 1
        self._log.warning("handshake timed out", peer=peer, seconds=seconds)

    def note_limits(self, protocol: str, hits: Mapping[str, int]) -> None:
        """Keep how often a connection that has ended met which limits, as its engine counted (``limit_hits``)."""
        for limit, count in hits.items():
            self.limit_hits[protocol, SETTINGS_OF_LIMITS.get(limit, limit)] += count

    def note_never_open(self, peer: str, code: int, reason: str) -> None:
        """Log the end of a connection that never was open. Anybody can cause such, so not each has a line."""
        self._log.warning("connection closed before it was open", peer=peer, code=code, reason=reason)

    def note_defect(self, event: str, peer: str, protocol: str, error: Exception) -> None:
        """Log a defect of ours that a peer caused before its login. Anybody can, so not each has a line."""
        self._log.defect(event, error, peer=peer, protocol=protocol)

    def note_idle(self, peer: str, seconds: float) -> None:
        """Count and log a connection that is closed because it was idle."""
        self.idle_closed += 1
        self._log.warning("connection idle", peer=peer, seconds=seconds)

    def note_silent(self, peer: str, seconds: float) -> None:
        """Count and log a connection that is cut because the peer sent no sign of life, which it had agreed to."""
        self.silent_closed += 1
        self._log.warning("missed heartbeats, closing", peer=peer, interval=seconds)

    def note_gone(self, peer: str) -> None:
        """Count and log a connection that is cut because the system knows its peer to be dead."""
        self.silent_closed += 1
        self._log.warning("the peer is gone, closing", peer=peer)

    def may_explain(self) -> bool:
        """Whether a refused peer may be served up to an error of its protocol; ``False``: cut it."""
        now = self._clock()
        if now - self._explained_at >= 1.0:
            self._explained_at = now
            self._explained = 0
        self._explained += 1
        return self._explained <= EXPLANATIONS_PER_SECOND

    def _handshake_began(self, peer: PeerFacts) -> None:
        self.handshakes += 1
        self.handshakes_by_address[site_of(peer.address)] += 1

    def _no_handshake(self, peer: PeerFacts) -> str:
        """Return why no further connection may begin to log in, or ``""``: there are too many, or of this address."""
        limits = self.limits
        if self.handshakes >= limits.max_handshakes:
            return self._refuse(LIMIT_HANDSHAKES, f"{limits.max_handshakes} connections are logging in", peer)
        most = limits.max_handshakes_per_address
        site = site_of(peer.address)
        if most and self.handshakes_by_address[site] >= most:
            return self._refuse(LIMIT_ADDRESS_HANDSHAKES, f"{most} connections of address {site} are logging in", peer)
        return ""

    def _refuse(self, limit: str, reason: str, peer: PeerFacts | None) -> str:
        self.refused[limit] += 1
        if self._when_refused is not None:
            self._when_refused(limit)
        self._log.warning("connection refused", limit=limit, peer="" if peer is None else str(peer), reason=reason)
        return f"{reason}, which is the limit ({limit}); close some or have the limit raised"


def _decrease(counter: Counter[str], key: str) -> None:
    """Count down; nothing is kept for a count of none."""
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
