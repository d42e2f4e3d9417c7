"""A23 with a process: transient bytes of many times the budget, memory bounded, all back in order."""

from __future__ import annotations

import os
from pathlib import Path

import pika

from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene, wait_until

SIZE = 64 << 10
COUNT = 1200
BUDGET = 4 << 20
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
