"""Protocol errors, classified by the side that caused them and by the scope that has to be closed."""

from __future__ import annotations


class ProtocolError(Exception):
    """A rule of AMQP 0-9-1 was broken."""


class LocalProtocolError(ProtocolError):
    """This side broke the rule: the caller of the codec or engine has to be changed, the peer is innocent."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol, or requested something that is refused. ``code`` is a reply code of §1.1."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        """Return code and text."""
        return f"{self.code} {self.text}"


class ChannelError(RemoteProtocolError):
    """Closes the channel. The codes of §1.1 for it (soft errors) are 311, 312, 313, 403, 404, 405 and 406."""


class ConnectionFault(RemoteProtocolError):
    """Closes the connection (§1.1 hard error)."""
