"""The engine between two queues, killed by SIGKILL again and again: its effects are the core's, each once."""

from __future__ import annotations

import base64
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from annulet.spark.engine import journal, shard
from annulet.spark.engine.effects import OUTCOME, Effect
from annulet.spark.engine.shard import Shard, close_shard, open_shard
from annulet.spark.engine.streaming import EFFECT_COLUMNS
from annulet.spark.remembered_shards import RememberedShards
from tests.broker_process import BrokerProcess
from tests.core.model_suite.compositions import compositions
from tests.spark.engine import queue_driver
from tests.spark.engine.doubles import MemoryState
from tests.spark.engine.histories import Given, history
from tests.spark.engine.queue_driver import BATCH_COMMANDS
from tests.spark.engine.test_shard import uncut
from tests.spark.engine.test_streaming import expected
from tests.spark.test_deaths import URL, Supervisor
from tests.spark.test_exactly_once import World
from tests.spark.test_random_kills import VICTIMS, kill, look_after

QUEUES = 12
SECONDS = float(os.environ.get("ANNULET_KILL_SECONDS", "150"))
"""How long the random killing goes on."""

BETWEEN_SECONDS = 15.0
"""From one kill to the next, on average: a driver needs some ten to come to its first batch."""

ARRIVAL_SECONDS = 300.0


def some_commands(seed: int, count: int, queues: int = QUEUES) -> list[Given]:
    """Commands to queues of several compositions, numbered from 1 as positions of a lease are."""
    chosen = compositions()
    return history(seed, {f"q{place}": chosen[(seed + place * 23) % len(chosen)] for place in range(queues)}, count)


# ------------------------------------------------------------------ without Spark


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_whose_worker_dies_or_whose_state_is_not_kept_is_computed_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short form of what follows: state is kept as Spark keeps it, by whole batches, while workers come and go."""
    monkeypatch.setattr(journal, "IMAGE_MINIMUM", 2_000)
    chance = random.Random(seed)
    commands = some_commands(seed, 150, queues=2)
    workers = [RememberedShards[Shard](shard.SHARDS_CACHED) for _ in range(2)]  # what each remembers
    state = MemoryState()
    effects: dict[str, list[Effect]] = {}
    start = failures = 0
    while start < len(commands):
        end = start + chance.choice((3, 10, 20))
        worker = chance.choice(workers)
        monkeypatch.setattr(shard, "REMEMBERED", worker)
        attempt = state.copy()
        held, head = open_shard(1, attempt)
        found = held.take(commands[start:end])
        fate = chance.choice(("kept", "kept", "carried", "written", "not kept"))
        if fate != "carried":
            close_shard(held, head, attempt)
        if fate in ("carried", "written"):
            worker.forget()  # the worker died
        if fate != "kept":
            failures += 1
            continue
        state = attempt
        for effect in found:
            effects.setdefault(str(effect.queue), []).append(effect)
        start = end
    assert failures > 3
    assert effects == uncut(commands)


# ------------------------------------------------------------------ with Spark


class CommandWorld(World):
    """A broker with commands in a queue and their effects in another."""

    def __init__(self, folder: Path, broker: BrokerProcess, commands: Sequence[Given]) -> None:
        super().__init__(folder, broker)
        self.commands = commands

    def publish(self, count: int = BATCH_COMMANDS) -> None:
        """Send the next commands."""
        with pika.BlockingConnection(pika.URLParameters(self.broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for name in ("in", "out"):
                channel.queue_declare(name, durable=True)
            for _, _, document, body in self.commands[self.published : self.published + count]:
                properties = pika.BasicProperties(delivery_mode=2, headers={"document": document})
                channel.basic_publish("", "in", body, properties)
                self.published += 1

    def effects(self) -> list[dict[str, Any]]:
        """What came of the commands, in the order of queues, sequences and numbers."""
        found = [json.loads(body) for body in self.bodies("out")]
        return sorted(found, key=lambda effect: (effect["queue"], effect["sequence"], effect["number"]))

    def told(self) -> dict[str, list[tuple[Any, ...]]]:
        """The same by queue, as :func:`expected` has it."""
        told: dict[str, list[tuple[Any, ...]]] = {}
        for effect in self.effects():
            if "body" in effect:
                effect["body"] = base64.b64decode(effect["body"])
            told.setdefault(effect["queue"], []).append(tuple(map(effect.get, EFFECT_COLUMNS)))
        return told

    def answered(self) -> int:
        """How many commands have an outcome; one that has two counts twice."""
        return sum(effect["effect"] == OUTCOME for effect in self.effects())


@contextmanager
def supervised(
    folder: Path, commands: Sequence[Given], deaths: Sequence[str]
) -> Iterator[tuple[CommandWorld, Supervisor]]:
    with BrokerProcess(folder / "data", bulk=True) as broker:
        world = CommandWorld(folder, broker, commands)
        world.publish()
        driver = ["-m", queue_driver.__name__, URL, str(folder / "checkpoint")]
        supervisor = Supervisor(world, driver, deaths)
        try:
            yield world, supervisor
        finally:
            supervisor.kill()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "deaths",
    [
        ["planned-driver", "carried-driver", "written-driver"],
        ["staged-driver", "committed-driver", "logged-driver"],
        ["carried-worker", "reading-broker", "written-worker", "staged-broker"],
    ],
    ids=["driver-in-the-engine", "driver-at-the-sink", "worker-and-broker"],
)
def test_a_query_that_dies_at_each_point_has_the_effects_of_the_core(tmp_path: Path, deaths: list[str]) -> None:
    commands = some_commands(len(deaths), BATCH_COMMANDS * (len(deaths) + 2))
    with supervised(tmp_path, commands, deaths) as (world, supervisor):
        world.publish(len(commands))
        supervisor.run_until_all_have_died()
        supervisor.wait_for(lambda: world.answered() >= len(commands), "every command to be answered")
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        assert world.told() == expected(commands)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(SECONDS + 3 * ARRIVAL_SECONDS)
def test_random_kills_leave_the_effects_of_the_core(tmp_path: Path, moments: random.Random) -> None:
    commands = some_commands(moments.randrange(1_000), 200 * int(SECONDS / BETWEEN_SECONDS + 1))
    with supervised(tmp_path, commands, []) as (world, supervisor):
        killed: Counter[str] = Counter()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            look_after(supervisor, moments.expovariate(1 / BETWEEN_SECONDS))
            world.publish(moments.randint(0, 2 * BATCH_COMMANDS))
            victim = moments.choice(VICTIMS)
            killed[victim] += kill(supervisor, victim, moments)
        look_after(supervisor, 0.0)
        world.publish(len(commands))
        arriving = time.monotonic() + ARRIVAL_SECONDS
        while world.answered() < len(commands) and time.monotonic() < arriving:
            look_after(supervisor, 1.0)
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        assert world.told() == expected(commands), f"killed: {killed}"
        assert killed.total() > SECONDS / BETWEEN_SECONDS / 4
        print(f"{len(commands)} commands, killed: {dict(killed)}")
