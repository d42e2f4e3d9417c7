"""A handler that remembers what the engine told it, and an engine with one."""

from __future__ import annotations

from typing import Any

from annulet.wire.stomp.engine import ConnectionEngine
from annulet.wire.stomp.frames import Frame, FrameReader
from annulet.wire.stomp.handler import ConnectionHandler


class Recorder(ConnectionHandler):
    """Lets everybody in at once unless ``patient``; answers every receipt at once."""

    def __init__(self, **limits: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.patient = False
        self.error: Exception | None = None
        self.lines: list[tuple[str, bool]] = []
        self.engine = ConnectionEngine(
            self, server="Annulet/1", trace=lambda line, incoming: self.lines.append((line, incoming)), **limits
        )

    def _note(self, *call: Any, receipt: str = "") -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        self.engine.send_receipt(receipt)

    def authenticate(self, login: str | None, passcode: str | None, host: str) -> None:
        self.calls.append(("authenticate", login, passcode, host))
        if not self.patient:
            self.engine.authenticated("s1")

    def connection_opened(self) -> None:
        self.calls.append(("opened",))

    def connection_closed(self, text: str, by_peer: bool) -> None:
        self.calls.append(("closed", text, by_peer))

    def send(self, frame: Frame, destination: str, transaction: str, receipt: str) -> None:
        self._note("send", destination, transaction, frame.body, receipt=receipt)

    def subscribe(self, frame: Frame, identifier: str, destination: str, acknowledge: str, receipt: str) -> None:
        self._note("subscribe", identifier, destination, acknowledge, receipt=receipt)

    def unsubscribe(self, frame: Frame, identifier: str, destination: str, receipt: str) -> None:
        self._note("unsubscribe", identifier, destination, receipt=receipt)

    def acknowledge(self, identifier: str, subscription: str, transaction: str, receipt: str) -> None:
        self._note("acknowledge", identifier, subscription, transaction, receipt=receipt)

    def negative_acknowledge(
        self, frame: Frame, identifier: str, subscription: str, transaction: str, receipt: str
    ) -> None:
        self._note("negative_acknowledge", identifier, subscription, transaction, receipt=receipt)

    def begin(self, transaction: str, receipt: str) -> None:
        self._note("begin", transaction, receipt=receipt)

    def commit(self, transaction: str, receipt: str) -> None:
        self._note("commit", transaction, receipt=receipt)

    def abort_transaction(self, transaction: str, receipt: str) -> None:
        self._note("abort", transaction, receipt=receipt)

    def disconnect(self, receipt: str) -> None:
        self.calls.append(("disconnect", receipt))
        self.engine.finish(receipt)

    def connect(self, version: str = "1.2", *more: str) -> Recorder:
        """Log in and forget what that took."""
        lines = ["CONNECT", f"accept-version:{version}", "host:/", "login:guest", "passcode:secret", *more]
        if version == "1.0":
            del lines[1]
        self.receive("\n".join(lines) + "\n\n\0")
        self.calls.clear()
        self.frames()
        return self

    def receive(self, data: str | bytes) -> None:
        self.engine.receive(data.encode() if isinstance(data, str) else data)

    def frames(self) -> list[Frame]:
        """Return the frames that were sent."""
        reader = FrameReader()
        reader.version = self.engine.version
        reader.feed(b"".join(self.engine.take_output()))
        found = []
        while (frame := reader.next_frame()) is not None:
            found.append(frame)
        return found

    def sole(self, command: str) -> Frame:
        """Return the one frame that was sent, which is of this command."""
        (frame,) = self.frames()
        assert frame.command == command, frame
        return frame
