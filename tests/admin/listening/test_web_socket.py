from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from starlette.websockets import WebSocket
from wsproto import ConnectionType, WSConnection, events

from annulet import testing
from annulet.admin.listening import web_socket
from annulet.admin.listening.web_socket import LIMIT_MESSAGE, SUBPROTOCOLS, WebSocketTransport
from annulet.admin.listening.web_socket_protocol import Lower
from annulet.broker.security.admission import LIMIT_STRANGERS, LIMIT_WEB_SOCKETS
from annulet.testing.in_process import RunningBroker

CONNECT = "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


class Page:
    """A WebSocket client on asyncio streams."""

    def __init__(self, running: RunningBroker) -> None:
        self.port = int(running.http_url.rpartition(":")[2])
        self.protocol = WSConnection(ConnectionType.CLIENT)

    async def open(self, path: str = "/ws", *, subprotocols: tuple[str, ...] = SUBPROTOCOLS, **headers: str) -> Any:
        """Open, and return the answer to the hand-shake."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        host = headers.pop("host", f"127.0.0.1:{self.port}")
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        request = events.Request(host=host, target=path, subprotocols=list(subprotocols), extra_headers=given)
        self.send(request)
        return await self.next()

    def send(self, event: Any) -> None:
        self.writer.write(self.protocol.send(event))

    async def next(self) -> Any:
        """Return the next event of the WebSocket."""
        while True:
            for event in self.protocol.events():
                return event
            data = await asyncio.wait_for(self.reader.read(65_536), 10)
            self.protocol.receive_data(data or None)

    async def connect(self, **headers: str) -> Page:
        """Open and log in."""
        assert isinstance(await self.open(**headers), events.AcceptConnection)
        self.send(events.TextMessage(CONNECT))
        message = await self.next()
        assert isinstance(message, events.TextMessage)
        assert message.data.startswith("CONNECTED\nversion:1.2\n")
        return self

    def close(self) -> None:
        self.writer.close()


async def test_text_is_answered_with_text_and_binary_with_binary() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.TextMessage("BEGIN\ntransaction:t\nreceipt:1\n\n\0"))
        assert (await page.next()).data == "RECEIPT\nreceipt-id:1\n\n\0"
        page.send(events.BytesMessage(b"ABORT\ntransaction:t\nreceipt:2\n\n\0"))
        assert bytes((await page.next()).data) == b"RECEIPT\nreceipt-id:2\n\n\0"
        page.close()


async def test_a_body_that_is_no_text_comes_in_a_binary_message() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.TextMessage("SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0"))
        page.send(events.BytesMessage(b"SEND\ndestination:/queue/q\ncontent-length:2\n\n\xff\x00\0"))
        page.send(events.TextMessage("\n"))
        message = await page.next()
        assert isinstance(message, events.BytesMessage)
        assert bytes(message.data).endswith(b"\n\n\xff\x00\0")
        page.close()


async def test_frames_may_be_split_and_joined() -> None:
    async with testing.broker() as running:
        page = Page(running)
        assert (await page.open("/stomp")).subprotocol == "v12.stomp"
        for start in range(0, len(CONNECT), 9):
            page.send(events.TextMessage(CONNECT[start : start + 9]))
        assert (await page.next()).data.startswith("CONNECTED")
        page.send(events.TextMessage("BEGIN\ntransaction:t\n\n\0ABORT\ntransaction:t\nreceipt:3\n\n\0"))
        assert (await page.next()).data == "RECEIPT\nreceipt-id:3\n\n\0"
        page.close()


async def test_an_error_is_sent_and_the_web_socket_closed() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.TextMessage("JUMP\n\n\0"))
        assert (await page.next()).data.startswith("ERROR\nmessage:unknown command 'JUMP'")
        closing = await page.next()
        assert isinstance(closing, events.CloseConnection)
        page.close()


async def test_a_page_that_leaves_returns_what_it_held() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.TextMessage("SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\0"))
        page.send(events.TextMessage("SEND\ndestination:/queue/q\n\nx\0"))
        assert (await page.next()).data.startswith("MESSAGE")
        queue = running.broker.hosts["/"].queues["q"]
        assert len(queue.delivering) == running.broker.web_sockets == 1
        page.close()
        await ended(running)
        assert (queue.order.count, len(queue.delivering)) == (1, 0)


async def test_a_ping_is_answered() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.Ping(b"hi"))
        pong = await page.next()
        assert isinstance(pong, events.Pong)
        page.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://rebound.example", "host": "rebound.example"},  # a name made to mean this machine
    ],
)
async def test_pages_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    async with testing.broker() as running:
        page = Page(running)
        answer = await page.open(**headers)
        assert isinstance(answer, events.RejectConnection)
        assert answer.status_code == 403
        assert running.broker.web_sockets == 0
        page.close()


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", ()),
        ("http://127.0.0.1", ()),
        ("http://[::1]:80", ()),
        ("https://app.example", ("https://app.example",)),
        ("http://any.example", ("*",)),
    ],
)
async def test_pages_of_this_machine_and_listed_origins_are_served(origin: str, allowed: tuple[str, ...]) -> None:
    async with testing.broker(web_socket_origins=allowed) as running:
        (await Page(running).connect(origin=origin)).close()


async def test_the_same_site_is_served_to_another_machine() -> None:
    async with testing.broker() as running:
        page = Page(running)
        headers = {"origin": "https://broker.example", "host": "broker.example", "x_forwarded_for": "192.0.2.1"}
        assert isinstance(await page.open(**headers), events.AcceptConnection)
        page.send(events.TextMessage(CONNECT))  # guest may not come from another machine, whatever the proxy's address
        assert (await page.next()).data.startswith("ERROR\nmessage:login refused")
        page.close()


async def test_an_unknown_subprotocol_is_refused_and_none_accepted() -> None:
    async with testing.broker() as running:
        page = Page(running)
        assert isinstance(await page.open(subprotocols=("mqtt",)), events.RejectConnection)
        page.close()
        plain = Page(running)
        assert (await plain.open(subprotocols=())).subprotocol is None
        plain.close()
        old = Page(running)
        assert (await old.open(subprotocols=("v10.stomp", "v11.stomp"))).subprotocol == "v11.stomp"
        old.close()


async def test_web_sockets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "WEB_SOCKETS_MAX", 1)
    async with testing.broker() as running:
        first = await Page(running).connect()
        second = Page(running)
        assert isinstance(await second.open(), events.RejectConnection)
        assert running.broker.admission.refused[LIMIT_WEB_SOCKETS] == 1
        first.close()
        second.close()


async def test_strangers_of_one_address_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "WEB_SOCKET_STRANGERS_MAX", 2)
    async with testing.broker() as running:
        admission = running.broker.admission
        strangers = [Page(running), Page(running)]
        for page in strangers:
            assert isinstance(await page.open(), events.AcceptConnection)
        third = Page(running)
        assert isinstance(await third.open(), events.RejectConnection)
        assert admission.refused[LIMIT_STRANGERS] == 1
        strangers[0].send(events.TextMessage(CONNECT))
        assert (await strangers[0].next()).data.startswith("CONNECTED")
        assert admission.web_socket_strangers == {"127.0.0.1": 1}
        fourth = await Page(running).connect()
        for page in (*strangers, third, fourth):
            page.close()
        await ended(running)
        assert (admission.web_socket_strangers, admission.http_connections) == ({}, 0)


async def test_a_web_socket_is_no_http_connection_any_longer() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        assert (running.broker.web_sockets, running.broker.admission.http_connections) == (1, 0)
        page.close()


@pytest.mark.parametrize("logged_in", [False, True])
async def test_tiny_frames_arrive_whole_and_let_others_have_their_turns(logged_in: bool) -> None:
    async with testing.broker() as running:
        page = Page(running)
        assert isinstance(await page.open(), events.AcceptConnection)
        octets = CONNECT.encode() + (b"\n" * 20_000 if logged_in else b"")
        page.writer.write(b"".join(b"\x82\x81\0\0\0\0" + bytes([octet]) for octet in octets))
        assert bytes((await page.next()).data).startswith(b"CONNECTED\n")
        assert not logged_in or running.broker.input_turns.cut > 0
        page.close()


async def test_a_peer_that_closes_while_something_is_sent_to_it_is_no_defect() -> None:
    async with testing.broker() as running:
        with structlog.testing.capture_logs() as lines:
            for number in range(10):
                page = await Page(running).connect()
                page.send(events.TextMessage("SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0"))
                page.send(events.TextMessage("SEND\ndestination:/queue/q\n\n" + "x" * 10_000 * number + "\0"))
                page.send(events.CloseConnection(1000))
                page.close()
            await ended(running)
        assert [line for line in lines if line["log_level"] == "error"] == []


async def test_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.admin.service.WEB_SOCKET_MESSAGE_BYTES_MAX", 2000)
    async with testing.broker() as running:
        page = await Page(running).connect()
        page.send(events.TextMessage("\n" * 2000))
        page.send(events.TextMessage("BEGIN\ntransaction:t\nreceipt:1\n\n\0"))
        assert (await page.next()).data.startswith("RECEIPT")
        page.send(events.TextMessage("\n" * 2001))
        closing = await page.next()
        assert isinstance(closing, events.CloseConnection)
        assert closing.code == 1009
        await ended(running)
        assert running.broker.admission.limit_hits == {("STOMP 1.2", LIMIT_MESSAGE): 1}
        page.close()


async def ended(running: RunningBroker) -> None:
    """Return when the broker has forgotten all WebSockets."""
    async with asyncio.timeout(10):
        while running.broker.web_sockets:  # noqa: ASYNC110 - a counter tells nobody
            await asyncio.sleep(0.005)


async def test_a_page_that_reads_nothing_is_cut_with_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends no more heart-beats is aborted; one who is closed politely has a grace."""
    monkeypatch.setattr(web_socket, "CLOSE_GRACE_SECONDS", 0.05)
    async with testing.broker(stomp=True) as running:
        # not the page, which masks each byte in Python
        connected, publisher = await asyncio.open_connection(*running.stomp_address)
        publisher.write(CONNECT.encode())
        await connected.readuntil(b"\0")
        (of_publisher,) = running.broker.connections
        body = b"x" * 4_000_000
        for politely in (True, False):
            page = await Page(running).connect()
            page.writer.transport.pause_reading()  # type: ignore[attr-defined]
            page.send(events.TextMessage("SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0"))
            (connection,) = (one for one in running.broker.connections if one is not of_publisher)
            while not connection._transport_paused:
                publisher.write(b"SEND\ndestination:/queue/q\n\n%b\0" % body)
                await publisher.drain()
                await asyncio.sleep(0.01)
            if politely:
                connection.force_close("enough")
                await asyncio.sleep(0)
                connection.abort()  # what the grace of the connection itself does
            else:
                connection.abort()
            await ended(running)
            tasks = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
            assert not [name for name in tasks if "run_asgi" in name], tasks
            page.writer.transport.abort()
        publisher.transport.abort()


async def test_a_client_certificate_is_a_login_unless_it_is_a_proxys() -> None:
    class Below:
        def get_extra_info(self, name: str) -> str:
            return f"its {name}"

    def transport(**headers: str) -> WebSocketTransport:
        socket = WebSocket(
            {
                "type": "websocket",
                "client": ("192.0.2.1", 7),
                "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            },
            None,  # type: ignore[arg-type] # nothing is sent
            None,  # type: ignore[arg-type]
        )
        return WebSocketTransport(socket, Lower(Below()), None)  # type: ignore[arg-type]

    assert transport().get_extra_info("ssl_object") == "its ssl_object"
    assert transport().get_extra_info("peername") == ("192.0.2.1", 7)
    proxied = transport(x_forwarded_for="198.51.100.1")
    assert proxied.get_extra_info("ssl_object") is None
    assert proxied.get_extra_info("peername") == ("forwarded by 192.0.2.1", 7)
    assert proxied.get_extra_info("sockname") == "its sockname"


async def test_a_defect_in_serving_is_logged() -> None:
    class Failing(Protocol):
        def resume_writing(self) -> None:
            raise ZeroDivisionError("a defect")

    socket, protocol = Socket(), Failing()
    transport = WebSocketTransport(socket, Lower(BELOW), protocol)  # type: ignore[arg-type] # stand-ins
    transport.set_write_buffer_limits(high=1)
    socket.may_send.set()
    transport.write(b"xx")
    with structlog.testing.capture_logs() as lines:
        await asyncio.wait_for(transport.run(), 10)
    assert [line["event"] for line in lines] == ["defect while serving a web socket"]


BELOW: Any = None
"""No socket: what is not asked for is not there."""


class Protocol:
    """What a transport tells its protocol."""

    name = "peer"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Socket:
    """A WebSocket that sends when it is told to."""

    def __init__(self) -> None:
        self.may_send = asyncio.Event()
        self.sent: list[str] = []
        self.closed = False

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send_text(self, text: str) -> None:
        await self.may_send.wait()
        self.sent.append(text)

    async def close(self) -> None:
        self.closed = True


async def test_a_slow_page_holds_its_writer_back_and_gets_everything_before_the_end() -> None:
    socket, protocol = Socket(), Protocol()
    transport = WebSocketTransport(socket, Lower(BELOW), protocol)  # type: ignore[arg-type] # stand-ins
    transport.set_write_buffer_limits(high=10)
    running = asyncio.create_task(transport.run())
    transport.write(b"x" * 10)
    assert protocol.calls == []
    await asyncio.sleep(0)
    transport.write(b"y")
    assert (protocol.calls, transport.get_write_buffer_size()) == (["pause"], 11)
    transport.close()
    transport.write(b"z")
    assert transport.is_closing()
    socket.may_send.set()
    await asyncio.wait_for(running, 10)
    assert ("".join(socket.sent), socket.closed, protocol.calls) == ("x" * 10 + "y", True, ["pause", "resume"])
