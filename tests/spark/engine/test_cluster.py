"""The engine over several processes, some of them killed by SIGKILL in the middle of a batch."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from annulet.spark.java import ensure_java
from tests.core.model_suite.compositions import compositions
from tests.spark.engine import cluster_driver
from tests.spark.engine.histories import Given, history
from tests.spark.engine.test_streaming import Input, expected, told_by_files
from tests.spark.test_exactly_once import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(1_300)]

BATCHES = 8
PATIENCE_SECONDS = 600.0
"""Before a step counts as hung: five virtual machines of Java start for one batch."""

EXECUTOR = "CoarseGrainedExecutorBackend"


class Process:
    """A program in a process group of its own: what it starts dies with it."""

    def __init__(self, log: Path, command: Sequence[str], **environment: str) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=file, start_new_session=True, env={**os.environ, **environment}
            )

    def output(self) -> str:
        """What it said last."""
        return self.log.read_text(errors="replace")[-6000:]

    def says(self, pattern: str, times: int = 1) -> str:
        """Wait until it has said so; return what it said first."""

        def found() -> list[str]:
            return re.findall(pattern, self.log.read_text(errors="replace"))

        wait_until(lambda: len(found()) >= times, pattern, self, PATIENCE_SECONDS)
        return found()[0]

    def executors(self) -> list[int]:
        """Process ids of executors in its group."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                group = int((entry / "stat").read_text().rpartition(")")[2].split()[2])
                if group == self._process.pid and EXECUTOR.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
                continue
        return found

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ended(self) -> bool:
        """Say whether it has ended."""
        return self._process.poll() is not None

    def ends(self) -> int:
        """Wait for its end; return its code."""
        wait_until(self.ended, "the end", self, PATIENCE_SECONDS)
        return int(self._process.returncode)


def numbers_in(log: Path) -> set[int]:
    """Return the batches that a log of Spark's checkpoint has; other files are on their way or checksums."""
    return {int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()}


class Run:
    """A driver over files of commands of many queues, and what its checkpoint says of it."""

    def __init__(self, folder: Path, master: str, commands: Sequence[Given]) -> None:
        self.folder = folder
        self.commands = list(commands)
        source = Input(folder / "in")
        rows = len(commands) // BATCHES
        for start in range(0, len(commands), rows):
            source.add(commands[start : start + rows])
        command = [sys.executable, "-m", cluster_driver.__name__, master, str(source.directory), str(folder)]
        self.driver = Process(folder / "driver.log", command, PYTHONPATH=os.pathsep.join(sys.path))

    def wait_for_batch(self, number: int) -> None:
        """Wait until a batch is planned and not finished: this one, or a later one where it was over too soon."""
        wait_until(lambda: self._under_way(number), f"batch {number}", self.driver, PATIENCE_SECONDS)

    def _under_way(self, number: int) -> bool:
        assert not self.driver.ended(), f"it ended before batch {number} was seen; {self.driver.output()}"
        newest = max(numbers_in(self.folder / "checkpoint" / "offsets"), default=-1)
        return newest >= number and newest not in numbers_in(self.folder / "checkpoint" / "commits")

    def check(self, executors: int) -> None:
        """Wait for the end: the effects are the core's, each once."""
        assert self.driver.ends() == 0, self.driver.output()
        assert f"executors {executors}" in self.driver.output()
        assert told_by_files(self.folder / "effects-of-checkpoint") == expected(self.commands)


def to_queues(count: int, rows: int) -> list[Given]:
    """Commands to so many queues, so many in a batch."""
    chosen = compositions()
    return history(11, {f"q{place}": chosen[place * 7 % len(chosen)] for place in range(count)}, BATCHES * rows)


def test_a_thousand_queues_over_two_executors_one_of_which_is_killed(tmp_path: Path) -> None:
    """The workers are threads of the driver here, and one of them starts another executor."""
    run = Run(tmp_path, "local-cluster[2,1,1024]", to_queues(1_000, rows=1_500))
    try:
        run.wait_for_batch(2)
        assert len(run.driver.executors()) == 2
        os.kill(run.driver.executors()[0], signal.SIGKILL)
        run.check(executors=2)
    finally:
        run.driver.kill()


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[tuple[str, list[Process]]]:
    """A master and two workers on the loopback; yields the master's address and the workers."""
    ensure_java()
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
    }
    usual = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = Process(
        folder / "master.log",
        [launcher, "org.apache.spark.deploy.master.Master", *usual, "--port", "0"],
        **environment,
    )
    workers: list[Process] = []
    try:
        address = master.says(r"Starting Spark master at (spark://\S+)")
        master.says("New state: ALIVE")
        for number in range(2):
            arguments = [*usual, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            command = [launcher, "org.apache.spark.deploy.worker.Worker", *arguments, address]
            workers.append(Process(folder / f"worker-{number}.log", command, **environment))
        master.says("Registering worker", times=2)
        yield address, workers
    finally:
        for process in (*workers, master):
            process.kill()


def test_a_worker_of_two_is_killed_and_later_the_executor_of_the_other(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as (address, workers):
        run = Run(tmp_path, address, to_queues(40, rows=200))
        try:
            run.wait_for_batch(2)
            assert [len(worker.executors()) for worker in workers] == [1, 1]
            workers[0].kill()
            run.wait_for_batch(5)
            os.kill(workers[1].executors()[0], signal.SIGKILL)
            run.check(executors=1)
        finally:
            run.driver.kill()
