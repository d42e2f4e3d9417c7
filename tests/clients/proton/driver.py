"""Qpid Proton as a client that does what it is told: a command in JSON a line in, an answer a line out.

Runs in the interpreter that has the package of Debian; tests/clients/amqp10.py is the other end. Everything happens in
one Container with one MessagingHandler that notes what it is told; so heartbeats are answered while no command runs, as
in a living application.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import proton
from links import LinkRecord, detail_outcome, receiver_options, sender_options, terminus_facts
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import ApplicationEvent, Container, EventInjector
from values import message_from_json, message_to_json

OUTCOMES = {
    proton.Delivery.ACCEPTED: "accepted", proton.Delivery.REJECTED: "rejected", proton.Delivery.RELEASED: "released",
    proton.Delivery.MODIFIED: "modified", proton.Delivery.RECEIVED: "received", 0x34: "transactional", 0: "none",
}  # fmt: skip
DISPOSITIONS = {name: state for state, name in OUTCOMES.items()}


class CommandError(Exception):
    """The peer refused, or nothing happened in time: told to the tests with the condition that the peer gave."""

    def __init__(self, text: str, condition: str = "") -> None:
        super().__init__(text)
        self.condition = condition


def refusal(what: str, condition: proton.Condition | None) -> CommandError:
    """Return the error for an end of a link, a session or a connection by the peer."""
    if condition is None:
        return CommandError(f"{what} by the peer without an error")
    return CommandError(f"{what}: {condition.description}", condition.name or "")


class Recorder(MessagingHandler, TransactionHandler):
    """Notes what happens on connections, links and transactions."""

    def __init__(self) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False, peer_close_is_error=False)
        self.connections: dict[str, proton.Connection] = {}
        self.closed: dict[str, CommandError] = {}
        self.opens: dict[str, int] = {}  # how often each connection was opened: more than once after a reconnect
        self.transport_errors: list[str] = []
        self.links: dict[str, LinkRecord] = {}
        self.transactions: dict[str, Any] = {}
        self.transaction_events: dict[int, str] = {}

    def name_of(self, connection: proton.Connection) -> str:
        """Return the name under which the tests know a connection."""
        return next(name for name, known in self.connections.items() if known == connection)

    def record_of(self, link: proton.Link) -> LinkRecord | None:
        """Return a link's record; the link of the coordinator has none."""
        return next((record for record in self.links.values() if record.link == link), None)

    def on_connection_opened(self, event: proton.Event) -> None:
        name = self.name_of(event.connection)
        self.opens[name] = self.opens.get(name, 0) + 1
        self.closed.pop(name, None)  # after a reconnect it lives again

    def on_connection_closing(self, event: proton.Event) -> None:
        self.closed[self.name_of(event.connection)] = refusal("connection closed", event.connection.remote_condition)

    def on_connection_error(self, event: proton.Event) -> None:
        self.on_connection_closing(event)
        event.connection.close()

    def on_transport_error(self, event: proton.Event) -> None:
        condition = event.transport.condition
        text = f"{condition.name}: {condition.description}" if condition else "transport closed"
        self.transport_errors.append(text)

    def on_disconnected(self, event: proton.Event) -> None:
        # a close with amqp:connection:forced is not told by itself: Proton waits for the end, perhaps to reconnect
        condition = event.connection.remote_condition or event.transport.condition
        text = condition.description if condition else "disconnected"
        self.closed.setdefault(self.name_of(event.connection), CommandError(text, condition.name if condition else ""))

    def on_session_closing(self, event: proton.Event) -> None:
        self.closed[self.name_of(event.connection)] = refusal("session ended", event.session.remote_condition)

    def on_session_error(self, event: proton.Event) -> None:
        self.on_session_closing(event)
        event.session.close()

    def on_link_closing(self, event: proton.Event) -> None:
        record = self.record_of(event.link)
        if record is not None:
            record.closed = refusal("link closed", event.link.remote_condition)

    def on_link_error(self, event: proton.Event) -> None:
        self.on_link_closing(event)
        event.link.close()

    def on_link_remote_detach(self, event: proton.Event) -> None:
        record = self.record_of(event.link)
        if record is not None:
            record.closed = refusal("link detached", event.link.remote_condition)

    def on_message(self, event: proton.Event) -> None:
        record = self.record_of(event.link)
        assert record is not None, event.link.name
        record.taken += 1
        record.waiting.append((event.delivery, event.message))

    def on_aborted(self, event: proton.Event) -> None:
        record = self.record_of(event.link)
        assert record is not None, event.link.name
        record.aborted += 1

    def _transaction(self, event: proton.Event, what: str) -> None:
        condition = event.delivery.remote.condition
        text = f" {condition.name} {condition.description}" if condition else ""
        self.transaction_events[id(event.delivery.transaction)] = what + text

    def on_transaction_declared(self, event: proton.Event) -> None:
        self._transaction(event, "declared")

    def on_transaction_committed(self, event: proton.Event) -> None:
        self._transaction(event, "committed")

    def on_transaction_aborted(self, event: proton.Event) -> None:
        self._transaction(event, "aborted")

    def on_transaction_declare_failed(self, event: proton.Event) -> None:
        self._transaction(event, "declare failed")

    def on_transaction_commit_failed(self, event: proton.Event) -> None:
        self._transaction(event, "commit failed")


class Driver:
    """The commands. Each method without an underscore is one; its arguments come from the line."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.container = Container(self.recorder)
        self.container.timeout = 0.5
        self.injector = EventInjector()
        self.container.selectable(self.injector)
        self.container.start()
        self.lines: queue.Queue[str] = queue.Queue()
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.lines.put(line)
            self.injector.trigger(ApplicationEvent("command"))
        self.lines.put("")
        self.injector.trigger(ApplicationEvent("command"))

    def run(self) -> None:
        """Answer commands until the input ends."""
        while True:
            self.container.process()
            while not self.lines.empty():
                line = self.lines.get()
                if not line:
                    return
                sys.stdout.write(json.dumps(self._answer(json.loads(line))) + "\n")
                sys.stdout.flush()

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        name = command.pop("do")
        try:
            return {"result": getattr(self, name)(**command)}
        except CommandError as error:
            return {"error": str(error), "condition": error.condition}
        except proton.ProtonException as error:
            return {"error": f"{type(error).__name__}: {error}", "condition": ""}

    def _wait(self, condition: Any, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise CommandError(f"nothing within {seconds} seconds: {what}", "timeout")
            self.container.timeout = min(0.5, remaining)
            self.container.process()

    def _alive(self, record: LinkRecord) -> None:
        name = self.recorder.name_of(record.link.connection)
        error = self.recorder.closed.get(name) or record.closed
        if error is not None:
            raise error

    def connect(
        self, name: str, url: str, container_id: str = "", seconds: float = 20, reconnect: Any = False,
        tls: dict[str, str] | None = None, **options: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Open a connection and say what the peer said of itself."""
        recorder = self.recorder
        self.container.container_id = container_id or name
        domain = None
        if tls is not None:
            domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(tls["authority"])
            domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
            if "certificate" in tls:
                domain.set_credentials(tls["certificate"], tls["key"], None)
        connection = self.container.connect(url, reconnect=reconnect, ssl_domain=domain, handler=None, **options)
        recorder.connections[name] = connection
        try:
            self._wait(lambda: name in recorder.opens or name in recorder.closed, seconds, f"open of {url}")
        except CommandError as error:
            detail = recorder.transport_errors[-1] if recorder.transport_errors else "no answer"
            raise CommandError(f"{error} {detail}", error.condition) from error
        self._wait(lambda: not self._closing(name), 5, "close")
        if name in recorder.closed and not reconnect:
            raise recorder.closed[name]
        transport = connection.transport
        return {
            "container": connection.remote_container, "hostname": connection.remote_hostname,
            "offered": [str(one) for one in connection.remote_offered_capabilities or []],
            "properties": sorted(map(str, connection.remote_properties or {})), "user": transport.sasl().user or "",
            "max_frame_size": transport.remote_max_frame_size, "idle_time_out": transport.remote_idle_timeout,
            "tls": transport.ssl().protocol_name() or "" if domain is not None else "",
        }  # fmt: skip

    def _closing(self, name: str) -> bool:
        """A peer that refuses an open says so in its open's properties, then closes with the error."""
        connection = self.recorder.connections[name]
        properties = connection.remote_properties or {}
        return "amqp:connection-establishment-failed" in properties and name not in self.recorder.closed

    def opens(self, name: str) -> int:
        """Say how often a connection was opened."""
        return self.recorder.opens.get(name, 0)

    def wait_opens(self, name: str, count: int, seconds: float = 20) -> None:
        """Wait until a connection was opened so often."""
        self._wait(lambda: self.recorder.opens.get(name, 0) >= count, seconds, "reconnect")

    def wait_closed(self, name: str, seconds: float = 20) -> dict[str, str]:
        """Wait until the peer closes a connection or a link and say why."""
        recorder = self.recorder
        links = recorder.links
        self._wait(lambda: name in recorder.closed or (name in links and links[name].closed), seconds, "close")
        error = recorder.closed.get(name) or links[name].closed
        return {"condition": error.condition, "text": str(error)}

    def close(self, name: str, seconds: float = 20) -> None:
        """Close a connection and wait for the peer's answer."""
        connection = self.recorder.connections[name]
        if not connection.state & proton.Endpoint.LOCAL_ACTIVE:
            return
        connection.close()
        self._wait(
            lambda: connection.state & proton.Endpoint.REMOTE_CLOSED or name in self.recorder.closed, seconds, "close"
        )

    def sender(self, connection: str, name: str, address: str | None, seconds: float = 20, **options: Any) -> Any:
        """Attach a link to send on."""
        link = self.container.create_sender(
            self.recorder.connections[connection], address, name=options.pop("link_name", name),
            options=sender_options(options),
        )  # fmt: skip
        return self._attach(name, link, seconds)

    def receiver(self, connection: str, name: str, address: str | None, seconds: float = 20, **options: Any) -> Any:
        """Attach a link to receive on, without credit."""
        link = self.container.create_receiver(
            self.recorder.connections[connection], address, name=options.pop("link_name", name),
            dynamic=options.pop("dynamic", False), options=receiver_options(options),
        )  # fmt: skip
        return self._attach(name, link, seconds)

    def _attach(self, name: str, link: Any, seconds: float) -> dict[str, Any]:
        record = LinkRecord(link)
        self.recorder.links[name] = record
        connection = self.recorder.name_of(link.connection)

        def answered() -> bool:
            if record.closed or connection in self.recorder.closed:
                return True
            opened = link.state & proton.Endpoint.REMOTE_ACTIVE
            terminus = link.remote_target if link.is_sender else link.remote_source
            refused = terminus.type == proton.Terminus.UNSPECIFIED  # a detach with the reason follows (§2.6.3)
            return bool(opened) and not refused

        self._wait(answered, seconds, f"attach of {name}")
        self._alive(record)
        return terminus_facts(link)

    def detach(self, name: str, closed: bool = True, seconds: float = 20) -> None:
        """Detach a link and wait for the peer's answer."""
        record = self.recorder.links[name]
        link = record.link
        if closed:
            link.close()
        else:
            link.detach()
        self._wait(
            lambda: record.closed or not link.state & proton.Endpoint.REMOTE_ACTIVE, seconds, f"detach of {name}"
        )

    def send(
        self, link: str, messages: list[Any], transaction: str = "", settled: bool = False, wait: bool = True,
        seconds: float = 20,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Send as the peer's credit allows and return each message's outcome."""
        record = self.recorder.links[link]
        deliveries = []
        for written in messages:
            self._wait(lambda: record.link.credit > 0 or self._gone(record), seconds, f"credit on {link}")
            self._alive(record)
            message = message_from_json(written)
            if transaction:
                delivery = self.recorder.transactions[transaction].send(record.link, message)
            else:
                delivery = record.link.send(message)
            if settled:
                delivery.settle()
            deliveries.append(delivery)
        if settled or not wait:
            return []
        self._wait(lambda: all(self._answered(one) for one in deliveries) or self._gone(record), seconds, "outcomes")
        if self._gone(record) and not all(self._answered(one) for one in deliveries):
            self._alive(record)
        return [self._outcome(delivery) for delivery in deliveries]

    def send_in(self, link: str, transaction_id: str, seconds: float = 20) -> None:
        """Send in a transaction that was never declared, and wait for what the peer thinks of that."""
        record = self.recorder.links[link]
        delivery = record.link.send(proton.Message(body="x"))
        delivery.local.data = [transaction_id.encode()]
        delivery.update(0x34)
        self._wait(lambda: self._answered(delivery) or self._gone(record), seconds, "an error")
        self._alive(record)

    def _gone(self, record: LinkRecord) -> bool:
        return bool(record.closed) or self.recorder.name_of(record.link.connection) in self.recorder.closed

    @staticmethod
    def _answered(delivery: proton.Delivery) -> bool:
        return bool(delivery.settled or delivery.remote_state)

    def _outcome(self, delivery: proton.Delivery) -> dict[str, Any]:
        condition = delivery.remote.condition
        outcome = {
            "outcome": OUTCOMES[int(delivery.remote_state)], "settled": bool(delivery.settled),
            "condition": condition.name if condition else "", "text": condition.description if condition else "",
        }  # fmt: skip
        delivery.settle()
        return outcome

    def credit(self, link: str) -> int:
        """Say how much credit a link has."""
        return self.recorder.links[link].link.credit

    def wait_credit(self, link: str, credit: int = 1, seconds: float = 20) -> int:
        """Wait until the peer granted so much."""
        record = self.recorder.links[link]
        self._wait(lambda: record.link.credit >= credit, seconds, f"credit on {link}")
        return record.link.credit

    def grant(self, link: str, credit: int) -> None:
        """Grant credit to the peer."""
        self.recorder.links[link].link.flow(credit)

    def drain(self, link: str, credit: int, seconds: float = 20) -> int:
        """Ask for all that is there, at most ``credit``; return how many messages came (§2.6.7)."""
        record = self.recorder.links[link]
        before = record.taken
        record.link.drain(credit)
        self._wait(lambda: not record.link.credit or self._gone(record), seconds, f"drain of {link}")
        self._alive(record)
        record.link.drain_mode = False
        return record.taken - before

    def receive(self, link: str, count: int = 1, grant: bool = True, seconds: float = 20) -> list[dict[str, Any]]:
        """Return the next messages, granting credit for what has not come yet."""
        record = self.recorder.links[link]
        missing = count - len(record.waiting) - record.link.credit
        if grant and missing > 0:
            record.link.flow(missing)
        self._wait(lambda: len(record.waiting) >= count or self._gone(record), seconds, f"{count} messages on {link}")
        if len(record.waiting) < count:
            self._alive(record)
        return [self._taken(record) for _ in range(count)]

    def pending(self, link: str, quiet: float = 0.0) -> list[dict[str, Any]]:
        """Return what has come already, after waiting for ``quiet`` seconds in which nothing more comes."""
        record = self.recorder.links[link]
        seen = -1
        while quiet and seen != record.taken:
            seen = record.taken
            deadline = time.monotonic() + quiet
            while time.monotonic() < deadline and seen == record.taken:
                self.container.timeout = quiet / 4
                self.container.process()
        return [self._taken(record) for _ in range(len(record.waiting))]

    def _taken(self, record: LinkRecord) -> dict[str, Any]:
        delivery, message = record.waiting.popleft()
        record.deliveries[delivery.tag] = delivery
        written = message_to_json(message)
        written.update(tag=delivery.tag, settled=bool(delivery.settled))
        return written

    def settle(
        self, link: str, tags: list[str], outcome: str, transaction: str = "", settled: bool = True, **details: Any
    ) -> None:
        """Give messages an outcome; ``details``: condition, failed, undeliverable, annotations."""
        record = self.recorder.links[link]
        for tag in tags:
            delivery = record.deliveries.pop(tag)
            if transaction:
                self.recorder.transactions[transaction].update(delivery, DISPOSITIONS[outcome])
                continue
            detail_outcome(delivery.local, **details)
            if outcome != "none":
                delivery.update(DISPOSITIONS[outcome])
            if settled:
                delivery.settle()
            else:
                record.deliveries[tag] = delivery

    def wait_settled(self, link: str, tag: str, seconds: float = 20) -> str:
        """Wait until the peer settles a delivery that we only gave an outcome (rcv-settle-mode second)."""
        delivery = self.recorder.links[link].deliveries.pop(tag)
        self._wait(lambda: delivery.settled, seconds, "settlement by the peer")
        state = OUTCOMES[int(delivery.remote_state)]
        delivery.settle()
        return state

    def declare(self, connection: str, name: str, seconds: float = 20) -> str:
        """Begin a transaction (§4.2)."""
        recorder = self.recorder
        transaction = self.container.declare_transaction(
            recorder.connections[connection], handler=recorder, settle_before_discharge=True
        )
        recorder.transactions[name] = transaction
        self._wait(
            lambda: id(transaction) in recorder.transaction_events or connection in recorder.closed, seconds, "declare"
        )
        return recorder.transaction_events.pop(id(transaction), "") or str(recorder.closed[connection])

    def discharge(self, name: str, fail: bool = False, seconds: float = 20) -> str:
        """End a transaction (§4.3) and say how."""
        recorder = self.recorder
        transaction = recorder.transactions.pop(name)
        transaction.discharge(fail)
        self._wait(lambda: id(transaction) in recorder.transaction_events, seconds, "discharge")
        return recorder.transaction_events.pop(id(transaction))


if __name__ == "__main__":
    Driver().run()
