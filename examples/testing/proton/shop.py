"""A shop that sends orders over AMQP 1.0 and bills them, with Qpid Proton."""

import json

from proton import Message
from proton.utils import BlockingConnection


def place(url, order):
    """Send an order and wait for its outcome."""
    connection = BlockingConnection(url, allowed_mechs="PLAIN")
    sender = connection.create_sender("orders")
    sender.send(Message(json.dumps(order), durable=True))
    connection.close()


def bill(url, pay):
    """Bill one order; a payment that fails releases it."""
    connection = BlockingConnection(url, allowed_mechs="PLAIN")
    receiver = connection.create_receiver("orders")
    message = receiver.receive(timeout=30)
    try:
        pay(json.loads(message.body))
    except ConnectionError:
        receiver.release()
    else:
        receiver.accept()
    connection.close()
