"""The loads: what is sent, how often, and running one against a broker with the C load generator."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.brokers import ROOT, Running

GENERATOR_SOURCE = "amqp091_load.c"
RUN_SECONDS_MAX = 300.0
"""The generator stops sending after 60 s and gives up 60 s later; beyond this it hangs."""

PERSISTENT = ["--persistent", "--durable", "--confirm", "1000"]


class GeneratorError(RuntimeError):
    """The load generator could not be built, or found lost, damaged or repeated messages."""


class Scenario:
    """One load. ``count`` messages at full scale; ``arguments`` for the generator."""

    def __init__(self, name: str, title: str, count: int, arguments: list[str]) -> None:
        self.name = name
        self.title = title
        self.count = count
        self.arguments = arguments


SCENARIOS = [
    # First, on a broker that has just started: what it allocated before would hide what a message costs.
    Scenario(
        "backlog",
        "backlog, persistent, 1 KiB, no consumer",
        100_000,
        ["--consumers", "0", "--size", "1024", *PERSISTENT],
    ),
    Scenario("transient-1k", "transient, auto-ack, 1 KiB", 400_000, ["--size", "1024"]),
    Scenario("transient-16", "transient, auto-ack, 16 B", 400_000, ["--size", "16"]),
    Scenario(
        "persistent",
        "persistent, confirmed, acknowledged, 1 KiB",
        100_000,
        ["--size", "1024", *PERSISTENT, "--prefetch", "1000"],
    ),
    Scenario("latency-2000", "2,000/s, transient, 1 KiB", 10_000, ["--size", "1024", "--rate", "2000"]),
    Scenario("latency-10000", "10,000/s, transient, 1 KiB", 50_000, ["--size", "1024", "--rate", "10000"]),
]


def generator_folder() -> Path:
    """Return where the generator's source is. Raises GeneratorError with the remedy when it is nowhere."""
    named = os.environ.get("ANNULET_LOAD_GENERATOR_DIR")
    folder = Path(named) if named else ROOT.parent / "shared" / "bench"
    if not (folder / GENERATOR_SOURCE).is_file():
        raise GeneratorError(
            f"no {GENERATOR_SOURCE} in {folder}; "
            "set ANNULET_LOAD_GENERATOR_DIR to the folder that holds the load generator"
        )
    return folder


def build_generator(scratch: Path) -> Path:
    """Compile the load generator into ``scratch`` and return the program."""
    source, program = generator_folder() / GENERATOR_SOURCE, scratch / "amqp091_load"
    command = [os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(source)]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GeneratorError(f"no C compiler ({command[0]}); Debian: apt-get install gcc libc6-dev") from error
    if finished.returncode != 0:
        raise GeneratorError(f"{' '.join(command)} failed:\n{finished.stderr}")
    return program


def busy_seconds() -> float:
    """Return the CPU seconds all processes of the machine have used since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields[:7])
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def run_scenario(program: Path, scenario: Scenario, broker: Running, scale: float) -> dict[str, Any]:
    """Run one load once and return the generator's figures, with ``foreign_cores``: what others used meanwhile."""
    count = max(1000, int(scenario.count * scale))
    command = [str(program), "--port", str(broker.port), "--pid", str(broker.process_id), "--count", str(count)]
    command += [*scenario.arguments, "--queue", f"{scenario.name}-", "--delete"]
    before = busy_seconds()
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        raise GeneratorError(f"{scenario.name}: no end after {RUN_SECONDS_MAX:.0f} s") from error
    if finished.returncode != 0:
        raise GeneratorError(f"{scenario.name}: {finished.stderr.strip()} {finished.stdout.strip()}")
    figures: dict[str, Any] = json.loads(finished.stdout)
    own = figures["own_cpu_us_per_msg"] * count / 1e6
    foreign = busy_seconds() - before - figures["broker_cpu_s"] - own
    figures["foreign_cores"] = round(max(0.0, foreign) / max(figures["wall_s"], 0.001), 2)
    figures["memory_per_message"] = round((figures["rss_kb1"] - figures["rss_kb0"]) * 1024 / count)
    return figures
