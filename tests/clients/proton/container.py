"""Handlers in a Container as Qpid Proton's examples have them; prints what came of it as JSON.

Arguments: name of the program, URL, queue.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container, Copy, Selector

COUNT = 500


class Send(MessagingHandler):
    """Sends numbered messages as there is credit and counts what the broker confirms."""

    def __init__(self, url: str, queue: str, count: int = COUNT, *options: Any) -> None:
        super().__init__()
        self.url, self.queue, self.total, self.options = url, queue, count, options
        self.sent = self.confirmed = 0

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url, reconnect=False)
        event.container.create_sender(connection, self.queue, options=list(self.options))

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.total:
            colour = "red" if self.sent % 2 else "blue"
            event.sender.send(Message(id=self.sent + 1, body={"sequence": self.sent}, properties={"colour": colour}))
            self.sent += 1
        if any(isinstance(option, AtMostOnce) for option in self.options) and self.sent == self.total:
            event.connection.close()

    def on_accepted(self, event: Any) -> None:
        self.confirmed += 1
        if self.confirmed == self.total:
            event.connection.close()


class Receive(MessagingHandler):
    """Receives so many messages with the default prefetch and acceptance."""

    def __init__(self, url: str, queue: str, count: int, *options: Any) -> None:
        super().__init__()
        self.url, self.queue, self.expected, self.options = url, queue, count, options
        self.received: list[int] = []

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url, reconnect=False)
        event.container.create_receiver(connection, self.queue, options=list(self.options))

    def on_message(self, event: Any) -> None:
        if len(self.received) < self.expected:
            self.received.append(event.message.body["sequence"])
        if len(self.received) == self.expected:
            event.receiver.close()
            event.connection.close()


class SendInTransactions(MessagingHandler, TransactionHandler):
    """The example tx_send: batches, each in a transaction of its own; every other one is aborted."""

    def __init__(self, url: str, queue: str, batches: int, size: int) -> None:
        super().__init__()
        self.url, self.queue, self.batches, self.size = url, queue, batches, size
        self.transaction: Any = None
        self.current = self.sent = self.committed = self.aborted = 0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = self.container.connect(self.url, reconnect=False)
        self.sender = self.container.create_sender(self.connection, self.queue)
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self._send()

    def on_sendable(self, event: Any) -> None:
        if self.transaction is not None:
            self._send()

    def _send(self) -> None:
        while self.transaction is not None and self.sender.credit and self.sent < self.batches * self.size:
            number = self.sent
            self.transaction.send(self.sender, Message(body={"sequence": number}))
            self.sent += 1
            self.current += 1
            if self.current == self.size:
                finished, self.transaction, self.current = self.transaction, None, 0
                if (number // self.size) % 2:
                    finished.abort()
                else:
                    finished.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.committed += 1
        self._next()

    def on_transaction_aborted(self, event: Any) -> None:
        self.aborted += 1
        self._next()

    def _next(self) -> None:
        if self.committed + self.aborted == self.batches:
            self.connection.close()
        else:
            self.container.declare_transaction(self.connection, handler=self)


def simple(url: str, queue: str) -> dict[str, Any]:
    """simple_send and simple_recv."""
    sending, receiving = Send(url, queue), Receive(url, queue, COUNT)
    Container(sending).run()
    Container(receiving).run()
    return {"confirmed": sending.confirmed, "in_order": receiving.received == list(range(COUNT))}


def modes(url: str, queue: str) -> dict[str, Any]:
    """At most once, at least once, browsing and a selector, one after the other."""
    Container(Send(url, queue, 20, AtMostOnce())).run()
    browsing = Receive(url, queue, 20, Copy())
    Container(browsing).run()
    choosing = Receive(url, queue, 10, Selector("colour = 'blue'"))
    Container(choosing).run()
    rest = Receive(url, queue, 10, AtLeastOnce())
    Container(rest).run()
    return {"browsed": browsing.received, "blue": choosing.received, "rest": rest.received}


def transactions(url: str, queue: str) -> dict[str, Any]:
    """tx_send, then simple_recv of what was committed."""
    sending = SendInTransactions(url, queue, batches=6, size=10)
    Container(sending).run()
    receiving = Receive(url, queue, 30)
    Container(receiving).run()
    return {"committed": sending.committed, "aborted": sending.aborted, "received": receiving.received}


if __name__ == "__main__":
    name, given_url, given_queue = sys.argv[1:]
    programs = {"simple": simple, "modes": modes, "transactions": transactions}
    sys.stdout.write(json.dumps(programs[name](given_url, given_queue)))
