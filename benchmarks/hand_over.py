"""What it costs to hand messages to the process that owns the queues, and from it: ``python -m benchmarks.hand_over``.

Three processes: one sends batches, one owns a queue, one receives. The octets are those of ``marshal``, the cheapest
form that gives Python objects. TLS is measured beside it, as what another process could take over.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import ssl
import statistics
import struct
import time
from collections import deque

import click
import trustme

HEADER_BYTES = 14
READ_BYTES = 1 << 18
SOCKET_BYTES = 1 << 20
LENGTH = struct.Struct("<I")
KIB = 1024
ROUNDS = 3
TLS_WRITES = 500


def batch_of(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """Return a batch behind its length."""
    octets = marshal.dumps(messages)
    return LENGTH.pack(len(octets)) + octets


def send(pipe: socket.socket, batch: bytes, count: int) -> None:
    """Be the process with the senders."""
    for _ in range(count):
        pipe.sendall(batch)


def own(incoming: socket.socket, outgoing: socket.socket) -> int:
    """Be the process with the queue until the sender has ended; return how many messages passed."""
    queue: deque[tuple[int, bytes, bytes]] = deque()
    rest, passed = bytearray(), 0
    while octets := incoming.recv(READ_BYTES):
        rest += octets
        place = 0
        while len(rest) - place >= LENGTH.size:
            begin = place + LENGTH.size
            (length,) = LENGTH.unpack_from(rest, place)
            if len(rest) - begin < length:
                break
            queue.extend(marshal.loads(memoryview(rest)[begin : begin + length]))  # noqa: S302 - our own octets
            place = begin + length
            passed += len(queue)
            outgoing.sendall(batch_of([queue.popleft() for _ in range(len(queue))]))
        del rest[:place]
    return passed


def owner_microseconds(size: int, together: int, count: int) -> float:
    """Return the owner's processor time for each of ``count`` messages in batches of so many."""
    pairs = [socket.socketpair() for _ in range(2)]
    for one in (one for pair in pairs for one in pair):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    (sender, incoming), (outgoing, receiver) = pairs
    batch = batch_of([(1, os.urandom(HEADER_BYTES), os.urandom(size)) for _ in range(together)])  # none is another one
    children = []
    for child in ("sender", "receiver"):
        process = os.fork()
        if process == 0:
            if child == "sender":
                send(sender, batch, count // together)
            else:
                for one in (sender, incoming, outgoing):
                    one.close()
                while receiver.recv(READ_BYTES):
                    pass
            os._exit(0)
        children.append(process)
    sender.close()
    receiver.close()
    begun = time.process_time()
    passed = own(incoming, outgoing)
    taken = time.process_time() - begun
    incoming.close()
    outgoing.close()
    for process in children:
        os.waitpid(process, 0)
    return taken / passed * 1e6


def tls_microseconds(size: int) -> tuple[float, float]:
    """Return what a KiB takes to be encrypted and decrypted in records that writes of ``size`` make."""
    authority = trustme.CA()
    server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server_context)
    authority.configure_trust(client_context)
    to_server, to_client, from_server, from_client = (ssl.MemoryBIO() for _ in range(4))
    server = server_context.wrap_bio(to_server, from_server, server_side=True)
    client = client_context.wrap_bio(to_client, from_client, server_hostname="localhost")
    for _ in range(5):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    encrypting = decrypting = 0.0
    for _ in range(TLS_WRITES):
        begun = time.process_time()
        server.write(bytes(size))
        octets = from_server.read()
        encrypting += time.process_time() - begun
        to_client.write(octets)
        begun, left = time.process_time(), size
        while left:
            left -= len(client.read(left))
        decrypting += time.process_time() - begun
    kib = TLS_WRITES * size / KIB
    return encrypting / kib * 1e6, decrypting / kib * 1e6


@click.command()
@click.option("--count", type=click.IntRange(64), default=192_000, show_default=True, help="Messages of a round.")
def main(count: int) -> None:
    """Print processor times in microseconds."""
    for size in (16, KIB):
        for together in (1, 16, 64):
            taken = [owner_microseconds(size, together, count) for _ in range(ROUNDS)]
            print(f"{size} B, batches of {together}: {statistics.median(taken):.2f} µs a message for the owner")
    for size in (KIB, 16 * KIB):
        encrypting, decrypting = tls_microseconds(size)
        print(f"TLS, records of {size // KIB} KiB: {encrypting:.2f} µs to encrypt, {decrypting:.2f} to decrypt a KiB")


if __name__ == "__main__":
    main()
