import shop


def failing(order):
    """A payment that fails."""
    raise ConnectionError(order)


def test_an_order_is_billed(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    annulet.require_published("orders", count=1, json={"id": 1})
    paid = []
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}]
    annulet.require_settled("orders")


def test_an_order_whose_payment_fails_waits_for_the_next_try(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    shop.bill(annulet.amqp_url, failing)
    assert annulet.messages("orders")[0].state == "pending"
    paid = []
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}], annulet.history()
