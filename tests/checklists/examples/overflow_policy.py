"""A full queue drops what arrives, and its publisher is told that all is well: in the broker and in the oracle."""

from __future__ import annotations

import asyncio

import aio_pika

import annulet.testing
from annulet.core.base.settings import QueueSettings
from annulet.spark.operators import OperatorError, overflow
from annulet.testing.oracle.queue import QueueOracle
from annulet.testing.oracle.records import OracleMessage

POLICY = "absorb"
LIMIT = 2
SENT = 4


async def left_in_the_broker() -> list[int]:
    async with annulet.testing.broker(http=False) as broker, await aio_pika.connect(broker.amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("full", arguments={"x-max-length": LIMIT, "x-overflow": POLICY})
        for number in range(SENT):
            await channel.default_exchange.publish(aio_pika.Message(str(number).encode()), "full")
        left = [int((await queue.get(no_ack=True)).body) for _ in range(LIMIT)]
        assert await queue.get(fail=False) is None
        losses = broker.broker.hosts["/"].ledger.query()
        assert [loss.rule for loss in losses] == [f"max-length={LIMIT}, overflow={POLICY}, evict=least-important"] * 2
        return left


def left_in_the_oracle() -> list[int]:
    oracle = QueueOracle(QueueSettings(max_length=LIMIT, overflow=POLICY))
    for number in range(SENT):
        oracle.publish(OracleMessage(number), 1)
    return [message.number for message in oracle.pending()]


def refused_by_the_operator() -> str:
    try:
        overflow(POLICY, max_length=LIMIT)
    except OperatorError as error:
        return str(error)
    return ""


assert left_in_the_oracle() == [0, 1]
assert "no publisher is told" in refused_by_the_operator()
assert asyncio.run(left_in_the_broker()) == [0, 1]
