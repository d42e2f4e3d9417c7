import pytest
import shop
from celery.contrib.testing.worker import start_worker


@pytest.fixture
def application(annulet):
    shop.application.conf.broker_url = annulet.amqp_url
    shop.paid.clear()
    yield shop.application
    shop.application.close()


def test_an_order_becomes_a_task(annulet, application):
    shop.bill.delay({"id": 1})
    (message,) = annulet.require_published("celery", count=1, header={"task": "shop.bill"})
    assert message.json[0] == [{"id": 1}]


def test_a_worker_bills_it(annulet, application):
    with start_worker(application, perform_ping_check=False):
        shop.bill.delay({"id": 1})
        annulet.wait_settled("celery")
    assert shop.paid == [{"id": 1}]
    annulet.require_settled("celery")
