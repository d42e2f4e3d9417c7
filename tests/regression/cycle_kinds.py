"""Everything that opens and closes, in every protocol: each kind opens and closes so many things of it.

The functions block and are run in a thread beside the broker. :data:`KINDS` has them by their names.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from annulet.core.message import PropertyValue
from annulet.core.typed_values import Described, Symbol
from annulet.wire.amqp091.constants import PROTOCOL_HEADER
from annulet.wire.amqp10.frames import FRAME_SASL, SASL_HEADER, encode_frame
from annulet.wire.amqp10.outcomes import Accepted, Declare, Declared, Discharge, TransactionalState
from annulet.wire.amqp10.performatives import Disposition, Transfer, encode_performative
from annulet.wire.amqp10.sasl import SaslInit, SaslMechanisms
from annulet.wire.amqp10.terminus import Coordinator, Source, Target
from tests.regression.blocking_clients import (
    Amqp091Client,
    Amqp10Client,
    BlockingClient,
    HttpClient,
    StompClient,
    WebSocketClient,
    data_message,
    value_message,
)


@dataclass(frozen=True)
class Places:
    """Where the broker listens, and what trusts it."""

    amqp: tuple[str, int]
    stomp: tuple[str, int]
    http: tuple[str, int]
    amqps: tuple[str, int]
    https: tuple[str, int]
    bulk: str  # an address with user and password
    bulk_address: tuple[str, int]
    bulks: tuple[str, int]
    tls: ssl.SSLContext


Kind = Callable[[Places, int], None]
KINDS: Final[dict[str, Kind]] = {}

QUEUE_ARGUMENTS: Final[dict[str, dict[str, PropertyValue]]] = {
    "plain": {},
    "priorities": {"x-max-priority": 5},
    "last value": {"x-last-value-key": "k"},
    "ring": {"x-ring-size": 3},
    "groups": {"x-group-mode": "sticky"},
    "fair": {"x-fair-key": "k"},
    "length": {"x-max-length": 3},
    "time to live": {"x-message-ttl": 60_000},
    "dead letters": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "held"},
    "sorted": {"x-sort-key": "k"},
    "one active consumer": {"x-single-active-consumer": True},
    "non-destructive": {"x-non-destructive": True},
    "expires": {"x-expires": 60_000},
    "paged": {"x-overflow": "page", "x-max-bytes": 2},
}


CREDIT: Final = 500
"""Messages that a receiver takes before its session ends: the windows of the client are 1,000 transfers."""


def kind(work: Kind) -> Kind:
    """Enter a function among the kinds."""
    KINDS[work.__name__] = work
    return work


# ---------------------------------------------------------------------- AMQP 0-9-1


@contextmanager
def channel(places: Places) -> Iterator[Amqp091Client]:
    """A connection with channel 1."""
    with Amqp091Client(places.amqp).open() as client:
        client.call(1, "channel.open")
        yield client


@kind
def amqp091_connections(places: Places, count: int) -> None:
    for _ in range(count):
        Amqp091Client(places.amqp).open().close()


@kind
def amqp091_connections_reset_with_deliveries_held(places: Places, count: int) -> None:
    for _ in range(count):
        client = Amqp091Client(places.amqp).open()
        client.call(1, "channel.open")
        client.call(1, "queue.declare", {"queue": "held", "durable": True})
        client.publish(1, "held", b"x", mode=2)
        client.call(1, "basic.qos", {"prefetch_count": 10})
        client.call(1, "basic.consume", {"queue": "held"})
        client.next_method()
        client.reset()


@kind
def amqp091_connections_cut_within_a_body(places: Places, count: int) -> None:
    for _ in range(count):
        with channel(places) as client:
            client.publish(1, "held", b"x" * 1000, announced=2000)
            client.send(b"\x03\x00\x01\x00\x00\x10\x00" + b"y" * 100)


@kind
def amqp091_connections_cut_in_a_transaction(places: Places, count: int) -> None:
    for _ in range(count):
        with channel(places) as client:
            client.call(1, "tx.select")
            client.publish(1, "held", b"x", mode=2)
            client.call(1, "basic.qos", {"prefetch_count": 1})


@kind
def amqp091_logins_refused(places: Places, count: int) -> None:
    for _ in range(count):
        with Amqp091Client(places.amqp) as client:
            client.open(response=b"\0guest\0wrong")


@kind
def amqp091_cut_before_the_login(places: Places, count: int) -> None:
    for number in range(count):
        with Amqp091Client(places.amqp) as client:
            client.send(b"AMQP\0\0\x09\x01"[: 8 if number % 2 else 5])
            if number % 2:
                client.next_method()
                client.send(b"\x01\0\0\0\0\x10\0" + b"z" * 1000)


@kind
def amqp091_wrong_protocol_headers(places: Places, count: int) -> None:
    for _ in range(count):
        with Amqp091Client(places.amqp) as client:
            client.send(b"GET / HTTP/1.1\r\n")
            client.wait_for_end()


@kind
def amqp091_connections_in_error(places: Places, count: int) -> None:
    for _ in range(count):
        with channel(places) as client:
            client.call(1, "channel.open")
            client.method(0, "connection.close-ok")
            client.wait_for_end()


@kind
def amqp091_channels(places: Places, count: int) -> None:
    with channel(places) as client:
        for number in range(count):
            client.call(2, "channel.open")
            if number % 2:
                client.call(2, "channel.close")
            else:
                client.call(2, "queue.declare", {"queue": "missing", "passive": True})
                client.method(2, "channel.close-ok")


@kind
def amqp091_consumers(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "consumed"})
        for _ in range(count):
            client.call(1, "basic.consume", {"queue": "consumed", "consumer_tag": "c"})
            client.call(1, "basic.cancel", {"consumer_tag": "c"})


@kind
def amqp091_queues_of_every_kind(places: Places, count: int) -> None:
    with channel(places) as client:
        for number in range(count):
            for arguments in QUEUE_ARGUMENTS.values():
                name = f"q{number}"
                declared = {"queue": name, "durable": bool(number % 2), "arguments": arguments}
                client.call(1, "queue.declare", declared)
                for _ in range(5):
                    client.publish(1, name, b"x", mode=2)
                client.call(1, "basic.get", {"queue": name})
                client.call(1, "queue.delete", {"queue": name})


@kind
def amqp091_exclusive_queues(places: Places, count: int) -> None:
    for _ in range(count):
        with channel(places) as client:
            client.call(1, "queue.declare", {"exclusive": True, "arguments": {"x-group-mode": "sticky"}})


@kind
def amqp091_automatically_deleted_queues(places: Places, count: int) -> None:
    with channel(places) as client:
        for _ in range(count):
            client.call(1, "queue.declare", {"queue": "once", "auto_delete": True})
            client.call(1, "basic.consume", {"queue": "once", "consumer_tag": "c"})
            client.call(1, "basic.cancel", {"consumer_tag": "c"})


@kind
def amqp091_direct_replies(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "asked"})
        for _ in range(count):
            reply_to = {"queue": "amq.rabbitmq.reply-to", "consumer_tag": "replies", "no_ack": True}
            client.call(1, "basic.consume", reply_to)
            client.publish(1, "asked", b"?", reply_to="amq.rabbitmq.reply-to")
            client.call(1, "basic.get", {"queue": "asked", "no_ack": True})
            client.call(1, "basic.cancel", {"consumer_tag": "replies"})


@kind
def amqp091_returns(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "confirm.select")
        for _ in range(count):
            client.publish(1, "nowhere", b"x", mandatory=True)
            assert client.next_method().specification.name == "basic.return"
            assert client.next_method().specification.name == "basic.ack"


@kind
def amqp091_exchanges(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "bound"})
        for number in range(count):
            client.call(1, "exchange.declare", {"exchange": f"x{number}", "type": "topic"})
            client.call(1, "queue.bind", {"queue": "bound", "exchange": f"x{number}", "routing_key": "a.*"})
            client.call(1, "exchange.delete", {"exchange": f"x{number}"})


@kind
def amqp091_messages(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "rejects", "arguments": QUEUE_ARGUMENTS["dead letters"]})
        client.call(1, "queue.declare", {"queue": "held", "durable": True})
        for number in range(count):
            client.publish(1, "rejects", b"x", mode=2)
            tag = client.call(1, "basic.get", {"queue": "rejects"}).integer("delivery_tag")
            client.method(1, "basic.reject", {"delivery_tag": tag, "requeue": bool(number % 2)})
            client.call(1, "queue.purge", {"queue": "rejects"})
            client.call(1, "queue.purge", {"queue": "held"})


@kind
def amqp091_transactions(places: Places, count: int) -> None:
    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "transacted"})
        client.call(1, "tx.select")
        for number in range(count):
            client.publish(1, "transacted", b"x")
            client.call(1, "tx.commit")
            tag = client.call(1, "basic.get", {"queue": "transacted"}).integer("delivery_tag")
            client.method(1, "basic.ack", {"delivery_tag": tag})
            client.publish(1, "transacted", b"x")
            client.call(1, "tx.commit" if number % 2 else "tx.rollback")
        client.call(1, "queue.purge", {"queue": "transacted"})


@kind
def amqp091_over_tls(places: Places, count: int) -> None:
    for number in range(count):
        client = Amqp091Client(places.amqps, tls=places.tls).open()
        if number % 2:
            client.close()
        else:
            client.reset()


@kind
def tls_handshakes_that_fail(places: Places, count: int) -> None:
    for number in range(count):
        with Amqp091Client(places.amqps) as client:
            client.send(b"\x16\x03\x01\x00\x05" if number % 2 else b"AMQP\0\0\x09\x01 and no hand-shake")
            if not number % 2:
                client.wait_for_end()


# ---------------------------------------------------------------------- AMQP 1.0


@contextmanager
def session(places: Places) -> Iterator[Amqp10Client]:
    """A connection with a session."""
    with Amqp10Client(places.amqp).open() as client:
        client.begin()
        yield client


@kind
def amqp10_connections(places: Places, count: int) -> None:
    for _ in range(count):
        Amqp10Client(places.amqp).open().close()


@kind
def amqp10_connections_cut(places: Places, count: int) -> None:
    for number in range(count):
        with session(places) as client:
            client.sender("s", Target("held10", capabilities=["queue"]))
            client.transfer(0, data_message(b"x" * 100))
            client.outcome()
            client.receiver("r", Source("held10", capabilities=["queue"]), handle=1)
            client.expect(Transfer)
            client.transfer(1, data_message(b"x" * 1000)[:500], more=True)
            if number % 2:
                client.send(b"\0\0\x10\0\x02\0\0\0" + b"part of a frame")


@kind
def amqp10_logins_refused(places: Places, count: int) -> None:
    for _ in range(count):
        with Amqp10Client(places.amqp) as client:
            client.open(response=b"\0guest\0wrong")
            client.wait_for_end()


@kind
def amqp10_sessions(places: Places, count: int) -> None:
    with session(places) as client:
        for number in range(count):
            client.begin(1)
            client.sender("s", Target("linked"), channel=1)
            client.receiver("r", Source("linked"), handle=1, channel=1)
            if number % 2:
                client.detach(0, channel=1)
            client.end(1)


@kind
def amqp10_links(places: Places, count: int) -> None:
    with session(places) as client:
        for number in range(count):
            client.sender("s", Target("linked"))
            client.receiver("r", Source("linked"), handle=1)
            client.detach(0, closed=bool(number % 2))
            client.detach(1, closed=bool(number % 2))


@kind
def amqp10_links_refused(places: Places, count: int) -> None:
    with session(places) as client:
        for number in range(count):
            source = Source("linked", filter={"s": Described([Symbol("apache.org:selector-filter:string"), "a = ("])})
            client.receiver("r", source, handle=number % 100)
            client.detach(number % 100)


@kind
def amqp10_dynamic_nodes(places: Places, count: int) -> None:
    with session(places) as client:
        for _ in range(count):
            client.receiver("r", Source(dynamic=True))
            client.detach()
    for _ in range(count):
        with session(places) as client:
            client.receiver("r", Source(dynamic=True))


@kind
def amqp10_browsers_and_selectors(places: Places, count: int) -> None:
    with session(places) as client:
        client.sender("s", Target("browsed"), handle=1)
        client.transfer(0, data_message(b"x"), handle=1)
        client.outcome()
        for number in range(count):
            wanted = {"s": Described([Symbol("apache.org:selector-filter:string"), f"n = {number}"])}
            browser = Source("browsed", distribution_mode="copy") if number % 2 else Source("browsed", filter=wanted)
            client.receiver("r", browser)
            client.detach()


@kind
def amqp10_subscriptions(places: Places, count: int) -> None:
    with session(places) as client:
        for number in range(count):
            client.receiver("r", Source("news", durable=2 * (number % 2), capabilities=["topic"]))
            client.detach()


@kind
def amqp10_shared_subscriptions(places: Places, count: int) -> None:
    with session(places) as client:
        for number in range(count):
            kept = Source("news", durable=2, expiry_policy="never", capabilities=["topic", "shared", "global"])
            assert client.receiver(f"shared{number}|global", kept).source is not None
            client.detach(closed=False)
            client.receiver(f"shared{number}|global", kept)
            client.detach()


@kind
def amqp10_messages(places: Places, count: int) -> None:
    for first in range(0, count, CREDIT):
        with session(places) as client:
            client.sender("s", Target("sent"))
            client.receiver("r", Source("sent"), handle=1, credit=CREDIT)
            for number in range(min(CREDIT, count - first)):
                client.transfer(number, data_message(b"x" * 100))
                client.expect(Transfer)
                client.performative(Disposition(True, number, None, True, Accepted()))


@kind
def amqp10_transactions(places: Places, count: int) -> None:
    with session(places) as client:
        client.sender("s", Target("transacted10"))
        client.sender("c", Coordinator(), handle=1)
        delivery = 0
        for number in range(count):
            client.transfer(delivery, value_message(Declare()), handle=1)
            declared = client.outcome()
            assert isinstance(declared, Declared)
            client.transfer(delivery + 1, data_message(b"x"), state=TransactionalState(declared.txn_id))
            client.outcome()
            client.transfer(delivery + 2, value_message(Discharge(declared.txn_id, bool(number % 2))), handle=1)
            client.outcome()
            delivery += 3


@kind
def amqp10_transactions_cut(places: Places, count: int) -> None:
    for _ in range(count):
        with session(places) as client:
            client.sender("s", Target("transacted10"))
            client.sender("c", Coordinator(), handle=1)
            client.transfer(0, value_message(Declare()), handle=1)
            declared = client.outcome()
            client.transfer(1, data_message(b"x"), state=TransactionalState(declared.txn_id))
            client.outcome()


# ---------------------------------------------------------------------- STOMP


@kind
def stomp_connections(places: Places, count: int) -> None:
    for _ in range(count):
        StompClient(places.stomp).open().disconnect()


@kind
def stomp_connections_cut(places: Places, count: int) -> None:
    for number in range(count):
        with StompClient(places.stomp).open() as client:
            client.frame("SUBSCRIBE", id="1", destination="/queue/st", ack="client", receipt="s")
            client.answer()
            client.frame("SEND", b"x", destination="/queue/st")
            client.answer()
            client.frame("BEGIN", transaction="t")
            client.frame("SEND", b"x", destination="/queue/st", transaction="t", receipt="r")
            client.answer()
            if number % 2:
                client.send(b"SEND\ndestination:/queue/st\ncontent-length:10000\n\n" + b"y" * 5000)


@kind
def stomp_cut_before_the_login(places: Places, count: int) -> None:
    for number in range(count):
        with StompClient(places.stomp) as client:
            client.send(
                b"CONNECT\n" + b"a:b\n" * 100 if number % 2 else b"SEND\ncontent-length:99999\n\n" + b"z" * 5000
            )


@kind
def stomp_logins_refused(places: Places, count: int) -> None:
    for _ in range(count):
        with StompClient(places.stomp) as client:
            client.open(passcode="wrong")
            client.wait_for_end()


@kind
def stomp_subscriptions(places: Places, count: int) -> None:
    with StompClient(places.stomp).open() as client:
        for number in range(count):
            client.frame("SUBSCRIBE", id=str(number), destination="/queue/st", selector="n = 1")
            client.frame("UNSUBSCRIBE", id=str(number), receipt="r")
            client.answer()


@kind
def stomp_durable_subscriptions(places: Places, count: int) -> None:
    for number in range(count):
        with StompClient(places.stomp) as client:
            login = {"login": "guest", "passcode": "guest", "client_id": f"c{number}"}
            client.frame("CONNECT", accept_version="1.2", host="/", **login)
            client.answer()
            durable = {"destination": "/topic/news", "durable": "true", "receipt": "r"}
            client.frame("SUBSCRIBE", id="1", **durable)
            assert client.answer().startswith(b"RECEIPT")
            client.frame("UNSUBSCRIBE", id="1", **durable)
            assert client.answer().startswith(b"RECEIPT")


@kind
def stomp_transactions(places: Places, count: int) -> None:
    with StompClient(places.stomp).open() as client:
        for number in range(count):
            client.frame("BEGIN", transaction="t")
            client.frame("SEND", b"x", destination="/topic/nobody", transaction="t")
            client.frame("COMMIT" if number % 2 else "ABORT", transaction="t", receipt="r")
            client.answer()


@kind
def stomp_temporary_queues(places: Places, count: int) -> None:
    for _ in range(count):
        with StompClient(places.stomp).open() as client:
            client.frame("SUBSCRIBE", id="1", destination="/temp-queue/x", receipt="r")
            client.answer()


@kind
def stomp_errors(places: Places, count: int) -> None:
    for _ in range(count):
        with StompClient(places.stomp).open() as client:
            client.frame("UNSUBSCRIBE", id="unknown")
            client.answer()
            client.wait_for_end()


# ---------------------------------------------------------------------- WebSocket and HTTP


@kind
def web_sockets(places: Places, count: int) -> None:
    for number in range(count):
        with WebSocketClient(places.http).open() as client:
            if number % 2:
                client.message(b"DISCONNECT\nreceipt:r\n\n\0")
                client.until(b"receipt-id:r")


@kind
def web_sockets_cut_within_a_message(places: Places, count: int) -> None:
    for number in range(count):
        with WebSocketClient(places.http) as client:
            if number % 2:
                client.open()
                client.message(b"SEND\ndestination:/queue/ws\ncontent-length:99999\n\n" + b"y" * 2000)
            else:
                client.upgrade()
                client.message(b"CONNECT\n" + b"a:b\n" * 100)
            client.message(b"y" * 2000, announced=10_000)


@kind
def web_sockets_refused(places: Places, count: int) -> None:
    for number in range(count):
        with WebSocketClient(places.http) as client:
            if number % 2:
                client.upgrade(Origin="http://elsewhere.example")
            else:
                client.upgrade("/nowhere")
            client.wait_for_end()


@kind
def web_sockets_in_error(places: Places, count: int) -> None:
    for number in range(count):
        with WebSocketClient(places.http).open() as client:
            if number % 2:
                client.message(b"NONSENSE\n\n\0")
                client.until(b"\0")
            else:
                client.message(b"no such kind of message", opcode=0x83)
                client.until(b"\x88")


@kind
def web_sockets_over_tls(places: Places, count: int) -> None:
    for _ in range(count):
        with WebSocketClient(places.https, tls=places.tls).open() as client:
            client.message(b"DISCONNECT\nreceipt:r\n\n\0")
            client.until(b"receipt-id:r")


@kind
def http_requests(places: Places, count: int) -> None:
    for number in range(count):
        with HttpClient(places.http) as client:
            assert b" 200 " in client.request("GET", "/metrics" if number % 2 else "/api/v1/queues")


@kind
def http_requests_in_error(places: Places, count: int) -> None:
    for number in range(count):
        with HttpClient(places.http) as client:
            if number % 3 == 0:
                assert b" 401 " in client.request("GET", "/api/v1/queues", user="guest:wrong")
            elif number % 3 == 1:
                assert b" 404 " in client.request("GET", "/api/v1/queues/%2F/missing")
            else:
                client.send(b"nonsense\r\n\r\n")
                client.wait_for_end()


@kind
def http_operations(places: Places, count: int) -> None:
    def ask(method: str, path: str, body: object = None) -> bytes:
        with HttpClient(places.http) as client:
            return client.request(method, path, body)

    with channel(places) as client:
        client.call(1, "queue.declare", {"queue": "operated"})
        for number in range(count):
            client.publish(1, "operated", b"x")
            operation = {"operation": "purge", "preview": bool(number % 2)}
            assert b" 20" in ask("POST", "/api/v1/queues/%2F/operated/operations", operation)
            assert b" 200 " in ask("GET", "/api/v1/queues/%2F/operated/messages?selector=a%20IS%20NULL")
            assert b" 20" in ask("PUT", f"/api/v1/address-settings/%2F/a{number}", {"max-length": 3})
            assert b" 20" in ask("DELETE", f"/api/v1/address-settings/%2F/a{number}")


@kind
def http_requests_cut(places: Places, count: int) -> None:
    for number in range(count):
        with HttpClient(places.http) as client:
            client.send(b"POST /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf")
            if number % 2:
                client.reset()


@kind
def http_connections_reset_after_an_answer(places: Places, count: int) -> None:
    for _ in range(count):
        client = HttpClient(places.http)
        assert b" 200 " in client.request("GET", "/health/live", keep=True)
        client.until(b"}")
        client.reset()


@kind
def http_over_tls(places: Places, count: int) -> None:
    for _ in range(count):
        with HttpClient(places.https, tls=places.tls) as client:
            client.request("GET", "/healthz")


# ---------------------------------------------------------------------- all protocols


@kind
def connections_cut_while_they_log_in(places: Places, count: int) -> None:
    def amqp091(password: str) -> BlockingClient:
        client = Amqp091Client(places.amqp)
        client.send(PROTOCOL_HEADER)
        client.next_method()
        response = b"\0guest\0" + password.encode()
        client.method(0, "connection.start-ok", {"mechanism": "PLAIN", "response": response, "locale": "en_US"})
        return client

    def amqp10(password: str) -> BlockingClient:
        client = Amqp10Client(places.amqp)
        client.send(SASL_HEADER)
        client.header()
        client.expect(SaslMechanisms)
        initial = SaslInit("PLAIN", b"\0guest\0" + password.encode())
        client.send(encode_frame(FRAME_SASL, 0, encode_performative(initial)))
        return client

    def stomp(password: str) -> BlockingClient:
        client = StompClient(places.stomp)
        client.frame("CONNECT", accept_version="1.2", host="/", login="guest", passcode=password)
        return client

    def web_socket(password: str) -> BlockingClient:
        client = WebSocketClient(places.http)
        client.upgrade()
        client.message(f"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:{password}\n\n\0".encode())
        return client

    def http(password: str) -> BlockingClient:
        client = HttpClient(places.http)
        credentials = base64.b64encode(f"guest:{password}".encode())
        client.send(
            b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + credentials + b"\r\n\r\n"
        )
        return client

    kinds = (amqp091, amqp10, stomp, web_socket, http)
    for number in range(count):
        client = kinds[number % len(kinds)](f"wrong {number}")  # it takes a thread some milliseconds to say so
        client.reset()
