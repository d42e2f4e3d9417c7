import dramatiq
import pytest
import shop


@pytest.fixture
def bill(annulet):
    shop.paid.clear()
    broker, actor = shop.shop(annulet.amqp_url)
    yield actor
    broker.close()


def test_an_order_becomes_a_message(annulet, bill):
    bill.send({"id": 1})
    (message,) = annulet.require_published("default", count=1)
    assert message.json["args"] == [{"id": 1}]


def test_a_worker_bills_it(annulet, bill):
    worker = dramatiq.Worker(bill.broker, worker_timeout=100)
    worker.start()
    bill.send({"id": 1})
    bill.broker.join("default", timeout=30_000)
    worker.join()
    worker.stop()
    assert shop.paid == [{"id": 1}]
    annulet.require_settled("default")
