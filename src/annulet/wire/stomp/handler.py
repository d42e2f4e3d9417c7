"""The interface by which an engine calls its owner."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from annulet.wire.stomp.frames import Frame


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionHandler:
    """Base class of connection handlers. The engine calls its methods in the order of the peer's frames.

    All calls are synchronous. A method may raise :class:`~annulet.wire.stomp.errors.RemoteProtocolError`: the peer gets
    an ERROR with the receipt id of its frame, and the connection ends. Any other exception is a defect: the engine ends
    the connection with an ERROR without details and lets the exception pass.

    ``receipt`` is the peer's receipt id, empty if it wants none; the handler makes the engine send it once the request
    is complete, and durable if necessary. ``frame`` has all other headers, decoded.
    """

    def authenticate(self, login: str | None, passcode: str | None, host: str) -> None:
        """Judge a login; ``None``: the header was not given. Not given is ``host`` too when it is empty.

        Answer with ``engine.authenticated(session)`` or ``engine.refuse(text)``, at once or later. Until then the
        engine keeps all input unserved.
        """
        raise NotImplementedError

    def connection_opened(self) -> None:
        """Note that CONNECTED is queued; the engine has the negotiated values."""
        raise NotImplementedError

    def connection_closed(self, text: str, by_peer: bool) -> None:
        """Note the end; called exactly once. ``text`` is that of the ERROR, empty after DISCONNECT or a broken line."""
        raise NotImplementedError

    def send(self, frame: Frame, destination: str, transaction: str, receipt: str) -> None:
        """Take a message; ``transaction`` is empty outside of one."""
        raise NotImplementedError

    def subscribe(self, frame: Frame, identifier: str, destination: str, acknowledge: str, receipt: str) -> None:
        """Start a subscription. ``identifier`` is empty when a 1.0 client gave none; ``acknowledge``: see states."""
        raise NotImplementedError

    def unsubscribe(self, frame: Frame, identifier: str, destination: str, receipt: str) -> None:
        """End a subscription, named by identifier, or by destination when that is empty (1.0 only)."""
        raise NotImplementedError

    def acknowledge(self, identifier: str, subscription: str, transaction: str, receipt: str) -> None:
        """Settle a delivery: ``identifier`` is its ``ack`` (1.2) or ``message-id``; ``subscription`` may be empty."""
        raise NotImplementedError

    def negative_acknowledge(
        self, frame: Frame, identifier: str, subscription: str, transaction: str, receipt: str
    ) -> None:
        """Refuse a delivery, named as in :meth:`acknowledge`."""
        raise NotImplementedError

    def begin(self, transaction: str, receipt: str) -> None:
        """Start a transaction."""
        raise NotImplementedError

    def commit(self, transaction: str, receipt: str) -> None:
        """Carry out a transaction."""
        raise NotImplementedError

    def abort_transaction(self, transaction: str, receipt: str) -> None:
        """Drop a transaction."""
        raise NotImplementedError

    def disconnect(self, receipt: str) -> None:
        """The peer is done: end its subscriptions, then ``engine.finish(receipt)`` after all receipts before it."""
        raise NotImplementedError
