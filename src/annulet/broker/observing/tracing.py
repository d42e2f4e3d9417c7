"""Protocol traces: at log level ``debug`` each frame of each connection is a line of the logger ``annulet.trace``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.configuration import BrokerConfiguration

logger = structlog.get_logger("annulet.trace")


class TracedConnection(Protocol):
    """The connections whose frames are traced. Its name is known once it has a socket."""

    @property
    def name(self) -> str:
        """Peer address -> our address."""


def frame_trace(configuration: BrokerConfiguration, connection: TracedConnection) -> Callable[[str], None] | None:
    """Return what an engine is to call with each frame as a line; ``None``, which costs it nothing, above ``debug``."""
    if configuration.log_level != "debug":
        return None

    def trace(line: str) -> None:
        logger.debug(line, peer=connection.name)

    return trace
