"""A shop that sends orders to a queue and bills them, with pika."""

import json

import pika

ORDERS = "orders"
ARGUMENTS = {"x-message-ttl": 3_600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "unpaid"}


def declare(channel):
    """Declare the queues."""
    channel.queue_declare("unpaid", durable=True)
    channel.queue_declare(ORDERS, durable=True, arguments=ARGUMENTS)


def place(url, order):
    """Send an order, and again where no confirm comes."""
    while True:
        try:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                channel = connection.channel()
                declare(channel)
                channel.confirm_delivery()
                channel.basic_publish("", ORDERS, json.dumps(order), pika.BasicProperties(delivery_mode=2))
                return
        except (pika.exceptions.ConnectionClosed, pika.exceptions.StreamLostError):
            continue


def bill(url, pay):
    """Bill all waiting orders: ``pay`` is called with each."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        declare(channel)
        while True:
            method, _, body = channel.basic_get(ORDERS)
            if method is None:
                return
            pay(json.loads(body))
            channel.basic_ack(method.delivery_tag)
