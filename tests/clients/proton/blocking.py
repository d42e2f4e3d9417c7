"""The blocking interface of Qpid Proton as its examples use it; prints what came of it as JSON.

Arguments: name of the program, URL, queue.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from proton import Message, Timeout
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

SECONDS = 20


def hello(url: str, queue: str) -> dict[str, Any]:
    """Send, receive, accept, reject, release; time out on an empty queue."""
    connection = BlockingConnection(url, timeout=SECONDS)
    receiver = connection.create_receiver(queue)
    sender = connection.create_sender(queue)
    state = str(sender.send(Message(body="Hello World!")).remote_state)
    first = receiver.receive(timeout=SECONDS).body
    receiver.accept()
    sender.send(Message(body="twice"))
    counts = [receiver.receive(timeout=SECONDS).delivery_count]
    receiver.release(delivered=True)
    counts.append(receiver.receive(timeout=SECONDS).delivery_count)
    receiver.release(delivered=False)
    counts.append(receiver.receive(timeout=SECONDS).delivery_count)
    receiver.reject()
    try:
        receiver.receive(timeout=0.2)
        empty = False
    except Timeout:
        empty = True
    connection.close()
    return {"state": state, "body": first, "delivery_counts": counts, "empty": empty}


def refusals(url: str, queue: str) -> dict[str, Any]:
    """What a blocking program sees of refusals: an exception at the attach, another at the send."""
    connection = BlockingConnection(url, timeout=SECONDS)
    try:
        connection.create_sender(f"/exchanges/{queue}-unheard-of/key")
        attach = "accepted"
    except LinkDetached as error:
        attach = error.condition
    sender = connection.create_sender(None)
    try:
        sender.send(Message(address=f"/exchanges/{queue}-unheard-of/key", body="x"))
        send = "accepted"
    except SendException as error:
        send = str(error.state)
    connection.close()
    try:
        BlockingConnection("amqp://unknown.invalid:5672", timeout=SECONDS)
        host = "connected"
    except OSError:
        host = "unknown"
    return {"attach": attach, "send": send, "host": host}


class Server(MessagingHandler):
    """The server of the request-response example: answers in capitals over the anonymous terminus."""

    def __init__(self, url: str, queue: str, requests: int) -> None:
        super().__init__()
        self.url = url
        self.queue = queue
        self.requests = requests
        self.ready = threading.Event()

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.url)
        self.receiver = event.container.create_receiver(self.connection, self.queue)
        self.sender = event.container.create_sender(self.connection, None)

    def on_link_opened(self, event: Any) -> None:
        if event.receiver is not None:
            self.ready.set()

    def on_message(self, event: Any) -> None:
        request = event.message
        answer = Message(address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id)
        self.sender.send(answer)
        self.requests -= 1

    def on_settled(self, event: Any) -> None:
        if self.requests == 0:
            event.connection.close()


def calls(url: str, queue: str) -> dict[str, Any]:
    """Synchronous requests to a server in a thread."""
    lines = ["Twas brillig, and the slithy toves", "Did gire and gymble in the wabe."]
    server = Server(url, queue, len(lines))
    thread = threading.Thread(target=Container(server).run, daemon=True)
    thread.start()
    server.ready.wait(SECONDS)
    connection = BlockingConnection(url, timeout=SECONDS)
    client = SyncRequestResponse(connection, queue)
    answers = [client.call(Message(body=line)).body for line in lines]
    connection.close()
    thread.join(SECONDS)
    return {"answers": answers, "ended": not thread.is_alive()}


if __name__ == "__main__":
    name, given_url, given_queue = sys.argv[1:]
    sys.stdout.write(json.dumps({"hello": hello, "refusals": refusals, "calls": calls}[name](given_url, given_queue)))
