"""Protocol errors, classified by the side that caused them.

STOMP has one reaction: ERROR, then the end (1.2 "ERROR").
"""

from __future__ import annotations


class ProtocolError(Exception):
    """A rule of STOMP was broken."""


class LocalProtocolError(ProtocolError):
    """This side broke the rule: the caller of the codec or engine has to be changed, the peer is innocent."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol, or requested something that is refused.

    ``text`` becomes the ``message`` header of the ERROR frame; ``headers`` are added to the frame. ``limit`` names the
    limit that was met, empty when it is none: the engine counts it.
    """

    def __init__(self, text: str, headers: dict[str, str] | None = None, limit: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.headers: dict[str, str] = {} if headers is None else headers
        self.limit = limit

    def __str__(self) -> str:
        """Return the text."""
        return self.text
