"""The loads: what is sent, how often, and running one against a broker with the C load generator of its protocol."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.brokers import ROOT, Running

AMQP091 = "amqp091_load"
AMQP10 = "amqp10_load"
LIBRARIES: dict[str, list[str]] = {AMQP091: [], AMQP10: ["-lqpid-proton"]}
"""Load generators and what they are linked with: that of AMQP 1.0 speaks through Qpid Proton, which is not ours."""

RUN_SECONDS_MAX = 300.0
"""The generator stops sending after 60 s and gives up 60 s later; beyond this it hangs."""

PERSISTENT = ["--persistent", "--durable", "--confirm", "1000"]


class GeneratorError(RuntimeError):
    """The load generator could not be built, or found lost, damaged or repeated messages."""


class Scenario:
    """One load. ``count`` messages at full scale; ``arguments`` for the generator, named by its protocol."""

    def __init__(self, name: str, title: str, count: int, arguments: list[str], *, generator: str = AMQP091) -> None:
        self.name = name
        self.title = title
        self.count = count
        self.arguments = arguments
        self.generator = generator

    def command(self, program: Path, broker: Running, count: int) -> list[str]:
        """Return the generator's command line for ``count`` messages."""
        command = [str(program), "--pid", str(broker.process_id), "--count", str(count), *self.arguments]
        if self.generator == AMQP10:
            # A queue by the spelling both brokers know; RabbitMQ's plug-in takes no SASL ANONYMOUS by default.
            return [
                *command, "--addr", f"127.0.0.1:{broker.port}", "--queue", f"/queue/{self.name}-",
                "--user", "guest", "--password", "guest",
            ]  # fmt: skip
        return [*command, "--port", str(broker.port), "--queue", f"{self.name}-", "--delete"]


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
    Scenario(
        "amqp10-settled",
        "AMQP 1.0, transient, settled, 1 KiB",
        100_000,
        ["--size", "1024", "--settled"],
        generator=AMQP10,
    ),
    Scenario(
        "amqp10-persistent",
        "AMQP 1.0, durable, accepted both ways, 1 KiB",
        50_000,
        ["--size", "1024", "--durable"],
        generator=AMQP10,
    ),
    Scenario("latency-2000", "2,000/s, transient, 1 KiB", 10_000, ["--size", "1024", "--rate", "2000"]),
    Scenario("latency-10000", "10,000/s, transient, 1 KiB", 50_000, ["--size", "1024", "--rate", "10000"]),
]


def generator_folder(name: str) -> Path:
    """Return where a generator's source is. Raises GeneratorError with the remedy when it is nowhere."""
    named = os.environ.get("ANNULET_LOAD_GENERATOR_DIR")
    folder = Path(named) if named else ROOT.parent / "shared" / "bench"
    if not (folder / f"{name}.c").is_file():
        raise GeneratorError(
            f"no {name}.c in {folder}; set ANNULET_LOAD_GENERATOR_DIR to the folder that holds the load generators"
        )
    return folder


def build_generator(name: str, scratch: Path) -> Path:
    """Compile a load generator into ``scratch`` and return the program. Raises GeneratorError with the remedy."""
    source, program = generator_folder(name) / f"{name}.c", scratch / name
    command = [os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(source), *LIBRARIES[name]]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GeneratorError(f"no C compiler ({command[0]}); Debian: apt-get install gcc libc6-dev") from error
    if finished.returncode != 0:
        remedy = "; Debian: apt-get install libqpid-proton11-dev" if name == AMQP10 else ""
        raise GeneratorError(f"{' '.join(command)} failed{remedy}:\n{finished.stderr}")
    return program


def busy_seconds() -> float:
    """Return the CPU seconds all processes of the machine have used since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields[:7])
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def run_generator(command: list[str], what: str, seconds: float) -> dict[str, Any]:
    """Run a load generator once and return its figures. Raises GeneratorError, also when ``seconds`` are not enough."""
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise GeneratorError(f"{what}: no end after {seconds:.0f} s") from error
    if finished.returncode != 0:
        raise GeneratorError(f"{what}: {finished.stderr.strip()} {finished.stdout.strip()}")
    figures: dict[str, Any] = json.loads(finished.stdout)
    return figures


def run_scenario(program: Path, scenario: Scenario, broker: Running, scale: float) -> dict[str, Any]:
    """Run one load once and return the generator's figures, with ``foreign_cores``: what others used meanwhile."""
    count = max(1000, int(scenario.count * scale))
    before = busy_seconds()
    figures = run_generator(scenario.command(program, broker, count), scenario.name, RUN_SECONDS_MAX)
    own = figures["own_cpu_us_per_msg"] * count / 1e6
    foreign = busy_seconds() - before - figures["broker_cpu_s"] - own
    seconds = figures.get("wall_s", max(figures["send_s"], figures["recv_s"]))
    figures["foreign_cores"] = round(max(0.0, foreign) / max(seconds, 0.001), 2)
    figures["memory_per_message"] = round((figures["rss_kb1"] - figures["rss_kb0"]) * 1024 / count)
    return figures
