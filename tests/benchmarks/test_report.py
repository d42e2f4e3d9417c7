from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.brokers import Running
from benchmarks.report import compare, ratio, show, summarise
from benchmarks.scenarios import AMQP091, AMQP10, SCENARIOS, GeneratorError, generator_folder


def figures(rate: float, cpu: float, *, received: int = 100) -> dict[str, Any]:
    return {
        "recv_rate": rate if received else 0,
        "send_rate": rate + 1,
        "received": received,
        "broker_us_per_msg": cpu,
        "lat_us": {"p50": 1, "p99": 2, "p999": 3},
        "memory_per_message": 1100,
        "foreign_cores": 0.1,
    }


def test_summary_is_the_median_of_the_rounds() -> None:
    rounds = [figures(10, 5), figures(1000, 1), figures(30, 3)]
    assert summarise(rounds)["rate"] == 30
    assert summarise(rounds)["cpu"] == 3


def test_without_a_consumer_the_rate_is_the_senders() -> None:
    assert summarise([figures(10, 5, received=0)])["rate"] == 11


def test_ratios_say_how_many_times_better_than_rabbitmq() -> None:
    results = {"transient-1k": {"RabbitMQ": [figures(50, 30)], "Annulet pure": [figures(100, 6)]}}
    row = compare(results)["transient-1k"]["Annulet pure"]
    assert row["rate_ratio"] == 2
    assert row["cpu_ratio"] == 5


def test_without_rabbitmq_there_are_no_ratios() -> None:
    row = compare({"transient-1k": {"Annulet pure": [figures(100, 6)]}})["transient-1k"]["Annulet pure"]
    assert row["rate_ratio"] is None
    assert row["cpu_ratio"] is None


@pytest.mark.parametrize(("numerator", "denominator"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_ratio_with_zero_is_none(numerator: float, denominator: float) -> None:
    assert ratio(numerator, denominator) is None


def test_table_names_each_broker_once_per_load() -> None:
    output = StringIO()
    results = {"transient-1k": {"RabbitMQ": [figures(50, 30)], "Annulet pure": [figures(100, 6)]}, "backlog": {}}
    show(results, Console(file=output, width=150))
    assert output.getvalue().count("Annulet pure") == 1
    assert "2.00" in output.getvalue()


@pytest.mark.parametrize("name", [AMQP091, AMQP10])
def test_a_missing_generator_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("ANNULET_LOAD_GENERATOR_DIR", str(tmp_path))
    with pytest.raises(GeneratorError, match=f"no {name}.c .* set ANNULET_LOAD_GENERATOR_DIR"):
        generator_folder(name)


def test_each_protocol_gets_its_own_command_line(tmp_path: Path) -> None:
    broker = Running(5672, 42)
    commands = {one.generator: one.command(tmp_path, broker, 7) for one in SCENARIOS}
    assert commands[AMQP091][-5:] == ["--port", "5672", "--queue", "latency-10000-", "--delete"]
    assert commands[AMQP10][-8:] == [
        "--addr", "127.0.0.1:5672", "--queue", "/queue/amqp10-persistent-", "--user", "guest", "--password", "guest",
    ]  # fmt: skip
    assert all(command[1:5] == ["--pid", "42", "--count", "7"] for command in commands.values())
