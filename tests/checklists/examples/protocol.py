"""A new protocol: a client of it logs in, sends and reads, and exchanges messages with a client of AMQP."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aio_pika

import annulet.testing
from annulet.broker.settings.configuration import LOOPBACK, load
from annulet.cli.serve import command_line_document


class LineClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, line: str) -> str:
        self.writer.write(line.encode() + b"\n")
        return await self.answer()

    async def answer(self) -> str:
        return (await asyncio.wait_for(self.reader.readline(), 30)).decode().rstrip("\n")


async def connect(url: str) -> LineClient:
    parts = urlsplit(url)
    assert parts.port
    return LineClient(*await asyncio.open_connection(parts.hostname, parts.port))


async def use() -> None:
    listener = load(command_line={"memory": True, "listeners": {"line": f"{LOOPBACK}:0"}})
    assert command_line_document({"line": "off"}) == {"listeners": {"line": "off"}}
    async with (
        annulet.testing.broker(http=False, line=getattr(listener, "line")) as broker,  # noqa: B009 - the example adds it
        await aio_pika.connect(broker.amqp_url) as connection,
    ):
        channel = await connection.channel()
        queue = await channel.declare_queue("shop")
        stranger = await connect(broker.urls["line"])
        assert (await stranger.ask("SEND shop hello")).startswith("ERROR")
        assert not await stranger.answer()
        guest = await connect(broker.urls["line"])
        assert (await guest.ask("LOGIN guest wrong")).startswith("ERROR")
        client = await connect(broker.urls["line"])
        assert await client.ask("LOGIN guest guest") == "OK"
        assert await client.ask("SEND shop from lines") == "OK"
        received = await queue.get(no_ack=True)
        assert received.body == b"from lines"
        assert (await client.ask("READ elsewhere")).startswith("ERROR")
        assert await client.ask("READ shop") == "OK"
        await channel.default_exchange.publish(aio_pika.Message(b"from AMQP"), "shop")
        assert await client.answer() == "MESSAGE shop from AMQP"
        for each in (stranger, guest, client):
            each.writer.close()
            await each.writer.wait_closed()


asyncio.run(use())
