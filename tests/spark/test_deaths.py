"""Driver, broker and workers killed by SIGKILL at each point of a batch: queries, pipelines, the archive.

A run goes on until all deaths of its list have happened, with a supervisor who starts again whatever has died. Then
everything must have arrived exactly once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.parquet
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from annulet.spark.options import ReadOptions, WriteOptions
from annulet.spark.query_ids import QUERY_PROPERTY
from annulet.spark.sequences import AnnuletSequenceReader
from annulet.spark.sink import BATCH_PROPERTY, AnnuletStreamWriter
from annulet.spark.source import AnnuletStreamReader
from tests.broker_process import BrokerProcess
from tests.spark.deaths import sitecustomize
from tests.spark.test_exactly_once import PATIENCE_SECONDS, World, wait_until, workers_of

if TYPE_CHECKING:
    from tests.spark.conftest import BrokerThread

SOURCE = Path(__file__).parents[2] / "src"
DRIVER = Path(__file__).with_name("pipe_driver.py")

BATCH_MESSAGES = 150
URL = "URL"  # of the broker, in a command
POINTS = ("acquired", "planned", "reading", "staged", "committed", "logged")


class Supervisor:
    """Starts a program again when it has died, and the broker too."""

    def __init__(self, world: World, command: Sequence[str], deaths: Sequence[str]) -> None:
        self.world = world
        self.folder = world.folder / "deaths"
        self.folder.mkdir()
        self._command = [sys.executable, *(world.broker.bulk_url if word == URL else word for word in command)]
        for number, death in enumerate(deaths):
            (self.folder / f"{number:02}-{death}").touch()
        self._log = world.folder / "program.log"
        self._process: subprocess.Popen[bytes] | None = None

    def output(self) -> str:
        coming = sorted(path.name for path in self.folder.iterdir())
        return f"{coming}: {self._log.read_text(errors='replace')[-6000:]}"

    def left(self) -> int:
        return sum(1 for path in self.folder.iterdir() if path.name[0].isdigit())

    def look_after(self) -> None:
        """Start again what has died."""
        (self.folder / "broker").write_text(str(self.world.broker.pid))
        if not self.world.broker.is_ready():
            self.world.broker.kill()
            self.world.broker.restart()
            (self.folder / "broker").write_text(str(self.world.broker.pid))
        if self._process is None or self._process.poll() is not None:
            path = [str(Path(sitecustomize.__file__).parent), str(SOURCE), str(SOURCE.parent)]
            environment = {
                **os.environ, "PYTHONPATH": os.pathsep.join(path), "ANNULET_DEATHS": str(self.folder),
                "ANNULET_URL": self.world.broker.bulk_url,
            }  # fmt: skip
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdout=log, stderr=log, start_new_session=True, env=environment
                )

    def run_until_all_have_died(self) -> None:
        """Look after everything until no death is left."""

        def done() -> bool:
            self.look_after()
            return self.left() == 0

        wait_until(done, "all deaths", self, self.left() * PATIENCE_SECONDS)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def reached() -> bool:
            self.look_after()
            return self.world.broker.is_ready() and condition()

        wait_until(reached, what, self)

    def workers(self) -> list[int]:
        """Python workers of the program that runs."""
        return [] if self._process is None else workers_of(self._process.pid)

    def kill(self) -> None:
        """SIGKILL to the program with its JVM."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def supervised(folder: Path, command: Sequence[str], deaths: Sequence[str]) -> Iterator[Supervisor]:
    with BrokerProcess(folder / "data", bulk=True) as broker:
        world = World(folder, broker)
        world.publish(BATCH_MESSAGES * (len(deaths) + 2))  # a batch for each death, were none of them repeated
        supervisor = Supervisor(world, command, deaths)
        try:
            yield supervisor
        finally:
            supervisor.kill()


def same(found: list[bytes], count: int) -> bool:
    return Counter(found) == Counter(b"%06d" % number for number in range(count))


@pytest.mark.parametrize("name", ["00-planned-driver", "03-planned-worker"])
def test_only_the_next_death_happens_and_once(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(sitecustomize, "FOLDER", str(tmp_path))
    monkeypatch.setenv("ANNULET_DRIVER", "1234")
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
    (tmp_path / name).touch()
    (tmp_path / "09-reading-driver").touch()
    sitecustomize.come_to("reading")
    assert killed == []
    sitecustomize.come_to("planned")
    sitecustomize.come_to("planned")
    assert killed == [1234, os.getpid()][name.endswith("worker") :]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["09-reading-driver", f"done-{name}"]


class Death(Exception):
    """The driver dies here."""


class MiniatureDriver:
    """Calls source and sink as Spark does (spark-notes 2.2), with its two logs, and dies where it is told to."""

    def __init__(self, url: str, queue: str, target: str, *, taking: bool = True) -> None:
        self.options = {"url": url, "queue": queue, "maxMessagesPerTrigger": "4"}
        self.options |= {"lease": queue} if taking else {"nonDestructive": "true"}
        self.reader = AnnuletStreamReader if taking else AnnuletSequenceReader
        self.schema = StructType([StructField("body", BinaryType())])
        self.target = target
        self.offsets: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.commits = 0
        self.deaths: list[str] = []

    def come_to(self, point: str) -> None:
        if self.deaths and self.deaths[0] == point:
            self.die(self.deaths.pop(0))

    def die(self, point: str) -> None:
        raise Death(point)

    def run(self) -> None:
        """Run from the logs on, in new objects, until there is nothing more."""
        source = self.reader(ReadOptions.parse(self.options), ["body"])
        sink = AnnuletStreamWriter(
            WriteOptions.parse({"url": self.options["url"], "address": self.target}), self.schema
        )
        while True:
            if self.commits == len(self.offsets):
                start = self.offsets[-1][1] if self.offsets else source.initialOffset()
                if self.offsets:
                    self.come_to("logged")
                end = source.latestOffset(start, source.getDefaultReadLimit())
                if end == start:
                    return
                self.come_to("acquired")
                self.offsets.append((start, end))
                if self.commits:
                    source.commit(start)
            self._batch(source, sink, *self.offsets[-1])
            self.commits += 1

    def _batch(
        self,
        source: AnnuletStreamReader | AnnuletSequenceReader,
        sink: AnnuletStreamWriter,
        start: dict[str, Any],
        end: dict[str, Any],
    ) -> None:
        batch = len(self.offsets) - 1
        self.come_to("planned")
        messages = []
        for number, part in enumerate(source.partitions(start, end)):
            Task.properties = {QUERY_PROPERTY: self.target, BATCH_PROPERTY: str(batch)}
            Task.number = number
            messages.append(sink.write(source.read(part)))
            self.come_to("reading")
        self.come_to("staged")
        sink.commit(messages, batch)
        self.come_to("committed")


class DriverOfMortalBroker(MiniatureDriver):
    """Lives on when the broker is killed at a point and started again."""

    def __init__(self, broker: BrokerProcess, *, taking: bool) -> None:
        super().__init__(broker.bulk_url, "in", "out", taking=taking)
        self.broker = broker

    def die(self, point: str) -> None:
        self.broker.kill()
        self.broker.restart()


class Task:
    """What a task knows of itself."""

    properties: ClassVar[dict[str, str]] = {}
    number: ClassVar[int] = 0

    @classmethod
    def get(cls) -> type[Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str | None:  # noqa: N802 - Spark's name
        return cls.properties.get(name)

    @classmethod
    def partitionId(cls) -> int:  # noqa: N802
        return cls.number

    @classmethod
    def taskAttemptId(cls) -> int:  # noqa: N802
        return cls.number


@pytest.mark.parametrize("taking", [True, False], ids=["lease", "non-destructive"])
def test_everything_is_moved_once_wherever_the_driver_dies(
    broker: BrokerThread, name: str, monkeypatch: pytest.MonkeyPatch, *, taking: bool
) -> None:
    """The short form of what follows: Spark's order of calls without Spark."""
    monkeypatch.setattr("annulet.spark.sink.TaskContext", Task)
    broker.declare(name, f"{name}-out")
    broker.publish(name, [b"%06d" % number for number in range(40)])
    driver = MiniatureDriver(broker.url, name, f"{name}-out", taking=taking)
    driver.deaths = [*POINTS, *POINTS]
    died = 0
    while driver.deaths:
        with pytest.raises(Death):
            driver.run()
        died += 1
    driver.run()
    assert died == 2 * len(POINTS)
    assert broker.bodies(f"{name}-out") == [b"%06d" % number for number in range(40)]
    assert broker.bodies(name) == ([] if taking else broker.bodies(f"{name}-out"))


@pytest.mark.soak
@pytest.mark.parametrize("taking", [True, False], ids=["lease", "non-destructive"])
def test_everything_is_moved_once_wherever_the_broker_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, taking: bool
) -> None:
    monkeypatch.setattr("annulet.spark.sink.TaskContext", Task)
    with BrokerProcess(tmp_path / "data", bulk=True) as broker:
        world = World(tmp_path, broker)
        world.publish(4 * (len(POINTS) + 2))
        driver = DriverOfMortalBroker(broker, taking=taking)
        driver.deaths = [*POINTS]
        driver.run()
        assert driver.deaths == []
        assert same(world.bodies("out"), world.published)
        assert len(world.bodies("in")) == (0 if taking else world.published)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "deaths",
    [
        [f"{point}-driver" for point in POINTS[:3]],
        [f"{point}-driver" for point in POINTS[3:]],
        [*[f"{point}-broker" for point in POINTS], "reading-worker"],
        [f"{point}-worker" for point in ("logged", "acquired", "planned", "staged", "committed")],
    ],
    ids=["driver-before-the-sink", "driver-in-the-sink", "broker-and-worker", "source-and-committing-process"],
)
def test_a_query_that_dies_at_each_point_moves_everything_once(tmp_path: Path, deaths: list[str]) -> None:
    command = [str(DRIVER), URL, str(tmp_path / "checkpoint"), "persistent"]
    with supervised(tmp_path, command, deaths) as supervisor:
        world = supervisor.world
        supervisor.run_until_all_have_died()
        supervisor.wait_for(lambda: len(world.bodies("out")) >= world.published, "everything to arrive")
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        assert same(world.bodies("out"), world.published)


PIPELINE = f"""
[pipeline]
trigger = "1 second"

[sources.orders]
type = "queue"
url = "${{ANNULET_URL}}"
queue = "in"
messages_per_trigger = {BATCH_MESSAGES}

[sinks.files]
type = "parquet"
input = "orders"
path = "files"
sql = "SELECT body FROM batch"

[sinks.out]
type = "queue"
input = "orders"
url = "${{ANNULET_URL}}"
address = "out"
sql = "SELECT body FROM batch"
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_pipeline_that_dies_writes_files_and_queue_once(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    command = ["-m", "annulet", "pipeline", "run", str(tmp_path / "pipeline.toml")]
    with supervised(tmp_path, command, ["staged-broker", "committed-driver", "acquired-driver"]) as supervisor:
        world = supervisor.world
        supervisor.run_until_all_have_died()
        supervisor.wait_for(lambda: len(world.bodies("out")) >= world.published, "everything to arrive")
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        assert same(world.bodies("out"), world.published)
        files = pyarrow.parquet.read_table(tmp_path / "files", columns=["body"]).column("body").to_pylist()
        assert same(files, world.published)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_archive_that_dies_has_every_message_once(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    command = ["-m", "annulet", "pipeline", "archive", str(archive), "--queue", "in", "--trigger", "1 second"]
    with supervised(tmp_path, command, ["planned-driver", "reading-broker", "logged-driver"]) as supervisor:
        world = supervisor.world
        supervisor.run_until_all_have_died()
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        found = pyarrow.parquet.read_table(archive, columns=["body"]).column("body").to_pylist()
        assert same(found, world.published)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_two_drivers_on_one_checkpoint_move_everything_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", bulk=True) as broker:
        world = World(tmp_path, broker)
        world.publish()
        drivers = [world.driver(persistent=False), world.driver(persistent=False)]
        try:
            wait_until(lambda: any(driver.process.poll() is not None for driver in drivers), "one to give up")
            world.publish()

            def arrived() -> bool:
                if all(driver.process.poll() is not None for driver in world.drivers):
                    world.driver()  # each may give up because of the other's files
                return len(world.bodies("out")) >= world.published

            wait_until(arrived, "everything to arrive", drivers[0])
            world.settle(world.drivers[-1])
        finally:
            for driver in world.drivers:
                driver.kill()
