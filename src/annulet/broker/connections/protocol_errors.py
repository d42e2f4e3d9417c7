"""Errors that the broker answered on a channel, link, session or connection: a counter by code, and a warning each.

A client that was refused may not say why, so the log does: with the user, the name the client gave its connection, the
peer, code and reason. Peers cause these lines, so only a few are written in a second.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.observing.limited_log import LimitedLog

if TYPE_CHECKING:
    from annulet.broker.connections.transport import AnyConnection

logger = structlog.get_logger(__name__)

CODES_MAX: Final = 256
"""Series of the counter: the protocols' own codes are fewer than a hundred. Further ones are counted as ``other``."""

OTHER: Final = "other"

NAME_CHARACTERS_MAX: Final = 100
"""Of a connection's name in the log; the client chooses it."""


class ProtocolErrors:
    """Those of one broker. Belongs to the event loop."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()  # by protocol and code
        self._log = LimitedLog(logger)

    def count(self, protocol: str, code: str) -> None:
        """Count an error that has a line of its own."""
        key = (protocol, code)
        self.counts[key if key in self.counts or len(self.counts) < CODES_MAX else (protocol, OTHER)] += 1

    def note(self, connection: AnyConnection, where: str, code: str, reason: str) -> None:
        """Count and log an error on a channel, session or link; ``where`` names it: ``channel 3``."""
        self.count(connection.protocol_name, code)
        self._warn("protocol error", connection, code, reason, where=where)

    def note_closed(self, connection: AnyConnection, code: str, reason: str, *, by_peer: bool) -> None:
        """Log the end of a connection that was open, with an error. It is counted unless it is the peer's."""
        if not by_peer:
            self.count(connection.protocol_name, code)
        self._warn("connection closed", connection, code, reason, by_peer=by_peer)

    def note_ended(self, connection: AnyConnection, code: int | str, reason: str, *, by_peer: bool) -> None:
        """Log the end of a connection that was open, without an error: closed, or dropped without a word of either."""
        logger.info(
            "connection dropped" if connection.lost else "connection closed",
            peer=connection.name,
            user=connection.user_name,
            vhost="" if connection.host is None else connection.host.name,
            protocol=connection.protocol_name,
            code=code,
            reason=reason,
            by_peer=by_peer,
        )

    def note_request(self, protocol: str, code: str, reason: str, *, user: str, peer: str) -> None:
        """Count and log a request that was answered with an error, where connections are another program's."""
        self.count(protocol, code)
        self._log.warning(
            "protocol error", protocol=protocol, user=user, connection="", peer=peer, code=code, reason=reason
        )

    def _warn(self, event: str, connection: AnyConnection, code: str, reason: str, **values: object) -> None:
        self._log.warning(
            event,
            protocol=connection.protocol_name,
            user=connection.user_name,
            connection=connection.client_name[:NAME_CHARACTERS_MAX],
            peer=connection.name,
            code=code,
            reason=reason,
            **values,
        )
