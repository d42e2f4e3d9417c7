"""Protocol errors, classified by the side that caused them and by the scope to be closed (§2.8.14 to §2.8.18)."""

from __future__ import annotations

from annulet.core.base.errors import LimitExceeded
from annulet.wire.amqp10.types.conditions import DECODE_ERROR


class ProtocolError(Exception):
    """A rule of AMQP 1.0 was broken."""


class LocalProtocolError(ProtocolError):
    """This side broke the rule: the caller of the codec or engine has to be changed, the peer is innocent."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol, or requested something that is refused.

    ``condition`` is a symbol of :mod:`annulet.wire.amqp10.types.conditions`, ``description`` a sentence for people.
    """

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description

    def __str__(self) -> str:
        """Return condition and description."""
        return f"{self.condition}: {self.description}"


class LinkFault(RemoteProtocolError):
    """Detaches the link with an error (§2.6.5)."""


class SessionFault(RemoteProtocolError):
    """Ends the session with an error (§2.5.3)."""


class ConnectionFault(RemoteProtocolError):
    """Closes the connection with an error (§2.4.3)."""


class DecodeError(ConnectionFault):
    """Octets that violate the standard: ``amqp:decode-error`` (§2.8.15), naming field and offset."""

    def __init__(self, description: str) -> None:
        super().__init__(DECODE_ERROR, description)


class MessageTooComplex(LimitExceeded):
    """A message has more sections, or more bytes before its body, than the limit called ``limit`` allows."""

    def __init__(self, text: str, limit: str = "") -> None:
        super().__init__(text)
        self.limit = limit
