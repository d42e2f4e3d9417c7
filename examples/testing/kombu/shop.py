"""A shop that sends orders to a queue and bills them, with kombu."""

import kombu

ORDERS = kombu.Queue("orders", durable=True)


def place(url, order):
    """Send an order, with up to five tries."""
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        producer.publish(
            order, routing_key="orders", declare=[ORDERS], retry=True,
            retry_policy={"max_retries": 5, "interval_start": 0, "interval_step": 0},
        )  # fmt: skip


def bill(url, pay):
    """Bill all waiting orders."""
    with kombu.Connection(url) as connection, connection.SimpleQueue(ORDERS) as queue:
        while queue.qsize():
            message = queue.get()
            pay(message.payload)
            message.ack()
