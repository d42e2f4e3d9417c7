"""STOMP clients that mean harm or do not know better: the broker's memory is bounded and nobody else notices."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.hostile import MESSAGE_BYTES, Bystander, Fortress, fortress_in
from tests.clients.raw_stomp import CONNECT, RawStomp
from tests.clients.support import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("ours")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    yield from fortress_in(tmp_path_factory.mktemp("fortress"), heartbeat=60)


@pytest.fixture
def client(fortress: Fortress, bystander: Bystander) -> Iterator[RawStomp]:
    with RawStomp(fortress.peer) as client:
        yield client


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


# ---------------------------------------------------------------------- before the login


def test_half_a_login_for_ever_is_cut_and_who_is_logged_in_is_not(client: RawStomp, fortress: Fortress) -> None:
    with RawStomp(fortress.peer) as silent, RawStomp(fortress.peer) as halfway:
        client.open()
        halfway.send(CONNECT[:-1])
        silent.expect_end()
        halfway.expect_end()
        client.send(b"BEGIN\ntransaction:t\nreceipt:1\n\n\0")
        client.expect("RECEIPT")


@pytest.mark.parametrize("flood", [b"\n", b"x", b"CONNECT\na:1\n", b"a:b\n\n", b"\0", b"\xff"])
def test_no_more_is_taken_from_strangers_than_a_login_needs(client: RawStomp, flood: bytes) -> None:
    piece = flood * (65_536 // len(flood))
    sent = 0
    while client.send(piece) and sent < 1 << 26:
        sent += len(piece)
    assert sent < 1 << 24, "megabytes were taken from a peer that is not logged in"


def test_a_stranger_is_told_what_is_wrong(client: RawStomp) -> None:
    client.send(b"SEND\ndestination:/queue/q\n\nx\0")
    client.expect_error("first frame is 'SEND'; send CONNECT or STOMP first")


def test_a_giant_body_behind_connect_is_not_waited_for(client: RawStomp) -> None:
    client.send(CONNECT.replace(b"\n\n", b"\ncontent-length:999999999999\n\n"))
    client.expect_error("at most 1048576 are allowed")


def test_three_hundred_who_never_log_in(fortress: Fortress, bystander: Bystander) -> None:
    strangers = [RawStomp(fortress.peer) for _ in range(300)]
    for stranger in strangers:
        stranger.send(CONNECT[:20])
    with RawStomp(fortress.peer) as client:
        client.open()
    for stranger in strangers:
        stranger.socket.close()


# ---------------------------------------------------------------------- frames


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"SEND\ndestination:/queue/q\ncontent-length:%d\n\n" % (MESSAGE_BYTES + 1), "body of 1048577 bytes or more"),
        (b"SEND\ndestination:/queue/q\ncontent-length:9999999999999999999\n\n", "header 'content-length'"),
        (b"SEND\ndestination:/queue/q\n\n" + b"x" * (MESSAGE_BYTES + 1), "at most 1048576 are allowed"),
        (b"SEND\ndestination:/queue/q\n" + b"h:\n" * 1001 + b"\n\0", "frame has 1002 headers, at most 1000"),
        (b"SEND\n" + b"header:endless\n" * 5000, "command and headers exceed 65536 bytes"),
        (b"SEND\ndestination:/queue/" + b"q" * 300 + b"\n\nx\0", "has 300 bytes; give one of at most 255"),
    ],
)
def test_a_frame_beyond_a_limit(client: RawStomp, frame: bytes, words: str) -> None:
    client.open()
    client.send(frame)
    client.expect_error(words)


@pytest.mark.parametrize("seed", range(4))
def test_garbage_after_connected(client: RawStomp, seed: int) -> None:
    client.open()
    client.send(random.Random(seed).randbytes(20_000))
    client.expect_error()


def test_a_giant_length_takes_no_memory_before_its_octets_come(fortress: Fortress, bystander: Bystander) -> None:
    """64 bodies of 1 MiB are announced, and stop half-way in their first octets."""
    clients = [RawStomp(fortress.peer).open() for _ in range(64)]
    for client in clients:
        client.send(b"SEND\ndestination:/queue/q\ncontent-length:%d\n\nonly so much" % MESSAGE_BYTES)
    fortress.check()
    for client in clients:
        client.socket.close()


def test_half_a_message_is_no_message(client: RawStomp, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open()
    client.send(b"SEND\ndestination:%b\n\nwhole\0SEND\ndestination:%b\n\nhalf" % (queue.encode(), queue.encode()))
    client.socket.close()
    assert bystander.wait_for(queue, 1) == [b"whole"]


# ---------------------------------------------------------------------- what a session may have


@pytest.mark.parametrize(
    ("frame", "most", "words"),
    [
        ("SUBSCRIBE\nid:{number}\ndestination:{queue}\n\n\0", 1024, "1024 subscriptions, which is the limit"),
        ("BEGIN\ntransaction:{number}\n\n\0", 256, "256 open transactions, which is the limit"),
        ("SEND\ndestination:/temp-queue/{number}\n\nx\0", 256, "256 temporary queues, which is the limit"),
    ],
    ids=["subscriptions", "transactions", "temporary queues"],
)
def test_floods_of_what_is_bounded(
    client: RawStomp, process: BrokerProcess, bystander: Bystander, frame: str, most: int, words: str
) -> None:
    queue = bystander.declare()
    client.open()
    client.send("".join(frame.format(number=number, queue=queue) for number in range(most)).encode())
    client.send(b"BEGIN\ntransaction:last\nreceipt:1\n\n\0" if "BEGIN" not in frame else b"")
    if "BEGIN" not in frame:
        assert client.expect("RECEIPT").headers == {"receipt-id": "1"}
    client.send(frame.format(number=most, queue=queue).encode())
    client.expect_error(words)
    until(lambda: not temporary_queues(process), "they are gone")


def temporary_queues(process: BrokerProcess) -> list[str]:
    return [queue["name"] for queue in process.get("/api/v1/queues?name=amq.stomp")["items"]]


def test_subscribing_again_and_again(client: RawStomp, bystander: Bystander, fortress: Fortress) -> None:
    queue = bystander.declare(b"1").encode()
    client.open()
    pair = b"SUBSCRIBE\nid:1\ndestination:%b\nack:client\n\n\0UNSUBSCRIBE\nid:1\n\n\0" % queue
    client.send(pair * 2000, b"BEGIN\ntransaction:last\nreceipt:1\n\n\0")
    assert client.expect("MESSAGE").body == b"1"
    client.expect("RECEIPT")


# ---------------------------------------------------------------------- who does not read, or is not there any more


def test_a_reader_that_does_not_read(fortress: Fortress, bystander: Bystander) -> None:
    queue = bystander.declare(*[b"%d" % number for number in range(100)], size=800_000)  # 80 MB
    fortress.before += fortress.grown()  # the messages are in memory already
    with RawStomp(fortress.peer, receive_buffer=4096) as lazy:
        lazy.open()
        lazy.send(b"SUBSCRIBE\nid:1\ndestination:%b\nack:client\nprefetch-count:0\n\n\0" % queue.encode())
        until(lambda: delivering(fortress, queue) > 0, "some are under way")
        assert delivering(fortress, queue) < 20
        fortress.check()
    assert len(bystander.wait_for(queue, 100)) == 100


def delivering(fortress: Fortress, queue: str) -> int:
    count = fortress.process.get(f"/api/v1/queues/%2F/{queue}")["delivering_count"]
    assert isinstance(count, int)
    return count


def test_who_asks_and_does_not_read_the_answers(fortress: Fortress, bystander: Bystander) -> None:
    """Receipts that are as long as what asks for them."""
    request = b"BEGIN\ntransaction:t\nreceipt:%b\n\n\0ABORT\ntransaction:t\n\n\0" % (b"r" * 30_000)
    with RawStomp(fortress.peer, receive_buffer=4096) as lazy:
        lazy.open()
        lazy.socket.settimeout(0.5)
        sent = 0
        while sent < 200 << 20:
            try:
                lazy.socket.sendall(request * 30)
            except TimeoutError:  # held back, as it should be
                break
            sent += len(request) * 30
        assert sent < 200 << 20, "200 MB were taken from who reads no answer"
        fortress.check()


def test_a_peer_whose_heartbeats_stop_returns_what_it_held(client: RawStomp, bystander: Bystander) -> None:
    queue = bystander.declare(b"1", b"2")
    client.open(CONNECT.replace(b"\n\n", b"\nheart-beat:500,0\n\n"))
    client.send(b"SUBSCRIBE\nid:1\ndestination:%b\nack:client\n\n\0" % queue.encode())
    for body in (b"1", b"2"):
        assert client.expect("MESSAGE").body == body
    assert bystander.wait_for(queue, 2) == [b"1", b"2"]
    client.expect_end()


def test_what_a_peer_held_comes_back_when_it_breaks_the_rules(client: RawStomp, bystander: Bystander) -> None:
    queue = bystander.declare(b"1", b"2", b"3")
    client.open()
    client.send(b"SUBSCRIBE\nid:1\ndestination:%b\nack:client-individual\n\n\0" % queue.encode())
    frames = [client.expect("MESSAGE") for _ in range(3)]
    client.send(b"BEGIN\ntransaction:t\n\n\0ACK\nid:%b\ntransaction:t\n\n\0" % frames[1].headers["ack"].encode())
    client.send(b"SEND\ndestination:%b\ntransaction:t\n\nnever\0JUMP\n\n\0" % queue.encode())
    client.expect_error("unknown command 'JUMP'")
    assert bystander.wait_for(queue, 3) == [b"1", b"2", b"3"]
