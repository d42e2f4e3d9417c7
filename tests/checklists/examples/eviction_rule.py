"""A full queue evicts by a new rule: in the broker, in the oracle, and in the book of a DataFrame."""

from __future__ import annotations

import asyncio

import aio_pika

import annulet.testing
from annulet.core.base.settings import QueueSettings
from annulet.spark.operators import ring
from annulet.spark.operators.book import ENTRY, Book, Changes, Item
from annulet.testing.oracle.ranking import victim
from annulet.testing.oracle.records import OracleMessage

RULE = "smallest"
SIZES = (3, 1, 5, 2)
LEFT = [3, 5]


async def left_in_the_broker() -> list[int]:
    async with annulet.testing.broker(http=False) as broker, await aio_pika.connect(broker.amqp_url) as connection:
        channel = await connection.channel()
        arguments = {"x-max-length": len(LEFT), "x-overflow": "drop-head", "x-evict": RULE}
        queue = await channel.declare_queue("bounded", arguments=arguments)
        for size in SIZES:
            await channel.default_exchange.publish(aio_pika.Message(b"x" * size), "bounded")
        return [len((await queue.get(no_ack=True)).body) for _ in LEFT]


def left_in_the_book() -> list[int]:
    book = Book(ring(len(LEFT), evict=RULE).rules)
    changes = Changes()
    for sequence, size in enumerate(SIZES):
        book.arrive(Item(ENTRY, "bounded", sequence, size=size), None, 0, changes)
    removed = {item.sequence for item, _, _ in changes.removed}
    return [size for sequence, size in enumerate(SIZES) if sequence not in removed]


def victim_of_the_oracle() -> int:
    messages = [OracleMessage(number, size=size) for number, size in enumerate(SIZES)]
    return victim(QueueSettings(evict=RULE), messages, {}).size


assert asyncio.run(left_in_the_broker()) == LEFT
assert left_in_the_book() == LEFT
assert victim_of_the_oracle() == min(SIZES)
