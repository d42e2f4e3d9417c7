"""A broker for ``unittest``: a mix-in that gives each test a broker without anything in it."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any, ClassVar

from annulet.testing.session import BrokerSession

if TYPE_CHECKING:
    from annulet.testing.threaded import ThreadedBroker


class BrokerMixin(unittest.TestCase):
    """Gives each test ``self.broker``. Put it before other bases; ``broker_options`` go to the broker.

    Example::

        class OrderTest(BrokerMixin, unittest.TestCase):
            def test_order(self) -> None:
                send_order(self.broker.amqp_url)
    """

    broker_options: ClassVar[dict[str, Any]] = {}
    broker: ThreadedBroker
    _session: ClassVar[BrokerSession]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the thread of the class's brokers."""
        super().setUpClass()
        cls._session = BrokerSession()
        cls.addClassCleanup(cls._session.close)

    def setUp(self) -> None:
        """Start a broker."""
        super().setUp()
        self.broker = self._session.start(**self.broker_options)
        self.addCleanup(self.broker.stop)
