from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.network.listening import ListenerError
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.stomp.listener import StompService
from tests.certificates import Certificates

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


async def test_a_socket_is_served_and_closed_after_an_error() -> None:
    async with testing.broker(stomp=True, http=False) as running:
        host, port = running.stomp_address
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(CONNECT)
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED\nversion:1.2\n")
        writer.write(b"JUMP\n\n\0")
        assert (await reader.read()).startswith(b"ERROR\nmessage:unknown command 'JUMP' in STOMP 1.2")
        writer.close()
        assert running.broker.connections_accepted == 1


async def test_the_reason_arrives_however_much_was_sent_behind_the_mistake() -> None:
    async with testing.broker(stomp=True, http=False) as running:
        reader, writer = await asyncio.open_connection(*running.stomp_address)
        writer.write(CONNECT)
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED\n")
        writer.write(b"JUMP\n\n\0" + b"SEND\ndestination:/queue/q\n\nx\0" * 100_000)
        received = await reader.read()
        assert received.startswith(b"ERROR\nmessage:unknown command 'JUMP'")
        writer.close()
        await writer.wait_closed()


async def test_many_small_pieces_and_a_half_closed_socket() -> None:
    async with testing.broker(stomp=True, http=False) as running:
        reader, writer = await asyncio.open_connection(*running.stomp_address)
        for octet in CONNECT:
            writer.write(bytes([octet]))
            await writer.drain()
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_an_address_in_use_is_named() -> None:
    async with testing.broker(stomp=True, http=False) as running:
        service = StompService(Endpoint(*running.stomp_address))
        with pytest.raises(ListenerError, match=r"STOMP listener: cannot listen on .* in use.*--stomp"):
            await service.start(running.broker)
        await service.stop()


@pytest.mark.parametrize(("verify", "which"), [("optional", "common-name"), ("required", "san-dns")])
async def test_a_client_certificate_is_a_login_by_the_settings_of_this_listener(
    tmp_path: Path, verify: str, which: str
) -> None:
    certificates = Certificates(tmp_path)
    own = certificates.settings(verify=verify, certificate_name=which)
    named = {"common-name": ("other", "guest"), "san-dns": ("guest", "other")}[which]
    context = certificates.client_context(certificates.issue("client", named[0], common_name=named[1]))
    for settings in ({"stomps": own}, {"stomps": own, "amqps": certificates.settings()}):
        async with testing.broker(http=False, stomps=Endpoint(LOOPBACK, 0), tls=settings) as running:
            host, _, port = running.urls["stomps"].rpartition("/")[2].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
            assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED\n")
            (connection,) = running.broker.connections
            assert (connection.user_name, connection.peer.certificate_name) == ("guest", "guest")
            writer.close()


def test_urls_name_what_listens() -> None:
    assert StompService(None).urls == {}
    both = StompService(Endpoint(LOOPBACK, 1), Endpoint(LOOPBACK, 2))
    assert both.urls == {"stomp": "stomp://127.0.0.1:1", "stomps": "stomp+ssl://127.0.0.1:2"}


async def test_without_a_listener_there_is_no_address() -> None:
    async with testing.broker(http=False) as running:
        with pytest.raises(LookupError, match="stomp=True"):
            _ = running.stomp_address
