"""A shop whose orders are messages of Dramatiq."""

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

paid = []


def shop(url):
    """Return the broker and the actor that bills orders."""
    broker = RabbitmqBroker(url=url)

    @dramatiq.actor(broker=broker, max_retries=0)
    def bill(order):
        paid.append(order)

    return broker, bill
