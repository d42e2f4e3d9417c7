"""A23 with a process: transient bytes of many times the budget, memory bounded, all back in order.

And of many times what the budget and the spill store take together (V10): who publishes them waits, and nobody else.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pika

from annulet.broker.paging.spill_pace import SPILL_BEHIND_BYTES
from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene, wait_until

SIZE = 64 << 10
COUNT = 1200
BUDGET = 4 << 20
SPILL_LIMIT = 16 << 20
STILL = 20
"""Looks, 50 ms apart, between which nothing was sent: then the publisher waits."""

ROOM = 56 << 20
"""What the process may take beside the budget: buffers of a publisher that is faster, and what the allocator keeps."""


def resident(process: BrokerProcess) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def spilled(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def content(number: int) -> bytes:
    return b"%08d" % number * (SIZE // 8)


def test_transient_messages_of_many_times_the_budget(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", "--body-budget", str(BUDGET)) as process:
        scene = Scene(Peer(process.amqp_url, ours=True))
        channel = scene.channel()
        idle = most = resident(process)
        channel.queue_declare("q")
        for number in range(COUNT):
            channel.basic_publish("", "q", content(number), pika.BasicProperties(delivery_mode=1))
            if number % 100 == 0:
                most = max(most, resident(process))
        assert channel.queue_declare("q", passive=True).method.message_count == COUNT
        wait_until(lambda: spilled(tmp_path / "data" / "spill") > COUNT * SIZE // 2, channel.connection)
        channel.basic_qos(prefetch_count=50)
        for number, (method, _, body) in enumerate(channel.consume("q")):
            assert body == content(number)
            if number % 50 == 49:
                channel.basic_ack(method.delivery_tag, multiple=True)
                most = max(most, resident(process))
            if number == COUNT - 1:
                break
        assert most - idle < BUDGET + ROOM < COUNT * SIZE
        scene.close()


class Publisher(threading.Thread):
    """Publishes ``COUNT`` messages: pika waits until its socket takes them, and says what it was told behind that."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self.scene = Scene(Peer(process.amqp_url, ours=True))
        self.told: list[str] = []
        self.sent = 0
        self._looks: list[int] = []

    def waits(self) -> bool:
        """Say whether nothing was sent between the last looks."""
        self._looks.append(self.sent)
        return self._looks[-STILL:] == [self.sent] * STILL

    def run(self) -> None:
        channel = self.scene.channel()
        connection = channel.connection
        connection.add_on_connection_blocked_callback(lambda _, method: self.told.append(method.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: self.told.append("unblocked"))
        for number in range(COUNT):
            channel.basic_publish("", "q", content(number), pika.BasicProperties(delivery_mode=1))
            self.sent += 1
        wait_until(lambda: self.told and self.told[-1] == "unblocked", connection)
        self.scene.close()


def test_who_publishes_more_than_memory_and_the_spill_store_take_waits_for_consumers(tmp_path: Path) -> None:
    limits = ("--body-budget", str(BUDGET), "--spill-limit", str(SPILL_LIMIT))
    with BrokerProcess(tmp_path / "data", *limits) as process:
        scene = Scene(Peer(process.amqp_url, ours=True))
        channel = scene.channel()
        channel.queue_declare("q")
        channel.queue_declare("kept", durable=True)
        idle = resident(process)
        publisher = Publisher(process)
        publisher.start()
        wait_until(publisher.waits, channel.connection)
        count = channel.queue_declare("q", passive=True).method.message_count
        assert BUDGET + SPILL_LIMIT < count * SIZE < BUDGET + SPILL_LIMIT + SPILL_BEHIND_BYTES + ROOM
        assert count < COUNT
        assert resident(process) - idle < BUDGET + SPILL_BEHIND_BYTES + ROOM
        channel.confirm_delivery()
        channel.basic_publish("", "kept", content(0), pika.BasicProperties(delivery_mode=2))
        channel.basic_qos(prefetch_count=50)
        for number, (method, _, body) in enumerate(channel.consume("q")):
            assert body == content(number)
            if number % 50 == 49:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if number == COUNT - 1:
                break
        publisher.join()
        assert publisher.told[0] == "spill store full"
        scene.close()
