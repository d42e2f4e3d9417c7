"""A queue keeps the last messages of each publisher: at arrival, at a return, in the loss records and in the oracle."""

from __future__ import annotations

import asyncio
import contextlib

import aio_pika
from aio_pika.exceptions import ChannelPreconditionFailed

import annulet.testing
from annulet.core.base.settings import QueueSettings
from annulet.testing.oracle.queue import QueueOracle
from annulet.testing.oracle.records import OracleMessage

KEEP = 2
SENT = (("shop", "s1"), ("till", "t1"), ("shop", "s2"), ("shop", "s3"))
LEFT = ["t1", "s2", "s3"]
ARGUMENT = {"x-keep-per-publisher": KEEP}


async def left_in_the_broker() -> list[str]:
    async with annulet.testing.broker(http=False) as broker, contextlib.AsyncExitStack() as stack:
        channels = {}
        for name in ("shop", "till", "reader"):
            connection = await stack.enter_async_context(await aio_pika.connect(broker.amqp_url))
            channels[name] = await connection.channel()
        queue = await channels["reader"].declare_queue("kept", arguments=ARGUMENT)
        held = None
        for publisher, text in SENT:
            await channels[publisher].default_exchange.publish(aio_pika.Message(text.encode()), "kept")
            held = held or await queue.get()
        await held.reject(requeue=True)  # superseded meanwhile, so it does not come back
        left = [(await queue.get(no_ack=True)).body.decode() for _ in LEFT]
        assert await queue.get(fail=False) is None
        assert [loss.rule for loss in broker.broker.hosts["/"].ledger.query()] == [f"keep-per-publisher={KEEP}"]
        try:
            await channels["reader"].declare_queue("both", arguments={**ARGUMENT, "x-last-value-key": "k"})
        except ChannelPreconditionFailed as error:
            assert "x-keep-per-publisher" in str(error)  # noqa: PT017 - no test, a program
        else:
            raise AssertionError("a queue has one retention")
        return left


def left_in_the_oracle() -> list[str]:
    settings = {"keep_per_publisher": KEEP}
    oracle = QueueOracle(QueueSettings(**settings))  # type: ignore[arg-type] # the example adds the field
    for number, (publisher, _) in enumerate(SENT):
        oracle.publish(OracleMessage(number, connection=publisher), 1)
    return [SENT[message.number][1] for message in oracle.pending()]


assert asyncio.run(left_in_the_broker()) == LEFT
assert left_in_the_oracle() == LEFT
