"""The STOMP connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner passes its input to :meth:`ConnectionEngine.receive` and writes the output
that :meth:`ConnectionEngine.take_output` returns. One engine serves 1.0, 1.1 and 1.2; the differences are in ``states``
and in the header escaping of ``frames``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from annulet.wire.stomp.constants import (
    LEAST_HEARTBEAT,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    MAX_UNAUTHENTICATED_BYTES,
    MOST_HEARTBEAT,
    VERSION_1_0,
    VERSION_1_2,
    VERSIONS,
)
from annulet.wire.stomp.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.stomp.frames import Frame, FrameReader, encode_frame, escape
from annulet.wire.stomp.handler import ConnectionHandler
from annulet.wire.stomp.header_block import header_octets
from annulet.wire.stomp.states import (
    ACKNOWLEDGE_MODES,
    COMMANDS,
    COMMANDS_WITH_BODY,
    REQUIRED_HEADERS,
    TRANSITIONS,
    ConnectionState,
)

_HEARTBEAT_OCTET: Final = b"\n"
_NUL: Final = b"\0"
_SHOWN_CHARACTERS: Final = 80
BROKEN_FRAME: Final = "frame"
"""The value of :attr:`ConnectionEngine.failed` for a frame that is malformed, or whose command is unknown."""

_ERROR_CHARACTERS: Final = 1000  # of an ERROR's message header; texts may quote the peer's input


class ConnectionEngine:
    """One connection. See the module docstring; errors of the peer never raise, they end it with ERROR.

    Args:
        handler: serves the connection.
        server: value of CONNECTED's ``server`` header: name, slash, version.
        least_heartbeat: shortest interval offered and requested, in milliseconds; 0 switches heart-beats off.
        max_header_bytes: command and headers of one frame, in bytes.
        max_body_bytes: body of one frame, in bytes.
        max_unauthenticated_bytes: limit of a peer's input before it is authenticated.
        trace: called with each frame, one line, and whether it was received; ``None``: not at all.

    Attributes:
        look: may be set to a function that returns how many frames may be served before its next call. When it returns
            0, or when the owner sets ``resting``, input waits until the owner clears ``resting`` and calls
            :meth:`go_on`.

    Raises:
        LocalProtocolError: a limit is out of range.
    """

    def __init__(
        self,
        handler: ConnectionHandler,
        *,
        server: str,
        least_heartbeat: int = LEAST_HEARTBEAT,
        max_header_bytes: int = MAX_HEADER_BYTES,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
        trace: Callable[[str, bool], None] | None = None,
    ) -> None:
        if not 0 <= least_heartbeat <= MOST_HEARTBEAT:
            raise LocalProtocolError(f"least_heartbeat is {least_heartbeat}; give 0 to {MOST_HEARTBEAT} milliseconds")
        self.handler = handler
        self.server = server
        self.least_heartbeat = least_heartbeat
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self.trace = trace
        self.state = ConnectionState.CONNECTING
        self.version = VERSION_1_0  # the negotiated one; until then one that every version can read
        self.login: str | None = None
        self.client_id = ""  # CONNECT's client-id: names the owner of durable subscriptions (ActiveMQ, Artemis)
        self.connect_headers: dict[str, str] = {}  # all of CONNECT but passcode
        self.sending_interval = 0  # milliseconds after which the peer expects output; 0: never
        self.receiving_interval = 0  # milliseconds within which the peer promised to say something; 0: it did not
        self.received_since_check = False  # set by every receive; the owner clears it when it checks for silence
        self.output_size = 0
        self.closed = False
        self.look: Callable[[], int] | None = None
        self.resting = False
        self._steps = 1  # frames to be served before ``look`` is called again
        self.limit_hits: dict[str, int] = {}  # how often the peer met a limit that ended the connection, by its name
        self.failed = ""  # command of the frame that is served, or was when the connection ended; or BROKEN_FRAME
        self._reader = FrameReader(max_header_bytes=max_header_bytes, max_body_bytes=max_body_bytes)
        self._output: list[bytes] = []
        self._unauthenticated_bytes = 0
        self._serving = False  # receive is running: it serves the input that an answer releases
        self._ended = False  # connection_closed was called
        self._connect_receipt = ""

    @property
    def running(self) -> bool:
        """Return whether frames are served."""
        return self.state is ConnectionState.CONNECTED

    @property
    def unfinished_bytes(self) -> int:
        """Octets of an incomplete frame."""
        return self._reader.pending

    # ---- input

    def receive(self, data: bytes) -> None:
        """Take input from the socket and serve all complete frames.

        Raises:
            Exception: other exceptions of the handler than protocol errors, after closing with an ERROR.
        """
        if self.closed or not data or self.state is ConnectionState.DISCONNECTING:
            return
        self.received_since_check = True
        unauthenticated = not self.running
        if unauthenticated:
            self._unauthenticated_bytes += len(data)
        self._reader.feed(data)
        self._serve()
        if unauthenticated and not self.running and self._unauthenticated_bytes > self.max_unauthenticated_bytes:
            self.count_hit("max_unauthenticated_bytes")
            self.close_with_error(
                f"more than {self.max_unauthenticated_bytes} octets before authentication; log in first"
            )

    def _serve(self) -> None:
        self._serving = True
        self._steps = 1
        try:
            while self._reads() and not self._must_rest():
                frame = self._next_frame()
                if frame is None:
                    break
                self._serve_frame(frame)
                self._steps -= 4  # a frame of STOMP takes as long as several that are read in place
        finally:
            self._serving = False

    def go_on(self) -> None:
        """Serve the input that rested, unless it is being served already.

        Raises:
            Exception: as :meth:`receive`.
        """
        if not self._serving:
            self._serve()

    def look_soon(self) -> None:
        """Ask the owner before the next frame whether there is time: the one being served takes longer than most."""
        self._steps = 0

    def rest(self) -> None:
        """Serve no more input from the next frame on, until the owner clears ``resting`` and calls :meth:`go_on`."""
        self.resting = True

    def _must_rest(self) -> bool:
        """Return whether input waits; ask the owner when as many frames as it allowed were served."""
        if self._steps <= 0 and not self.resting:
            self._steps = 1 if self.look is None else self.look()
            self.resting = self._steps <= 0
        return self.resting

    def _reads(self) -> bool:
        return self.state is ConnectionState.CONNECTED or self.state is ConnectionState.CONNECTING

    def _next_frame(self) -> Frame | None:
        try:
            return self._reader.next_frame()
        except RemoteProtocolError as error:
            self.count_hit(error.limit)
            self.failed = BROKEN_FRAME
            self.close_with_error(error.text)
            return None

    def count_hit(self, limit: str) -> None:
        """Count that the peer met a limit which ends the connection; the empty name is none."""
        if limit:
            self.limit_hits[limit] = self.limit_hits.get(limit, 0) + 1

    def _serve_frame(self, frame: Frame) -> None:
        if self.trace is not None:
            self.trace(repr(frame), True)
        receipt = frame.headers.get("receipt", "")
        self.failed = frame.command if frame.command in COMMANDS[self.version] else BROKEN_FRAME
        try:
            self._check(frame)
            self._dispatch(frame, receipt)
            self.failed = ""
        except RemoteProtocolError as error:
            self.count_hit(error.limit)
            self.close_with_error(error.text, receipt=receipt, headers=error.headers, frame=frame)
        except Exception:
            self.close_with_error("internal error; the broker's log says more", receipt=receipt, frame=frame)
            raise

    def _check(self, frame: Frame) -> None:
        """Refuse a frame out of place, without a header it must have, or with a body it must not have."""
        command = frame.command
        following = TRANSITIONS.get((self.state, command))
        if following is None or (self.running and command not in COMMANDS[self.version]):
            raise self._unexpected(command)
        for name in REQUIRED_HEADERS[self.version].get(command, ()) if self.running else ():
            if not frame.headers.get(name):
                raise RemoteProtocolError(f"{command} needs the header '{name}' (STOMP {self.version})")
        if frame.body and command not in COMMANDS_WITH_BODY:
            raise RemoteProtocolError(f"{command} has a body of {len(frame.body)} octets; only SEND may have one")
        self.state = following

    def _unexpected(self, command: str) -> RemoteProtocolError:
        shown = repr(command[:_SHOWN_CHARACTERS])
        if self.running and command in {"CONNECT", "STOMP"}:
            return RemoteProtocolError(f"{shown} on a connection that is connected; open another one")
        if not self.running:
            return RemoteProtocolError(f"first frame is {shown}; send CONNECT or STOMP first")
        known = ", ".join(sorted(COMMANDS[self.version] - {"CONNECT", "STOMP"}))
        return RemoteProtocolError(f"unknown command {shown} in STOMP {self.version}; known are {known}")

    def _dispatch(self, frame: Frame, receipt: str) -> None:
        command = frame.command
        headers = frame.headers
        handler = self.handler
        if command == "SEND":
            handler.send(frame, headers["destination"], headers.get("transaction", ""), receipt)
        elif command in {"ACK", "NACK"}:
            name = "id" if self.version == VERSION_1_2 else "message-id"
            subscription = "" if self.version == VERSION_1_2 else headers.get("subscription", "")
            transaction = headers.get("transaction", "")
            if command == "ACK":
                handler.acknowledge(headers[name], subscription, transaction, receipt)
            else:
                handler.negative_acknowledge(frame, headers[name], subscription, transaction, receipt)
        elif command == "SUBSCRIBE":
            self._subscribe(frame, receipt)
        elif command == "UNSUBSCRIBE":
            self._unsubscribe(frame, receipt)
        elif command == "BEGIN":
            handler.begin(headers["transaction"], receipt)
        elif command == "COMMIT":
            handler.commit(headers["transaction"], receipt)
        elif command == "ABORT":
            handler.abort_transaction(headers["transaction"], receipt)
        elif command == "DISCONNECT":
            handler.disconnect(receipt)
        else:
            self._connect(frame)

    def _subscribe(self, frame: Frame, receipt: str) -> None:
        headers = frame.headers
        mode = headers.get("ack", "auto")
        if mode not in ACKNOWLEDGE_MODES:
            raise RemoteProtocolError(
                f"header 'ack' of SUBSCRIBE is {mode[:_SHOWN_CHARACTERS]!r}; give {', '.join(ACKNOWLEDGE_MODES)}"
            )
        self.handler.subscribe(frame, headers.get("id", ""), headers["destination"], mode, receipt)

    def _unsubscribe(self, frame: Frame, receipt: str) -> None:
        identifier = frame.headers.get("id", "")
        destination = frame.headers.get("destination", "")
        if not identifier and not destination:
            raise RemoteProtocolError("UNSUBSCRIBE needs the header 'id' or 'destination' (STOMP 1.0)")
        self.handler.unsubscribe(frame, identifier, destination, receipt)

    # ---- connecting

    def _connect(self, frame: Frame) -> None:
        headers = frame.headers
        self.version = _negotiated(headers.get("accept-version"))
        self._reader.version = self.version
        if self.version != VERSION_1_0:
            self._negotiate_heartbeat(headers.get("heart-beat", "0,0"))
        self.login = headers.get("login")
        self.client_id = headers.get("client-id", "")
        self.connect_headers = {name: value for name, value in headers.items() if name != "passcode"}
        self._connect_receipt = headers.get("receipt", "")
        self.handler.authenticate(self.login, headers.get("passcode"), headers.get("host", ""))

    def _negotiate_heartbeat(self, text: str) -> None:
        """Agree on both intervals ("Heart-beating"): none in a direction in which one side cannot or does not want."""
        parts = text.split(",")
        numbers = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 10]
        if len(parts) != 2 or len(numbers) != 2 or max(numbers) > MOST_HEARTBEAT:
            raise RemoteProtocolError(
                f"header 'heart-beat' is {text[:_SHOWN_CHARACTERS]!r}; give two numbers of milliseconds from 0 to "
                f"{MOST_HEARTBEAT} with a comma between"
            )
        if self.least_heartbeat:
            self.receiving_interval = max(numbers[0], self.least_heartbeat) if numbers[0] else 0
            self.sending_interval = max(numbers[1], self.least_heartbeat) if numbers[1] else 0

    def authenticated(self, session: str) -> None:
        """Accept the peer: send CONNECTED with ``session`` as the connection's id, then serve the waiting input.

        Harmless when the connection ended while its login was judged.
        """
        if self.state is not ConnectionState.AUTHENTICATING:
            return
        self.state = ConnectionState.CONNECTED
        headers = {"version": self.version, "session": session, "server": self.server}
        if self.version != VERSION_1_0:
            headers["heart-beat"] = f"{self.least_heartbeat},{self.least_heartbeat}"
        self._append_frame(Frame("CONNECTED", headers))
        if self._connect_receipt:  # "Receipts": allowed on other frames than CONNECT; answered all the same
            self.send_receipt(self._connect_receipt)
        self.handler.connection_opened()
        if not self._serving:
            self._serve()

    def refuse(self, text: str) -> None:
        """Refuse the login with an ERROR. Harmless when the connection ended while it was judged."""
        if self.state is ConnectionState.AUTHENTICATING:
            self.failed = "CONNECT"
            self.close_with_error(text, receipt=self._connect_receipt)

    # ---- output

    def take_output(self) -> list[bytes]:
        """Return the output and clear it."""
        output, self._output = self._output, []
        self.output_size = 0
        return output

    def _append(self, data: bytes) -> None:
        self._output.append(data)
        self.output_size += len(data)

    def _append_frame(self, frame: Frame) -> None:
        if self.trace is not None:
            self.trace(repr(frame), False)
        self._append(encode_frame(frame, self.version))

    def send_message(self, head: bytes, block: bytes, body: bytes) -> None:
        """Queue a MESSAGE: the server's headers, then the message's own, both as lines of the negotiated version.

        ``head`` and ``block`` are lines that end with LF each; ``content-length`` is added.
        """
        if self.trace is not None:
            self._trace_message(head + block, body)
        self._append(b"MESSAGE\n%bcontent-length:%d\n%b\n" % (head, len(body), block))
        if len(body) < 4096:  # joining a small body costs less than a separate piece
            self._append(body + _NUL)
        else:
            self._append(body)
            self._append(_NUL)

    def _trace_message(self, lines: bytes, body: bytes) -> None:
        assert self.trace is not None
        headers: dict[str, str] = {}
        for line in lines.decode("utf-8", "replace").split("\n")[:-1]:  # the last line ends too
            name, _, value = line.partition(":")
            headers.setdefault(name, value)
        self.trace(repr(Frame("MESSAGE", headers, body)), False)

    def send_receipt(self, receipt: str) -> None:
        """Queue a RECEIPT; an empty id is no wish for one."""
        if receipt and not self.closed:
            self._append_frame(Frame("RECEIPT", {"receipt-id": receipt}))

    def heartbeat(self) -> None:
        """Queue an end of line, unless other output is queued, which serves the same purpose."""
        if self.running and not self._output:
            self._append(_HEARTBEAT_OCTET)

    # ---- the end

    def close_with_error(
        self,
        text: str,
        *,
        receipt: str = "",
        headers: dict[str, str] | None = None,
        frame: Frame | None = None,
    ) -> None:
        """Queue an ERROR with ``text`` and end the connection.

        ``receipt``: that of the frame it is about; ``frame`` is quoted in the body, without its own.
        """
        if self.closed:
            return
        shown = text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]}..."
        given = {"message": _printable(shown), "content-type": "text/plain"}
        if receipt:
            given["receipt-id"] = receipt
        given.update(headers or {})
        body = text if frame is None else f"{text}\n\nThe frame was:\n{_quoted(frame)}"
        self._append_frame(Frame("ERROR", given, f"{body}\n".encode("utf-8", "replace")))
        self._end(text, by_peer=False)

    def finish(self, receipt: str) -> None:
        """Answer DISCONNECT and end the connection."""
        self.send_receipt(receipt)
        self._end("", by_peer=True)

    def connection_lost(self) -> None:
        """Tell the engine that the socket is closed.

        Afterwards the engine references neither input nor its handler, so that both are freed without a garbage
        collection.
        """
        try:
            self._end("", by_peer=True)
        finally:
            self.handler = ConnectionHandler()
            self.trace = None

    def _end(self, text: str, *, by_peer: bool) -> None:
        self.state = ConnectionState.CLOSED
        self.closed = True
        self._reader.drop()
        if not self._ended:
            self._ended = True
            self.handler.connection_closed(text, by_peer)


def header_line(name: str, value: str, version: str) -> bytes:
    """Return one header as a line of a version, for :meth:`ConnectionEngine.send_message`.

    Names of queues and routing keys may come from other protocols, whose texts may have NULs.
    """
    return header_octets(f"{escape(name, version)}:{escape(value, version)}\n")


def _negotiated(accepted: str | None) -> str:
    """Return the best version both sides know ("Protocol Negotiation")."""
    if accepted is None:
        return VERSION_1_0
    offered = [version.strip() for version in accepted.split(",")]
    for version in VERSIONS:
        if version in offered:
            return version
    known = ",".join(sorted(VERSIONS))
    raise RemoteProtocolError(
        f"header 'accept-version' is {accepted[:_SHOWN_CHARACTERS]!r}; supported versions are {known}",
        {"version": known},
    )


def _printable(text: str) -> str:
    """Return a text for a header that every version can carry, on one line."""
    return " ".join("".join(" " if character < " " or character == "\x7f" else character for character in text).split())


def _quoted(frame: Frame) -> str:
    return repr(Frame(frame.command, frame.headers))
