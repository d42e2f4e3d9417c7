"""File descriptors: each connection takes one, and the message log must never be short of them.

A broker that runs out of descriptors cannot open the next segment of its log, which ends it. So connections never get
the last ones, whatever the configuration says.
"""

from __future__ import annotations

import resource
from typing import Final

import msgspec
import structlog

from annulet.broker.settings.limits import Limits

logger = structlog.get_logger(__name__)

RESERVED: Final = 400
"""Descriptors kept for files of the log and the catalogue, HTTP (100), refused connections that are told why (100) and
bulk transfer."""

HANDSHAKES_SHARE: Final = 4
"""Where there are too few, one in so many of those for connections is for hand-shakes."""

LEAST: Final = 8
"""Connections that are let in whatever the system allows: an operator has to get in."""


def raise_limit(limits: Limits) -> None:
    """Have the system allow this process as many descriptors as the limits need, as far as it may be raised."""
    needed = limits.max_connections + limits.max_handshakes + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # fewer connections are let in then, and fit() says so
        logger.info("the limit of open files stays", allowed=soft, error=str(error))


def fit(limits: Limits) -> Limits:
    """Return the limits with no more connections than the system allows this process descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= limits.max_connections + limits.max_handshakes + RESERVED:
        return limits
    available = max(soft - RESERVED, LEAST * 2)
    handshakes = min(limits.max_handshakes, max(available // HANDSHAKES_SHARE, LEAST))
    connections = min(limits.max_connections, available - handshakes)
    logger.warning(
        "fewer connections than configured: the system allows this process too few open files",
        allowed=soft,
        max_connections=connections,
        max_handshakes=handshakes,
        remedy="raise the limit of open files (ulimit -n, LimitNOFILE), or lower limits.max_connections",
    )
    return msgspec.structs.replace(
        limits,
        max_connections=connections,
        max_handshakes=handshakes,
        max_handshakes_per_address=min(limits.max_handshakes_per_address, max(handshakes * 3 // 4, 1)),
    )
