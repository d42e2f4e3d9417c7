import asyncio

from shop import shop


async def test_an_order_becomes_a_bill(annulet):
    async with shop(annulet.amqp_url) as broker:
        await broker.start()
        await broker.publish({"id": 1, "count": 3}, "orders")
        await asyncio.to_thread(annulet.wait_settled, "orders")
    annulet.require_settled("orders")


async def test_a_broken_order_is_rejected_and_explained(annulet):
    async with shop(annulet.amqp_url) as broker:
        await broker.start()
        await broker.publish({"id": 1}, "orders")
        await asyncio.to_thread(annulet.wait_settled, "orders")
    events = [line.split()[2] for line in annulet.story(b'{"id":1}').splitlines()]
    assert events == ["published", "delivered", "rejected"]
