"""A load generator of STOMP 1.2: one connection sends, one receives, in one thread.

``python -m benchmarks.loads.stomp_load --pid PID --port PORT --queue NAME --count N --size B [--persistent]``.
Persistent messages ask for receipts, at most 1,000 without an answer, and are acknowledged with each read. Prints the
figures as JSON; ends with status 1 when the number of bodies is wrong or the broker reports an error.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time

import click

from benchmarks.loads.figures import Counter, Run

READ_BYTES = 1 << 20
BATCH = 100
WINDOW = 1000
IDLE_SECONDS_MAX = 20.0
MARK = b"<one body>"
RECEIPT, ACK_HEADER, ERROR = b"RECEIPT\n", b"\nack:", b"ERROR\n"


class LoadError(Exception):
    """The broker reported an error, or nothing came for too long."""


def connected(port: int) -> socket.socket:
    """Return a connection that is logged in."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(IDLE_SECONDS_MAX)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\nheart-beat:0,0\n\n\0")
    answer = b""
    while b"\0" not in answer:
        octets = connection.recv(READ_BYTES)
        answer += octets
        if not octets or answer.startswith(ERROR):
            raise LoadError(answer.decode(errors="replace"))
    return connection


class Sender:
    """Sends prepared batches, and counts the receipts."""

    def __init__(self, port: int, queue: str, count: int, size: int, *, persistent: bool) -> None:
        self.sent = 0
        self.receipts = Counter(RECEIPT)
        self._count = count
        self._receipts = persistent
        self._batch = b"".join(_send_frame(queue, size, number if persistent else None) for number in range(BATCH))
        self._message = len(self._batch) // BATCH
        self._output = memoryview(b"")
        self.socket = connected(port)
        self.socket.setblocking(False)

    @property
    def wants_to_send(self) -> bool:
        """Whether something is left that may be sent now."""
        return bool(self._output) or (self.sent < self._count and self._open)

    @property
    def done(self) -> bool:
        """Whether all is sent, and answered where an answer is asked for."""
        answered = not self._receipts or self.receipts.count >= self.sent
        return not self._output and self.sent >= self._count and answered

    @property
    def _open(self) -> bool:
        return not self._receipts or self.sent - self.receipts.count + BATCH <= WINDOW

    def send(self) -> None:
        """Give the socket what it takes."""
        if not self._output:
            messages = min(BATCH, self._count - self.sent)
            self._output = memoryview(self._batch)[: messages * self._message]
            self.sent += messages
        self._output = self._output[self.socket.send(self._output) :]


def _send_frame(queue: str, size: int, receipt: int | None) -> bytes:
    headers = f"destination:/queue/{queue}\ncontent-length:{size}\n"
    if receipt is not None:
        headers += f"persistent:true\nreceipt:r{receipt:02}\n"
    return f"SEND\n{headers}\n".encode() + MARK.ljust(size, b".") + b"\0\n"


class Receiver:
    """Counts bodies, and acknowledges what each read brought."""

    def __init__(self, port: int, queue: str, *, acknowledges: bool) -> None:
        self.bodies = Counter(MARK)
        self.errors = Counter(b"\0\n" + ERROR)
        self._acknowledges = acknowledges
        self._rest = b""
        self.socket = connected(port)
        mode = f"ack:client\nprefetch-count:{WINDOW}" if acknowledges else "ack:auto"
        frame = f"SUBSCRIBE\nid:0\ndestination:/queue/{queue}\n{mode}\nreceipt:subscribed\n\n\0"
        self.socket.sendall(frame.encode())
        if RECEIPT not in self.socket.recv(READ_BYTES):
            raise LoadError("SUBSCRIBE was not answered by a receipt")

    def read(self) -> None:
        """Take what has come."""
        octets = self.socket.recv(READ_BYTES)
        if not octets:
            raise LoadError("the broker closed the receiver's connection")
        self.bodies.feed(octets)
        if self.errors.feed(octets):
            raise LoadError(octets.decode(errors="replace")[-500:])
        if self._acknowledges:
            self._acknowledge(self._rest + octets)

    def _acknowledge(self, octets: bytes) -> None:
        """Acknowledge the last message whose body is there, and with it all before it."""
        whole = octets.rfind(MARK) + 1  # 0: none
        begin = octets.rfind(ACK_HEADER, 0, whole)
        if begin >= 0:
            identifier = octets[begin + len(ACK_HEADER) : octets.index(b"\n", begin + 1)]
            self.socket.sendall(b"ACK\nid:" + identifier + b"\n\n\0")
        self._rest = octets[max(begin + 1, len(octets) - 4096) :]


def run(sender: Sender, receiver: Receiver, measured: Run, count: int) -> tuple[float, float]:
    """Send and receive all; return after how many seconds the last answer and the last delivery came."""
    sent_after = received_after = 0.0
    progress = (0, 0)
    changed = time.monotonic()
    with selectors.DefaultSelector() as chosen:
        chosen.register(receiver.socket, selectors.EVENT_READ)
        chosen.register(sender.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while not (sent_after and received_after):
            writes = selectors.EVENT_WRITE if sender.wants_to_send else 0
            chosen.modify(sender.socket, selectors.EVENT_READ | writes)
            for key, events in chosen.select(1.0):
                if key.fileobj is receiver.socket:
                    receiver.read()
                    continue
                if events & selectors.EVENT_READ:
                    octets = sender.socket.recv(READ_BYTES)
                    sender.receipts.feed(octets)
                    if not octets or octets.startswith(ERROR):
                        raise LoadError(octets.decode(errors="replace") or "the broker closed the sender's connection")
                if events & selectors.EVENT_WRITE and sender.wants_to_send:
                    sender.send()
            sent_after = sent_after or (measured.seconds if sender.done else 0.0)
            received_after = received_after or (measured.seconds if receiver.bodies.count >= count else 0.0)
            now = sender.sent + sender.receipts.count, receiver.bodies.count
            if now != progress:
                progress, changed = now, time.monotonic()
            elif time.monotonic() - changed > IDLE_SECONDS_MAX:
                raise LoadError(f"nothing came for {IDLE_SECONDS_MAX:.0f} s: {progress[1]:,} of {count:,} received")
    return sent_after, received_after


@click.command()
@click.option("--pid", "process_id", type=int, required=True, help="The broker's process.")
@click.option("--port", type=int, required=True)
@click.option("--queue", required=True)
@click.option("--count", type=click.IntRange(1), required=True)
@click.option("--size", type=click.IntRange(len(MARK)), default=1024, show_default=True)
@click.option("--persistent", is_flag=True, help="Persistent messages, receipts and acknowledgements.")
def main(process_id: int, port: int, queue: str, count: int, size: int, persistent: bool) -> None:
    """Send and receive, and print the figures."""
    try:
        receiver = Receiver(port, queue, acknowledges=persistent)
        sender = Sender(port, queue, count, size, persistent=persistent)
        measured = Run(process_id)
        sent_after, received_after = run(sender, receiver, measured, count)
    except (LoadError, OSError) as error:
        raise click.ClickException(str(error)) from error
    received = receiver.bodies.count
    print(json.dumps(measured.figures(
        sent=sender.sent, received=received, sent_after=sent_after, received_after=received_after
    )))  # fmt: skip
    sys.exit(received != count)


if __name__ == "__main__":
    main()
