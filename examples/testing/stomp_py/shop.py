"""A shop that sends orders to a queue and bills them, with stomp.py."""

import json
import queue

import stomp


class Inbox(stomp.ConnectionListener):
    """Keeps frames until they are asked for."""

    def __init__(self):
        self.frames = queue.Queue()

    def on_message(self, frame):
        """Keep a frame."""
        self.frames.put(frame)


def connect(address):
    """Return a connection that is logged in, and its inbox."""
    connection = stomp.Connection12([address])
    inbox = Inbox()
    connection.set_listener("", inbox)
    connection.connect("guest", "guest", wait=True)
    return connection, inbox


def place(address, order):
    """Send an order."""
    connection, _ = connect(address)
    connection.send("/queue/orders", json.dumps(order), headers={"size": "large" if order["count"] > 1 else "small"})
    connection.disconnect()


def bill(address, pay, count):
    """Bill so many large orders."""
    connection, inbox = connect(address)
    connection.subscribe("/queue/orders", "1", ack="client-individual", headers={"selector": "size = 'large'"})
    for _ in range(count):
        frame = inbox.frames.get()
        pay(json.loads(frame.body))
        connection.ack(frame.headers["ack"])
    connection.disconnect()
