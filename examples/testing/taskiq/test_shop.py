import asyncio

import pytest
import shop
from taskiq.api import run_receiver_task


@pytest.fixture
async def bill(annulet):
    shop.paid.clear()
    broker, task = shop.shop(annulet.amqp_url)
    broker.is_worker_process = True
    await broker.startup()
    yield task
    await broker.shutdown()


async def test_an_order_becomes_a_task(annulet, bill):
    await bill.kiq({"id": 1})
    (message,) = annulet.require_published("taskiq", count=1)
    assert message.json["args"] == [{"id": 1}]


async def test_a_receiver_bills_it(annulet, bill):
    receiver = asyncio.create_task(run_receiver_task(bill.broker))
    await bill.kiq({"id": 1})
    await asyncio.to_thread(annulet.wait_settled, "taskiq")
    receiver.cancel()
    assert shop.paid == [{"id": 1}]
