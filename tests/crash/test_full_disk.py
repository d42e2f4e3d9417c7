"""A full disk: persistent publishes are refused, everything else goes on, and all is well when there is room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.broker_process import BrokerProcess
from tests.clients.support import Scene, bodies, channel_closed, deliveries, wait_until
from tests.crash.workload import PERSISTENT

DISK = "96m"
BODY_SIZE = 256 * 1024
PUBLISHES_MAX = 1000  # many times what the disk holds


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "small disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def process(disk: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose data is on the small disk and whose log is not."""
    with BrokerProcess(disk / "data", log_file=tmp_path / "broker.log") as process:
        yield process


def fill(disk: Path) -> Path:
    """Take all the space that is free and return the file that holds it."""
    ballast = disk / "somebody else's file"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):  # no space left: that is the aim
        while file.write(bytes(64 * 1024)):
            continue
    free = os.statvfs(disk)
    assert free.f_bavail * free.f_frsize < 64 * 1024
    return ballast


def body_of(number: int) -> bytes:
    return number.to_bytes(4, "big") * (BODY_SIZE // 4)


def publish_until_refused(channel: BlockingChannel, queue: str) -> int:
    """Return how many publishes were confirmed before the first refused one."""
    for number in range(PUBLISHES_MAX):
        try:
            channel.basic_publish("", queue, body_of(number), PERSISTENT)
        except NackError:
            return number
    pytest.fail("the disk never got full")


def test_a_full_disk_refuses_publishes_and_serves_consumers(disk: Path, process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("transient")
    channel.confirm_delivery()
    ballast = fill(disk)
    confirmed = publish_until_refused(channel, "kept")
    assert confirmed > 10

    channel.basic_publish("", "transient", b"needs no disk")  # the channel lives, and so does what is not persistent
    assert bodies(channel, "transient") == [b"needs no disk"]
    with channel_closed(506, "disk"):
        without_confirms = scene.channel()
        without_confirms.basic_publish("", "kept", body_of(0), PERSISTENT)
        without_confirms.queue_declare("kept", passive=True)
    with channel_closed(506, "disk"):
        transactional = scene.channel()
        transactional.tx_select()
        transactional.basic_publish("", "kept", body_of(0), PERSISTENT)
        transactional.tx_commit()

    consumer = scene.channel()
    received = deliveries(consumer, "kept", consumer_tag="one")
    wait_until(lambda: len(received) == confirmed, consumer.connection)
    assert [body for _, _, body in received] == [body_of(number) for number in range(confirmed)]
    half = confirmed // 2
    for method, _, _ in received[:half]:
        consumer.basic_ack(method.delivery_tag)
    consumer.basic_cancel("one")
    consumer.close()

    ballast.unlink()

    def accepted() -> bool:
        try:
            channel.basic_publish("", "kept", b"room again", PERSISTENT)
        except NackError:
            return False
        return True

    wait_until(accepted, channel.connection, "for the broker to notice that there is room")
    process.restart()
    left = bodies(scene.channel(), "kept")
    assert left == [body_of(number) for number in range(half, confirmed)] + [b"room again"]


def test_a_broker_killed_on_a_full_disk_starts_again(disk: Path, process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    fill(disk)
    confirmed = publish_until_refused(channel, "kept")
    process.restart()
    left = bodies(scene.channel(), "kept")
    assert left[:confirmed] == [body_of(number) for number in range(confirmed)]
    assert len(left) == confirmed


def test_the_broker_says_that_its_disk_is_full(disk: Path, process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    fill(disk)
    publish_until_refused(channel, "kept")
    assert "disk" in process.log_end(100_000)
