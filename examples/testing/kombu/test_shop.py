import shop


def test_an_order_is_billed(annulet):
    shop.place(annulet.amqp_url, {"id": 1})
    paid = []
    shop.bill(annulet.amqp_url, paid.append)
    assert paid == [{"id": 1}]
    annulet.require_settled()


def test_an_order_is_sent_again_when_the_connection_breaks(annulet):
    with annulet.faults.drop(before="publish", times=2):
        shop.place(annulet.amqp_url, {"id": 1})
    annulet.require_published("orders", count=1, json={"id": 1})
