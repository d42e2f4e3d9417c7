"""What the broker ends itself when a time is over: peers that fall silent, queues, messages, deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from tests.regression.blocking_clients import (
    Amqp091Client,
    BlockingClient,
    HttpClient,
    StompClient,
    WebSocketClient,
)
from tests.regression.cycle_kinds import Places, channel, kind

AT_ONCE: Final = 200
"""Peers that are silent at once: all wait for the same time-out."""


CHANNELS: Final = 50
"""Channels of one connection whose deliveries time out at once."""


def at_once(count: int, make: Callable[[int], BlockingClient]) -> None:
    """Make clients, group after group, and wait until the broker has ended them."""
    for first in range(0, count, AT_ONCE):
        wait_for_ends([make(number) for number in range(first, min(first + AT_ONCE, count))])


def wait_for_ends(clients: Iterable[BlockingClient]) -> None:
    """Read from each until its end."""
    for client in clients:
        client.wait_for_end()
        client.socket.close()


@kind
def peers_silent_before_the_login(places: Places, count: int) -> None:
    def upgraded() -> BlockingClient:
        client = WebSocketClient(places.http)
        client.upgrade()
        return client

    def beginning(address: tuple[str, int], octets: bytes) -> BlockingClient:
        client = BlockingClient(address)
        client.send(octets)
        return client

    doors: tuple[Callable[[], BlockingClient], ...] = (
        lambda: BlockingClient(places.amqp),
        lambda: beginning(places.amqp, b"AMQP\0\0\x09\x01"),
        lambda: beginning(places.amqp, b"AMQP\x03\x01\0\0"),
        lambda: BlockingClient(places.amqps),
        lambda: BlockingClient(places.amqps, tls=places.tls),
        lambda: BlockingClient(places.stomp),
        lambda: beginning(places.stomp, b"CONNECT\nlogin:guest\n"),
        lambda: BlockingClient(places.https),
        lambda: beginning(places.http, b"GET /metrics HTTP/1.1\r\n"),
        upgraded,
        lambda: BlockingClient(places.bulk_address),
        lambda: beginning(places.bulk_address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        lambda: BlockingClient(places.bulks, tls=places.tls),
    )
    at_once(count, lambda number: doors[number % len(doors)]())


@kind
def peers_silent_after_the_login(places: Places, count: int) -> None:
    def make(number: int) -> BlockingClient:
        if number % 3 == 0:
            return Amqp091Client(places.amqp).open(heartbeat=1)
        if number % 3 == 1:
            client = StompClient(places.stomp)
            login = {"login": "guest", "passcode": "guest"}
            client.frame("CONNECT", accept_version="1.2", host="/", heart_beat="1000,0", **login)
            client.answer()
            return client
        waiting = HttpClient(places.http)
        waiting.request("GET", "/health/live", keep=True)
        return waiting

    at_once(count, make)


@kind
def amqp091_queues_and_messages_that_expire(places: Places, count: int) -> None:
    with channel(places) as client:
        for number in range(count):
            arguments = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"e{number}"}
            client.call(1, "queue.declare", {"queue": "ageing", "durable": bool(number % 2), "arguments": arguments})
            expiring = {"queue": f"e{number}", "durable": bool(number % 2), "arguments": {"x-expires": 100}}
            client.call(1, "queue.declare", expiring)
            for _ in range(3):
                client.publish(1, "ageing", b"x")
            time.sleep(0.002)
            client.call(1, "queue.delete", {"queue": "ageing"})
    time.sleep(1.0)  # the last of them have expired by then


@kind
def amqp091_deliveries_that_time_out(places: Places, count: int) -> None:
    for first in range(0, count, CHANNELS):
        channels = range(1, 1 + min(CHANNELS, count - first))
        with Amqp091Client(places.amqp).open() as client:
            for number in channels:
                client.call(number, "channel.open")
                exclusive = {"queue": f"q{number}", "exclusive": True, "arguments": {"x-consumer-timeout": 1}}
                client.call(number, "queue.declare", exclusive)
                client.call(number, "basic.consume", {"queue": f"q{number}"})
            for number in channels:
                client.publish(number, f"q{number}", b"x")
            ended = 0
            while ended < len(channels):
                ended += client.next_method().specification.name == "channel.close"
            for number in channels:
                client.method(number, "channel.close-ok")
