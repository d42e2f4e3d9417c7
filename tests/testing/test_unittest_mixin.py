from __future__ import annotations

import unittest

from annulet.testing import BrokerMixin
from tests.testing.conftest import channel_of


class Inner:
    """Keeps pytest from collecting the classes that the tests run."""

    class OrderTest(BrokerMixin, unittest.TestCase):
        broker_options = {"heartbeat": 7}  # noqa: RUF012 - as users write it
        urls: list[str] = []  # noqa: RUF012

        def test_one(self) -> None:
            self.place()

        def test_two(self) -> None:
            self.place()

        def place(self) -> None:
            self.urls.append(self.broker.amqp_url)
            assert self.broker.configuration.heartbeat == 7
            with channel_of(self.broker) as channel:
                channel.queue_declare("orders")
                self.broker.require_none("orders")
                channel.basic_publish("", "orders", b"1")
                self.broker.require_published("orders", count=1)


def test_each_test_has_an_empty_broker() -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Inner.OrderTest).run(result)
    assert result.errors == result.failures == []
    assert result.testsRun == 2
    assert len(Inner.OrderTest.urls) == 2
    assert len(set(Inner.OrderTest.urls)) == 1
