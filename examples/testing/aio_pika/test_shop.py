import asyncio

import shop


async def test_an_order_is_billed(annulet):
    paid = []

    async def pay(order):
        paid.append(order)

    await shop.place(annulet.amqp_url, {"id": 1})
    await shop.bill(annulet.amqp_url, pay, 1)
    assert paid == [{"id": 1}]
    annulet.require_settled("orders")


async def test_a_payment_that_fails_is_tried_again_after_its_delay(annulet):
    tries = []
    failed = asyncio.Event()

    async def pay(order):
        tries.append(order)
        if len(tries) == 1:
            failed.set()
            raise ConnectionError

    await shop.place(annulet.amqp_url, {"id": 1})
    billing = asyncio.create_task(shop.bill(annulet.amqp_url, pay, 1))
    await failed.wait()
    annulet.clock.advance("30s")
    await billing
    assert tries == [{"id": 1}, {"id": 1}], annulet.history()
