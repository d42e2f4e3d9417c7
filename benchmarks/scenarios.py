"""The loads: what is sent, how often, and running one against a broker with the load generator of its protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.brokers import ROOT, Broker, Nats, Running

AMQP091 = "amqp091_load"
AMQP10 = "amqp10_load"
STOMP = "stomp_load"
NATS = "nats_load"
OWN = frozenset({STOMP, NATS})
"""Load generators of this repository, in Python; they take 1 to 3 µs a message."""

LIBRARIES: dict[str, list[str]] = {AMQP091: [], AMQP10: ["-lqpid-proton"]}
"""Load generators in C and what they are linked with. That of AMQP 1.0 speaks through Qpid Proton: not our code."""

RUN_SECONDS_MAX = 300.0
"""The generator stops sending after 60 s and gives up 60 s later; beyond this it hangs."""

PERSISTENT = ["--persistent", "--durable", "--confirm", "1000"]


class GeneratorError(RuntimeError):
    """The load generator could not be built, or found lost, damaged or repeated messages."""


class Scenario:
    """One load. ``count`` messages at full scale; ``arguments`` for the generator, named by its protocol.

    ``before`` are arguments of a run that is not measured, with the same queue. ``nats`` are those of the same load for
    JetStream. ``slow``: on a disk whose syncs take longer.
    """

    def __init__(
        self, name: str, title: str, count: int, arguments: list[str], *, generator: str = AMQP091,
        before: list[str] | None = None, nats: list[str] | None = None, slow: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.title = title
        self.count = count
        self.arguments = arguments
        self.generator = generator
        self.before = before
        self.nats = nats
        self.slow = slow

    @property
    def paced(self) -> bool:
        """Whether the generator sends at a rate of its own, so that latencies say something."""
        return "--rate" in self.arguments

    @property
    def body_bytes(self) -> int:
        """The size of a body."""
        return int(self.arguments[self.arguments.index("--size") + 1])

    def generator_for(self, broker: Broker) -> str:
        """Return the load generator for a broker; empty when the broker does not take part."""
        if isinstance(broker, Nats):
            return NATS if self.nats is not None else ""
        return self.generator

    def commands(self, program: list[str], generator: str, broker: Running, count: int) -> list[list[str]]:
        """Return the generator's command lines for ``count`` messages; the last one is measured."""
        command = [*program, "--pid", str(broker.process_id), "--count", str(count)]
        if generator == AMQP10:
            # A queue by the spelling both brokers know; RabbitMQ's plug-in takes no SASL ANONYMOUS by default.
            place = ["--addr", f"127.0.0.1:{broker.port}", "--queue", f"/queue/{self.name}-"]
            return [[*command, *self.arguments, *place, "--user", "guest", "--password", "guest"]]
        if generator == STOMP:
            return [[*command, *self.arguments, "--port", str(broker.stomp_port), "--queue", self.name]]
        place = ["--port", str(broker.port), "--queue", f"{self.name}-"]
        if generator == NATS:
            return [[*command, *(self.nats or []), *place]]
        measured = [*command, *self.arguments, *place, "--delete"]
        if self.before is None:
            return [measured]
        return [[*command, *self.before, *place], [*measured, "--expect", str(count)]]


KIB = ["--size", "1024"]
STORED = [*KIB, *PERSISTENT]
FAN = ["--producers", "10", "--consumers", "10", "--queues", "10"]
RING = ["--arg", "x-max-length=1000", "--arg", "x-overflow=drop-head"]
PREFETCH = ["--prefetch", "1000"]
SYNCED_SECONDS = ["--time", "15"]
"""A server that syncs each message gets so much time, not so many messages."""

SCENARIOS = [
    # First, on a broker that has just started: what it allocated before would hide what a message costs.
    Scenario(
        "backlog", "backlog, persistent, no consumer", 150_000, ["--consumers", "0", *STORED],
        nats=[*KIB, *SYNCED_SECONDS],
    ),
    Scenario("transient-16", "transient, 16 B", 600_000, ["--size", "16"]),
    Scenario("transient-1k", "transient", 400_000, KIB),
    Scenario("transient-64k", "transient, 64 KiB", 20_000, ["--size", "65536"]),
    Scenario("persistent-1k", "persistent, confirmed, acknowledged", 150_000, [*STORED, *PREFETCH]),
    Scenario("persistent-16", "the same, 16 B", 150_000, ["--size", "16", *PERSISTENT, *PREFETCH]),
    Scenario(
        "drain", "persistent backlog consumed, acknowledged", 150_000,
        ["--producers", "0", "--no-declare", *KIB, *PREFETCH], before=["--consumers", "0", *STORED],
        nats=[*KIB, "--consume", *SYNCED_SECONDS],
    ),
    Scenario("fan-in", "10 publishers, 10 queues, 10 consumers, transient", 200_000, [*KIB, *FAN]),
    Scenario("fan-in-persistent", "the same, persistent", 100_000, [*STORED, *FAN, *PREFETCH]),
    Scenario("ring", "ring of 1000, no consumer", 200_000, [*KIB, "--consumers", "0", "--confirm", "1000", *RING]),
    Scenario("priority", "10 priorities", 200_000, [*KIB, "--arg", "x-max-priority=10", "--priority", "10"]),
    Scenario("amqp10-settled", "AMQP 1.0, transient, settled", 100_000, [*KIB, "--settled"], generator=AMQP10),
    Scenario("amqp10-durable", "AMQP 1.0, durable, accepted", 60_000, [*KIB, "--durable"], generator=AMQP10),
    Scenario("stomp", "STOMP, transient", 100_000, KIB, generator=STOMP),
    Scenario("stomp-receipts", "STOMP, persistent, receipts", 50_000, [*KIB, "--persistent"], generator=STOMP),
    Scenario("paced-2000", "persistent, 2,000/s", 10_000, [*STORED, *PREFETCH, "--rate", "2000"]),
    Scenario("paced-10000", "persistent, 10,000/s", 50_000, [*STORED, *PREFETCH, "--rate", "10000"]),
    Scenario("slow-persistent", "persistent, confirmed, acknowledged", 50_000, [*STORED, *PREFETCH], slow=True),
    Scenario(
        "slow-backlog", "backlog, persistent, no consumer", 50_000, ["--consumers", "0", *STORED],
        nats=[*KIB, *SYNCED_SECONDS], slow=True,
    ),
]  # fmt: skip


def generator_folder(name: str) -> Path:
    """Return where a generator's source is. Raises GeneratorError with the remedy when it is nowhere."""
    named = os.environ.get("ANNULET_LOAD_GENERATOR_DIR")
    folder = Path(named) if named else ROOT.parent / "shared" / "bench"
    if not (folder / f"{name}.c").is_file():
        raise GeneratorError(
            f"no {name}.c in {folder}; set ANNULET_LOAD_GENERATOR_DIR to the folder that holds the load generators"
        )
    return folder


def generator(name: str, scratch: Path) -> list[str]:
    """Return the words that start a load generator; one in C is compiled into ``scratch``. Raises GeneratorError."""
    if name in OWN:
        return [sys.executable, "-m", f"benchmarks.loads.{name}"]
    return [str(build_generator(name, scratch))]


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


Figures = dict[str, Any]
"""What a generator said of a run."""


def busy_seconds() -> float:
    """Return the CPU seconds all processes of the machine have used since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields[:7])
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def run_generator(command: list[str], what: str, seconds: float) -> Figures:
    """Run a load generator once and return its figures. Raises GeneratorError, also when ``seconds`` are not enough."""
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT)
    except subprocess.TimeoutExpired as error:
        raise GeneratorError(f"{what}: no end after {seconds:.0f} s") from error
    if finished.returncode != 0:
        raise GeneratorError(f"{what}: {finished.stderr.strip()} {finished.stdout.strip()}")
    figures: Figures = json.loads(finished.stdout)
    return figures


def run_scenario(program: list[str], scenario: Scenario, broker: Broker, running: Running, scale: float) -> Figures:
    """Run one load once and return the generator's figures, with ``foreign_cores``: what others used meanwhile."""
    count = max(1000, int(scenario.count * scale))
    *preparing, command = scenario.commands(program, scenario.generator_for(broker), running, count)
    for unmeasured in preparing:
        run_generator(unmeasured, scenario.name, RUN_SECONDS_MAX)
    before = busy_seconds()
    figures = run_generator(command, scenario.name, RUN_SECONDS_MAX)
    passed = max(figures["sent"], figures["received"], 1)
    own = figures["own_cpu_us_per_msg"] * passed / 1e6
    foreign = busy_seconds() - before - figures["broker_cpu_s"] - own
    seconds = figures.get("wall_s", max(figures["send_s"], figures["recv_s"]))
    figures["foreign_cores"] = round(max(0.0, foreign) / max(seconds, 0.001), 2)
    figures["memory_per_message"] = round((figures["rss_kb1"] - figures["rss_kb0"]) * 1024 / passed)
    figures["written_per_byte"] = round(figures["written_mb"] * 1e6 / (passed * scenario.body_bytes), 2)
    return figures
