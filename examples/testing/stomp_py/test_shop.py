import shop


def test_large_orders_are_billed(annulet):
    shop.place(annulet.stomp_address, {"id": 1, "count": 1})
    shop.place(annulet.stomp_address, {"id": 2, "count": 2})
    annulet.require_published("orders", count=1, header={"size": "large"})
    paid = []
    shop.bill(annulet.stomp_address, paid.append, 1)
    assert paid == [{"id": 2, "count": 2}]
    (left,) = annulet.messages("orders")
    assert left.json["id"] == 1


def test_an_order_whose_acknowledgement_is_lost_comes_back(annulet):
    shop.place(annulet.stomp_address, {"id": 1, "count": 2})
    with annulet.faults.lose("ack"):
        shop.bill(annulet.stomp_address, print, 1)
    paid = []
    shop.bill(annulet.stomp_address, paid.append, 1)
    assert paid == [{"id": 1, "count": 2}], annulet.history()
    assert annulet.story('{"id": 1, "count": 2}').count("delivered") == 2
