"""stomp.py with its callbacks turned into things a test can wait for."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from typing import Any

import stomp
from stomp.utils import Frame

PATIENCE_SECONDS = 30.0
"""How long a test waits for what must happen; only a failing test ever waits this long."""

VERSIONS: dict[str, Any] = {
    "1.0": stomp.StompConnection10, "1.1": stomp.StompConnection11, "1.2": stomp.StompConnection12,
}  # fmt: skip


class StompClient(stomp.ConnectionListener):  # type: ignore[misc] # stomp.py ships no types
    """One connection. What arrives is in queues by kind."""

    def __init__(self, port: int, version: str = "1.2", **settings: Any) -> None:
        if version == "1.0":
            settings.pop("heartbeats", None)
        self.version = version
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()
        self.disconnected = threading.Event()
        self.heartbeat_lost = threading.Event()
        self._receipts: dict[str, threading.Event] = {}
        settings.setdefault("reconnect_attempts_max", 1)
        self.connection = VERSIONS[version]([("127.0.0.1", port)], **settings)
        self.connection.set_listener("test", self)

    def connect(self, login: str = "guest", passcode: str = "guest", **headers: Any) -> StompClient:
        """Log in; returns when CONNECTED came."""
        self.disconnected.clear()
        self.connection.connect(login, passcode, wait=True, headers=headers)
        return self

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self._receipts.setdefault(frame.headers["receipt-id"], threading.Event()).set()

    def on_disconnected(self) -> None:
        self.disconnected.set()

    def on_heartbeat_timeout(self) -> None:
        self.heartbeat_lost.set()

    def receipt(self) -> tuple[dict[str, str], threading.Event]:
        """Return headers that ask for a receipt, and what says that it came."""
        identifier = uuid.uuid4().hex
        event = self._receipts.setdefault(identifier, threading.Event())
        return {"receipt": identifier}, event

    def send(self, destination: str, body: Any = "", **headers: Any) -> None:
        """Send with a receipt, and wait for it. Names of headers may be written with _ for -."""
        wanted, came = self.receipt()
        self.connection.send(destination, body, headers={**wanted, **named(headers)})
        assert came.wait(PATIENCE_SECONDS), "no receipt came"

    def subscribe(self, destination: str, identifier: str = "s", ack: str = "auto", **headers: Any) -> None:
        """Subscribe with a receipt, and wait for it."""
        wanted, came = self.receipt()
        self.connection.subscribe(destination, identifier, ack, headers={**wanted, **named(headers)})
        assert came.wait(PATIENCE_SECONDS), "no receipt came"

    def next(self) -> Frame:
        """Return the next message."""
        return self.messages.get(timeout=PATIENCE_SECONDS)

    def bodies(self, count: int) -> list[Any]:
        """Return the bodies of the next messages."""
        return [self.next().body for _ in range(count)]

    def error(self) -> str:
        """Return what the next ERROR says, after the connection ended."""
        frame = self.errors.get(timeout=PATIENCE_SECONDS)
        assert self.disconnected.wait(PATIENCE_SECONDS), "the connection did not end"
        text: str = frame.headers["message"]
        return text

    def acknowledge(self, frame: Frame, subscription: str = "s", **headers: Any) -> None:
        """Acknowledge as the version wants it."""
        wanted, came = self.receipt()
        given = {**wanted, **named(headers)}
        transaction = given.pop("transaction", None)
        if self.version == "1.2":
            self.connection.ack(frame.headers["ack"], transaction=transaction, **given)
        elif self.version == "1.1":
            self.connection.ack(frame.headers["message-id"], subscription, transaction=transaction, **given)
        else:
            self.connection.ack(frame.headers["message-id"], transaction=transaction, **given)
        assert came.wait(PATIENCE_SECONDS), "no receipt came"

    def nothing_more(self, sentinel: str) -> None:
        """Check that no message is under way: one that is sent now is the next."""
        self.subscribe(f"/queue/{sentinel}", sentinel)
        self.send(f"/queue/{sentinel}", sentinel)
        assert self.next().body == sentinel

    def close(self) -> None:
        """Disconnect, whatever state it is in."""
        if self.connection.is_connected():
            self.connection.disconnect()
        self.disconnected.wait(PATIENCE_SECONDS)


def named(headers: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", "-") if not name.startswith("_") else name: str(value) for name, value in headers.items()}


def wait_until(condition: Any, what: str) -> None:
    """Return when ``condition()`` holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
