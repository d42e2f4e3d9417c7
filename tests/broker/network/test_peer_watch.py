from __future__ import annotations

import asyncio
import socket
import struct

from annulet.broker.network.peer_watch import (
    KEEP_ALIVE_IDLE_SECONDS,
    KEEP_ALIVE_INTERVAL_SECONDS,
    KEEP_ALIVE_PROBES,
    LOOK_SECONDS,
    PEER_ENDED,
    PEER_GONE,
    PEER_THERE,
    PeerWatch,
    keep_alive,
    state_of_peer,
)
from tests.broker.conftest import until

SECONDS = 10.0


async def connected() -> tuple[asyncio.Server, asyncio.Transport, socket.socket]:
    """Return a listener, the transport of the connection it accepted, which is not read, and its peer."""
    accepted: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            accepted.set_result(transport)

    server = await asyncio.get_running_loop().create_server(Accepting, "127.0.0.1", 0)
    peer = socket.create_connection(server.sockets[0].getsockname())
    return server, await accepted, peer


async def test_what_became_of_a_peer_that_is_not_read() -> None:
    server, transport, peer = await connected()
    assert state_of_peer(transport) == PEER_THERE
    peer.sendall(b"unread")
    peer.shutdown(socket.SHUT_WR)
    await until(lambda: state_of_peer(transport) == PEER_ENDED, SECONDS)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    await until(lambda: state_of_peer(transport) == PEER_GONE, SECONDS)
    transport.abort()
    server.close()


async def test_the_system_is_asked_to_watch_the_peers_machine() -> None:
    server, transport, peer = await connected()
    keep_alive(transport)
    watched = transport.get_extra_info("socket")
    assert watched.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    found = [
        watched.getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    ]
    assert found == [KEEP_ALIVE_IDLE_SECONDS, KEEP_ALIVE_INTERVAL_SECONDS, KEEP_ALIVE_PROBES]
    peer.close()
    transport.abort()
    server.close()


def test_what_is_no_socket_of_the_internet_is_taken_for_alive() -> None:
    class Elsewhere(asyncio.BaseTransport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return default

    keep_alive(Elsewhere())
    assert state_of_peer(Elsewhere()) == PEER_THERE


def test_connections_are_looked_at_once_in_a_while() -> None:
    class Watched:
        looks = 0

        def look_for_end(self) -> None:
            self.looks += 1

    watch, watched = PeerWatch(), Watched()
    for now in (100.0, 100.0 + LOOK_SECONDS / 2, 100.0 + LOOK_SECONDS):
        watch.tick([watched], now)
    assert watched.looks == 2
