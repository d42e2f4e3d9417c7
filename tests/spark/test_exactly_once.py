"""Queue to queue through Spark, with the driver, a Python worker and the broker killed by SIGKILL in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pika
import pytest

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.protocol import BrowseTicket, OpenBrowse
from annulet.bulk.protocol.url import parse_url
from tests.broker_process import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MESSAGES_PER_ROUND = 600
PATIENCE_SECONDS = 180.0
"""Before a step counts as hung; nothing is measured by it."""


class Talking(Protocol):
    """A program whose last words help when it hangs."""

    def output(self) -> str: ...


def wait_until(
    condition: Callable[[], bool], what: str, driver: Talking | None = None, patience: float = PATIENCE_SECONDS
) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}; {'' if driver is None else driver.output()}"
        time.sleep(0.05)


def workers_of(driver: int) -> list[int]:
    """Python workers of a driver: processes below a ``pyspark.daemon`` that is below it."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        parents[int(entry.name)] = int(fields[1])
        if b"pyspark.daemon" in command:
            daemons.add(int(entry.name))

    def ours(pid: int) -> bool:
        while pid > 1:
            if pid == driver:
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid in daemons if parents[pid] in daemons and ours(pid)]


class Driver:
    """A Spark driver with its JVM in a process group of its own."""

    def __init__(self, url: str, checkpoint: Path, log: Path, *, persistent: bool = True) -> None:
        self.checkpoint = checkpoint
        self._log = log
        script = Path(__file__).with_name("pipe_driver.py")
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(script), url, str(checkpoint), "persistent" if persistent else "once"],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env=environment,
            )

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def batches(self, folder: str) -> int:
        """Highest batch that the checkpoint's ``offsets`` or ``commits`` hold; -1 before the first."""
        names = [path.name for path in (self.checkpoint / folder).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def wait_for(self, folder: str, batch: int) -> None:
        def reached() -> bool:
            assert self.process.poll() is None, f"the driver ended: {self.output()}"
            return self.batches(folder) >= batch

        wait_until(reached, f"{folder}/{batch}", self)

    def workers(self) -> list[int]:
        """Python workers of this driver."""
        return workers_of(self.process.pid)

    def kill(self) -> None:
        """SIGKILL to driver and JVM at once; the workers are orphans then and find out themselves."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class World:
    """One broker process, one checkpoint, and what was published."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder = folder
        self.broker = broker
        self.published = 0
        self.drivers: list[Driver] = []

    def driver(self, *, persistent: bool = True) -> Driver:
        driver = Driver(
            self.broker.bulk_url,
            self.folder / "checkpoint",
            self.folder / f"driver-{len(self.drivers)}.log",
            persistent=persistent,
        )
        self.drivers.append(driver)
        return driver

    def publish(self, count: int = MESSAGES_PER_ROUND) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("in", "out"):
            channel.queue_declare(name, durable=True)
        for number in range(self.published, self.published + count):
            body = b"%06d" % number
            channel.basic_publish("", "in", body, pika.BasicProperties(delivery_mode=2, message_id=body.decode()))
        connection.close()
        self.published += count

    def bodies(self, queue: str) -> list[bytes]:
        client = BulkClient(parse_url(self.broker.bulk_url))
        view = client.act(OpenBrowse(queue=queue))
        ticket = BrowseTicket(snapshot=view["snapshot"], after=0, upto=view["rows"], columns=["body"])
        bodies = [body for batch in client.get(ticket) for body in batch.column("body").to_pylist()]
        client.close()
        return bodies

    def settle(self, driver: Driver) -> None:
        """Wait until everything arrived and was acknowledged, then compare."""
        wait_until(lambda: len(self.bodies("out")) >= self.published, "everything to arrive", driver)
        wait_until(lambda: self.bodies("in") == [], "everything to be acknowledged", driver)
        found = Counter(self.bodies("out"))
        expected = Counter(b"%06d" % number for number in range(self.published))
        assert found == expected, f"lost {expected - found}, twice {found - expected}"


@contextmanager
def world(folder: Path) -> Iterator[World]:
    with BrokerProcess(folder / "data", bulk=True) as broker:
        made = World(folder, broker)
        try:
            yield made
        finally:
            for driver in made.drivers:
                driver.kill()


def test_exactly_once_when_driver_broker_and_workers_are_killed(tmp_path: Path) -> None:
    """The short form of the next test: every start of a driver is half a minute where others use the cores."""
    with world(tmp_path) as here:
        here.publish()
        driver = here.driver()
        driver.wait_for("offsets", 0)  # planned, perhaps not yet committed: the first batch is repeated
        here.broker.kill()
        driver.kill()

        driver = here.driver()  # the driver comes back first, and waits
        here.broker.restart()
        driver.wait_for("commits", 0)
        wait_until(lambda: bool(driver.workers()), "a Python worker", driver)
        for pid in driver.workers():
            os.kill(pid, signal.SIGKILL)
        here.publish()
        here.settle(driver)


@pytest.mark.soak
def test_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        here.publish()
        driver = here.driver()
        driver.wait_for("offsets", 0)  # planned, perhaps not yet committed: the first batch is repeated
        driver.kill()

        driver = here.driver()
        driver.wait_for("commits", 1)
        here.broker.kill()  # in the middle of whatever the third batch is doing
        here.broker.restart()
        here.publish()
        driver.wait_for("commits", driver.batches("offsets") + 1)

        wait_until(lambda: bool(driver.workers()), "a Python worker", driver)
        for pid in driver.workers():
            os.kill(pid, signal.SIGKILL)
        here.publish()
        batch = driver.batches("offsets") + 1
        driver.wait_for("offsets", batch)
        driver.kill()

        here.broker.kill()  # both are down; the broker comes back first
        here.broker.restart()
        driver = here.driver()
        driver.wait_for("commits", batch)
        here.publish()
        driver.wait_for("offsets", batch + 1)
        here.broker.kill()
        driver.kill()
        driver = here.driver()  # now the driver comes back first, and waits
        here.broker.restart()
        here.publish()
        here.settle(driver)


@pytest.mark.soak
def test_a_zombie_driver_is_fenced_off(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        here.publish()
        zombie = here.driver(persistent=False)
        zombie.wait_for("commits", 0)
        os.killpg(zombie.process.pid, signal.SIGSTOP)
        driver = here.driver()
        driver.wait_for("commits", driver.batches("commits") + 1)
        here.publish()
        os.killpg(zombie.process.pid, signal.SIGCONT)
        wait_until(lambda: zombie.process.poll() is not None, "the zombie to end", zombie)
        assert zombie.process.returncode == 3
        output = zombie.output()
        # Whichever it meets first: our fence, or the checkpoint's own files.
        assert "was taken over" in output or "CONCURRENT_STREAM_LOG_UPDATE" in output, output
        here.settle(driver)
