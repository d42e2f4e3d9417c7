"""D34: what the broker refuses on a channel, link, session or frame leaves a line and a count, in every protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pika import spec
from structlog.testing import capture_logs

from annulet import testing
from annulet.admin.figures.rendering import render
from annulet.admin.resources.metrics import BrokerCollector, gather
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import NotFoundError
from annulet.testing.in_process import RunningBroker
from tests.bulk.helpers import away, bench, bulk_client
from tests.clients.raw import PROTOCOL_HEADER, content_header, frame, method
from tests.clients.raw10 import AMQP_HEADER, CLOSE, OPEN, attach, begin, performative, transfer
from tests.regression.test_connection_ends import OPENED, STOMP_CONNECT

NAMED = method(
    0,
    spec.Connection.StartOk(
        client_properties={"connection_name": "billing"}, mechanism="PLAIN", response="\0guest\0guest"
    ),
)
OPENED_NAMED = [PROTOCOL_HEADER, NAMED, *OPENED[2:]]
OPENED_10 = [AMQP_HEADER + performative(OPEN, "billing"), begin()]
IMMEDIATE = method(1, spec.Basic.Publish(routing_key="q", immediate=True)) + content_header(1, 1) + frame(3, 1, b"x")
STRANGER = ("", "")

CASES: dict[str, tuple[str, list[bytes], tuple[str, str], str, str]] = {
    "no queue": ("amqp", [*OPENED_NAMED, method(1, spec.Queue.Declare(queue="q", passive=True))],
                 ("AMQP 0-9-1", "404"), "channel 1", "no queue 'q'"),
    "unknown tag": ("amqp", [*OPENED_NAMED, method(1, spec.Basic.Ack(7))],
                    ("AMQP 0-9-1", "406"), "channel 1", "unknown delivery tag"),
    "immediate": ("amqp", [*OPENED_NAMED, IMMEDIATE], ("AMQP 0-9-1", "540"), "", "immediate=true"),
    "frame type": ("amqp", [*OPENED_NAMED, method(1, spec.Basic.Qos()), b"\x09" + bytes(20)],
                  ("AMQP 0-9-1", "501"), "", "unknown frame type 9"),
    "no address": ("amqp", [*OPENED_10, attach("link", 0, True, "/exchanges/none/key")],
                   ("AMQP 1.0", "amqp:not-found"), "link 'link'", "none"),
    "session": ("amqp", [*OPENED_10, transfer(7, 0, b"")],
                ("AMQP 1.0", "amqp:session:unattached-handle"), "session 0", "handle"),
    "frame": ("amqp", [*OPENED_10, bytes(30)],
              ("AMQP 1.0", "amqp:connection:framing-error"), "", "frame"),
    "STOMP": ("stomp", [STOMP_CONNECT % b"guest", b"SUBSCRIBE\nid:1\n\n\0"],
              ("STOMP 1.2", "SUBSCRIBE"), "", "destination"),
    "STOMP frame": ("stomp", [STOMP_CONNECT % b"guest", b"JUMP\n\n\0"],
                    ("STOMP 1.2", "frame"), "", "unknown command"),
}  # fmt: skip


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    async with testing.broker(stomp=True, http=False) as running:
        yield running


@pytest.mark.parametrize("case", CASES)
async def test_a_refusal_leaves_a_line_with_user_name_peer_code_and_reason(running: RunningBroker, case: str) -> None:
    """D34: some forty refusals left no line."""
    listener, pieces, key, where, reason = CASES[case]
    with capture_logs() as lines:
        await talk(running, listener, pieces)
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert line["event"] == ("protocol error" if where else "connection closed")
    assert (line["protocol"], line["code"], line["user"]) == (*key, "guest")
    assert line.get("where", "") == where
    assert reason in line["reason"]
    assert line["peer"].startswith("127.0.0.1:")
    assert line["connection"] == ("" if listener == "stomp" else "billing")
    assert running.broker.protocol_errors.counts == {key: 1}
    text = render(BrokerCollector(await gather(running.broker))).decode()
    assert f'annulet_protocol_errors_total{{code="{key[1]}",protocol="{key[0]}"}} 1.0' in text


@pytest.mark.parametrize(
    ("listener", "pieces", "key"),
    [
        ("amqp", [b"HTTP/1.1"], ("AMQP", "header")),
        ("amqp", [PROTOCOL_HEADER, method(0, spec.Channel.Open())], ("AMQP 0-9-1", "504")),
        ("amqp", [AMQP_HEADER + performative(CLOSE)], ("AMQP 1.0", "amqp:illegal-state")),
        ("stomp", [STOMP_CONNECT % b"wrong"], ("STOMP", "CONNECT")),
        ("stomp", [b"SEND\n\n\0"], ("STOMP", "SEND")),
    ],
)
async def test_what_strangers_do_wrong_is_counted_too(
    running: RunningBroker, listener: str, pieces: list[bytes], key: tuple[str, str]
) -> None:
    """D34: before a login the log names no user; the line is that of connections that never were open."""
    with capture_logs() as lines:
        await talk(running, listener, pieces)
    assert [line["event"] for line in lines if line["log_level"] == "warning"][-1:] == [
        "connection closed before it was open"
    ]
    assert running.broker.protocol_errors.counts == {key: 1}


@pytest.mark.parametrize(
    ("listener", "pieces", "close"),
    [
        ("amqp", OPENED, method(0, spec.Connection.Close(200, "bye", 0, 0))),
        ("amqp", OPENED_10, performative(CLOSE)),
        ("stomp", [STOMP_CONNECT % b"guest"], b"DISCONNECT\nreceipt:1\n\n\0"),
    ],
)
async def test_an_end_without_a_close_is_told_apart(
    running: RunningBroker, listener: str, pieces: list[bytes], close: bytes
) -> None:
    with capture_logs() as lines:
        await talk(running, listener, [*pieces, close])
        await talk(running, listener, pieces)
    ends = [line for line in lines if line["event"] in {"connection closed", "connection dropped"}]
    assert [line["event"] for line in ends] == ["connection closed", "connection dropped"]
    assert {(line["user"], line["vhost"], line["log_level"]) for line in ends} == {("guest", "/", "info")}


async def test_polite_ends_and_those_of_the_operator_are_no_errors(running: RunningBroker) -> None:
    """D34: nor is a lost socket."""
    await talk(running, "amqp", [*OPENED, method(0, spec.Connection.Close(200, "bye", 0, 0))])
    await talk(running, "amqp", [*OPENED_10, performative(CLOSE)])
    await talk(running, "stomp", [STOMP_CONNECT % b"guest", b"DISCONNECT\nreceipt:1\n\n\0"])
    await talk(running, "amqp", OPENED)
    for listener, pieces in (("amqp", OPENED), ("amqp", OPENED_10), ("stomp", [STOMP_CONNECT % b"guest"])):
        await talk(running, listener, pieces, lambda: [c.force_close("enough") for c in running.broker.connections])
    assert running.broker.protocol_errors.counts == {}


async def test_errors_of_bulk_transfer_are_logged_and_counted(tmp_path: Path) -> None:
    """D34: each is a request's, whose connection is Flight's."""
    async with bench(tmp_path) as here:
        with capture_logs() as lines:

            def work() -> None:
                client = bulk_client(here)
                with pytest.raises(NotFoundError):
                    client.act(protocol.OpenLease(queue="none", lease="l", owner="o", fresh=True))
                client.close()

            await away(work)
        (line,) = [line for line in lines if line["event"] == "protocol error"]
        assert (line["protocol"], line["code"], line["user"]) == ("bulk transfer", "not-found", "guest")
        assert line["peer"].startswith("127.0.0.1:")
        assert "none" in line["reason"]
        assert here.broker.protocol_errors.counts == {("bulk transfer", "not-found"): 1}


async def talk(
    running: RunningBroker, listener: str, pieces: list[bytes], then: Callable[[], Any] = lambda: None
) -> None:
    """Say something and go, each piece after the answer to the one before."""
    url = running.broker.amqp_address if listener == "amqp" else running.stomp_address
    reader, writer = await asyncio.open_connection(*url)
    for piece in pieces:
        writer.write(piece)
        await asyncio.wait_for(reader.read(65_536), 10)
    then()
    await asyncio.sleep(0.01)
    writer.close()
    await writer.wait_closed()
    async with asyncio.timeout(10):
        while running.broker.connections or len(running.broker.lingering):  # noqa: ASYNC110 - sockets tell nobody
            await asyncio.sleep(0.005)
