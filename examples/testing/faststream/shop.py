"""A shop that answers orders with bills, with FastStream."""

from faststream.rabbit import RabbitBroker, RabbitQueue

ORDERS = RabbitQueue("orders")
BILLS = RabbitQueue("bills")


def shop(url):
    """Return the application for a broker."""
    broker = RabbitBroker(url)

    @broker.subscriber(ORDERS)
    @broker.publisher(BILLS)
    async def bill(order: dict) -> dict:
        """Bill an order."""
        return {"order": order["id"], "price": order["count"] * 5}

    return broker
