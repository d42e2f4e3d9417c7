import pika.exceptions
import pytest
import shop


def test_an_order_is_billed_once(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    annulet.require_published("orders", count=1, json={"id": 1})
    paid = []
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}]
    annulet.require_settled("orders")


def test_an_order_is_sent_again_when_its_confirm_is_lost(annulet):
    with annulet.faults.drop(before="confirm"):
        shop.place(annulet.amqp_url, {"id": 1})
    annulet.require_published("orders", count=2, json={"id": 1})


def test_an_order_whose_acknowledgement_is_lost_is_billed_again(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    paid = []
    with annulet.faults.drop(before="ack"), pytest.raises(pika.exceptions.AMQPError):
        shop.bill(annulet.amqp_url, paid.append)
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}, {"id": 1}], annulet.story(b'{"id": 1}')


def test_an_order_that_waits_for_an_hour_is_unpaid(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    annulet.clock.advance("59m")
    annulet.require_none("unpaid")
    annulet.clock.advance("1m")
    annulet.require_published("unpaid", count=1, json={"id": 1})


@pytest.mark.annulet(durable=True)
def test_orders_survive_a_crash(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    annulet.crash()
    paid = []
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}]
