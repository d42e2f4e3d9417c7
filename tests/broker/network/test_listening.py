from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest

from annulet.broker.network.listening import (
    ListenerError,
    bound_endpoint,
    bound_transport,
    is_loopback,
    open_listening_socket,
    site_of,
)
from annulet.broker.settings.configuration import Endpoint
from annulet.broker.turns.input_shares import INPUT_BYTES_FIRST


def test_port_zero_is_a_free_port_of_the_system() -> None:
    with open_listening_socket(Endpoint("127.0.0.1", 0), "HTTP", "--http") as listening:
        endpoint = bound_endpoint(listening)
    assert endpoint.host == "127.0.0.1"
    assert endpoint.port > 0


def test_an_address_in_use_is_named_with_the_remedy() -> None:
    with open_listening_socket(Endpoint("127.0.0.1", 0), "HTTP", "--http") as listening:
        endpoint = bound_endpoint(listening)
        with pytest.raises(ListenerError) as caught:
            open_listening_socket(endpoint, "HTTP", "--http")
    assert str(caught.value) == (
        f"HTTP listener: cannot listen on {endpoint}: the address is in use by another program; set --http HOST:PORT"
    )


def test_addresses_of_other_machines_and_unknown_hosts() -> None:
    with pytest.raises(ListenerError, match="this machine does not have that address"):
        open_listening_socket(Endpoint("192.0.2.1", 0), "AMQP", "--amqp")
    with pytest.raises(ListenerError, match=r"unknown host 'absent\.invalid'"):
        open_listening_socket(Endpoint("absent.invalid", 0), "AMQP", "--amqp")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:10.0.0.1", False),
        ("127.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.", False),
        ("forwarded by 127.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("forwarded by ::1", "forwarded by ::1"),
        ("", ""),
    ],
)
def test_what_counts_as_one_peer_address(address: str, site: str) -> None:
    assert site_of(address) == site


class Reader(asyncio.Protocol):
    """Notes how much comes at once."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.limits = (0, 0)
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        whole = cast("asyncio.Transport", transport)
        bound_transport(whole, 1 << 20)
        self.limits = whole.get_write_buffer_limits()

    def data_received(self, data: bytes) -> None:
        self.reads.append(len(data))

    def connection_lost(self, error: BaseException | None) -> None:
        self.ended.set_result(error)


async def test_no_more_is_read_at_once_than_one_turn_may_handle() -> None:
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10 * INPUT_BYTES_FIRST)
    theirs.setblocking(False)
    size = theirs.send(bytes(10 * INPUT_BYTES_FIRST))  # all there before the first read, as much as the system takes
    assert size > INPUT_BYTES_FIRST
    theirs.close()
    _, reader = await asyncio.get_running_loop().connect_accepted_socket(Reader, ours)
    await reader.ended
    assert sum(reader.reads) == size
    assert max(reader.reads) == INPUT_BYTES_FIRST
    assert reader.limits[1] == 1 << 20
