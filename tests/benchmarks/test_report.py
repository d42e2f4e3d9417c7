from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.brokers import Nats, Running
from benchmarks.report import compare, generator_limits, ratio, show, summarise
from benchmarks.scenarios import AMQP091, AMQP10, NATS, SCENARIOS, STOMP, GeneratorError, generator_folder

NAMED = {one.name: one for one in SCENARIOS}


def figures(rate: float, cpu: float, *, received: int = 100) -> dict[str, Any]:
    return {
        "recv_rate": rate if received else 0,
        "send_rate": rate + 1,
        "received": received,
        "broker_us_per_msg": cpu,
        "lat_us": {"p50": 1, "p99": 2, "p999": 3},
        "memory_per_message": 1100,
        "foreign_cores": 0.1,
        "own_cpu_us_per_msg": 1.0,
        "written_per_byte": 1.2,
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


def test_each_protocol_gets_its_own_command_line() -> None:
    broker = Running(5672, 42, stomp_port=61613)
    [amqp] = NAMED["paced-10000"].commands(["load"], AMQP091, broker, 7)
    assert amqp[:5] == ["load", "--pid", "42", "--count", "7"]
    assert amqp[-5:] == ["--port", "5672", "--queue", "paced-10000-", "--delete"]
    [amqp10] = NAMED["amqp10-durable"].commands(["load"], AMQP10, broker, 7)
    assert amqp10[-8:] == [
        "--addr", "127.0.0.1:5672", "--queue", "/queue/amqp10-durable-", "--user", "guest", "--password", "guest",
    ]  # fmt: skip
    [stomp] = NAMED["stomp"].commands(["load"], STOMP, broker, 7)
    assert stomp[-4:] == ["--port", "61613", "--queue", "stomp"]


def test_a_drain_fills_the_queue_first() -> None:
    fill, drain = NAMED["drain"].commands(["load"], AMQP091, Running(5672, 42), 7)
    assert "--consumers" in fill
    assert "--delete" not in fill
    assert drain[-2:] == ["--expect", "7"]


def test_nats_takes_part_where_the_load_is_that_of_a_stream() -> None:
    nats = Nats("NATS", always=False)
    assert [one.name for one in SCENARIOS if one.generator_for(nats)] == ["backlog", "drain", "slow-backlog"]
    [command] = NAMED["drain"].commands(["load"], NATS, Running(4222, 42), 7)
    assert command[-6:] == ["--time", "15", "--port", "4222", "--queue", "drain-"]


def test_a_generator_with_a_full_core_is_marked() -> None:
    assert generator_limits({"rate": 900_000, "generator": 1.0})
    assert not generator_limits({"rate": 400_000, "generator": 1.0})
