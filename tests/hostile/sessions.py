"""The sessions that are replayed: what real clients do, recorded anew at each start, so that no recording gets old.

Clients that are not installed are left out; pika, py-amqp and stomp.py are always there.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Callable, Iterator

import amqp
import pika
import pyarrow as pa
import pytest
from wsproto import ConnectionType, WSConnection, events

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import BulkError
from annulet.bulk.protocol.url import parse_url
from tests.clients.amqp10 import Client, data, proton_missing, proton_process, rhea_missing, rhea_process
from tests.clients.driven import DriverProcess
from tests.clients.stomp_client import StompClient
from tests.hostile.recording import SECURED_DOORS, Session, record
from tests.hostile.site import BULK_QUEUE, HOSTILE, PASSWORD, Site

CONNECT = f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{HOSTILE}\npasscode:{PASSWORD}\n\n\0"


def with_pika(port: int) -> None:
    """Declare, bind, publish with confirms, get, consume, reject, a transaction, an error, delete."""
    credentials = pika.PlainCredentials(HOSTILE, PASSWORD)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, credentials=credentials))
    channel = connection.channel()
    channel.queue_declare("hostile-pika", durable=True, arguments={"x-ring-size": 50, "x-message-ttl": 60_000})
    channel.exchange_declare("hostile-topic", "topic")
    channel.queue_bind("hostile-pika", "hostile-topic", "a.#")
    channel.confirm_delivery()
    for number in range(5):
        properties = pika.BasicProperties(
            delivery_mode=2, priority=number, headers={"number": number, "deep": {"a": [1]}}
        )
        channel.basic_publish("hostile-topic", "a.b", b"body" * 50, properties)
    method, _, _ = channel.basic_get("hostile-pika")
    channel.basic_reject(method.delivery_tag, requeue=True)
    for method, _, _ in channel.consume("hostile-pika", inactivity_timeout=0.2):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    transacted = connection.channel()
    transacted.tx_select()
    transacted.basic_publish("", "hostile-pika", b"t")
    transacted.tx_rollback()
    transacted.basic_publish("", "hostile-pika", b"t")
    transacted.tx_commit()
    channel.queue_purge("hostile-pika")
    channel.queue_delete("hostile-pika")
    channel.exchange_delete("hostile-topic")
    connection.close()


def with_py_amqp(port: int) -> None:
    """A large body in several frames, and a channel that ends with an error."""
    with amqp.Connection(f"127.0.0.1:{port}", userid=HOSTILE, password=PASSWORD) as connection:
        channel = connection.channel()
        channel.queue_declare("hostile-amqp", exclusive=True, auto_delete=False)
        channel.basic_publish(amqp.Message(b"x" * 200_000, delivery_mode=1), "", "hostile-amqp")
        message = channel.basic_get("hostile-amqp")
        channel.basic_ack(message.delivery_tag)
        channel.queue_delete("hostile-amqp")
        with pytest.raises(amqp.NotFound):
            connection.channel().queue_declare("hostile-missing", passive=True)


def with_stomp_py(port: int) -> None:
    """Send with receipts, subscribe by client, acknowledge, a transaction, a durable subscription."""
    client = StompClient(port).connect(HOSTILE, PASSWORD, **{"client-id": "hostile-stomp"})
    client.subscribe("/queue/hostile-stomp", "s", "client-individual")
    for number in range(5):
        client.send("/queue/hostile-stomp", f"body {number}", persistent="true", priority=str(number))
    for _ in range(4):
        frame = client.next()
        client.connection.ack(frame.headers["ack"])
    client.connection.nack(client.next().headers["ack"])
    transaction = client.connection.begin()
    client.connection.send("/queue/hostile-stomp", "t", transaction=transaction)
    client.connection.abort(transaction)
    client.connection.unsubscribe("s")
    client.connection.disconnect()


def _amqp10_work(driver: DriverProcess) -> Callable[[int], None]:
    def work(port: int) -> None:
        client = Client(driver, f"amqp://{HOSTILE}:{PASSWORD}@127.0.0.1:{port}")
        connection = client.connect()
        sender = connection.sender("hostile-amqp10")
        receiver = connection.receiver("hostile-amqp10")
        for number in range(5):
            sender.send(data(b"body" * 50, durable=True, properties={"number": number}))
        receiver.take(5)
        sender.send(data(b"x" * 200_000))
        receiver.take(1)
        connection.close()

    return work


def with_http(port: int) -> None:
    """Read, list, an operation that is refused, a path that is not there."""
    token = base64.b64encode(f"{HOSTILE}:{PASSWORD}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    for verb, path, body in (
        ("GET", "/health/ready", None), ("GET", "/metrics", None), ("GET", "/api/v1/queues", None),
        ("POST", "/api/v1/queues/%2F/hostile-http/operations", b'{"operation": "purge"}'),
        ("GET", "/nothing/here?a=b", None),
    ):  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(verb, path, body, headers)
        connection.getresponse().read()
        connection.close()


def with_web_socket(port: int) -> None:
    """STOMP over WebSocket: hand-shake, login, a message there and back, a ping, the end."""
    protocol = WSConnection(ConnectionType.CLIENT)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        request = events.Request(host=f"127.0.0.1:{port}", target="/ws", subprotocols=["v12.stomp"])
        send = [request, events.TextMessage(CONNECT)]
        send.append(events.TextMessage("SUBSCRIBE\nid:1\nreceipt:0\ndestination:/queue/hostile-web\n\n\0"))
        send.append(events.TextMessage("SEND\ndestination:/queue/hostile-web\n\nbody\0"))
        send.append(events.Ping(b"ping"))
        send.append(events.TextMessage("DISCONNECT\nreceipt:1\n\n\0"))
        for event in send:
            peer.sendall(protocol.send(event))
            protocol.receive_data(peer.recv(65_536))
            list(protocol.events())
        peer.sendall(protocol.send(events.CloseConnection(code=1000)))


def with_bulk(port: int) -> None:
    """Write a batch, take it by a lease, read it back, refuse a row, end the lease, ask for what is not there."""
    client = BulkClient(parse_url(f"annulet://{HOSTILE}:{PASSWORD}@127.0.0.1:{port}/"), retry_seconds=0)
    rows = pa.record_batch({"body": [b"body" * 50] * 5, "routing_key": [BULK_QUEUE] * 5, "priority": list(range(5))})
    stage = f"0-0-0-{'0' * 32}"
    client.put(protocol.PutStage(query=HOSTILE, stage=stage), rows.schema, [rows, rows])
    client.act(protocol.CommitPublish(query=HOSTILE, batch=0, stages=[stage], address=BULK_QUEUE))
    opening = protocol.OpenLease(queue=BULK_QUEUE, lease=HOSTILE, owner=HOSTILE, fresh=True, on_existing="release")
    generation = client.act(opening)["generation"]
    upto = client.act(protocol.ExtendLease(lease=HOSTILE, generation=generation, start=0))["position"]
    list(client.get(protocol.FetchTicket(lease=HOSTILE, owner=HOSTILE, after=0, upto=upto)))
    client.act(protocol.RejectPositions(lease=HOSTILE, positions=[1]))
    client.act(protocol.AcknowledgeLease(lease=HOSTILE, generation=generation, upto=upto))
    client.act(protocol.ReleaseLease(lease=HOSTILE))
    with pytest.raises(BulkError):
        client.act(protocol.QueueStatus(queue="neighbour-amqp"))
    client.close()


def _within_tls(tls: ssl.SSLContext) -> Callable[[int], None]:
    """Return the work of a client whose recorded octets are those of TLS: a hello, and what nothing can decrypt."""

    def work(port: int) -> None:
        credentials = pika.PlainCredentials(HOSTILE, PASSWORD)
        options = pika.SSLOptions(tls, "localhost")
        parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=credentials, ssl_options=options)
        pika.BlockingConnection(parameters).close()

    return work


def _clients(site: Site) -> Iterator[tuple[str, str, Callable[[int], None]]]:
    yield "bulk", "bulk", with_bulk
    for door in SECURED_DOORS:  # to all of them: the octets of TLS come before those of the protocol
        yield "TLS", door, _within_tls(site.tls)
    yield "pika", "amqp", with_pika
    yield "py-amqp", "amqp", with_py_amqp
    yield "stomp.py", "stomp", with_stomp_py
    yield "http", "http", with_http
    yield "web-socket", "http", with_web_socket


def recorded_sessions(site: Site) -> list[Session]:
    """Let every client that is installed do its work once and return what they sent."""
    sessions: list[Session] = []
    site.delete_hostile_queues()  # and have the queue of bulk transfer
    for name, door, work in _clients(site):
        listener = "amqps" if name == "TLS" else door  # whose client was recorded
        sessions += record(name, door, site.ports[listener], work)
    for name, missing, process in (("proton", proton_missing, proton_process), ("rhea", rhea_missing, rhea_process)):
        if missing():
            continue
        with process() as driver:
            sessions += record(name, "amqp", site.ports["amqp"], _amqp10_work(driver))
    return sessions
