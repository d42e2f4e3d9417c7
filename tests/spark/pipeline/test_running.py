"""Whole runs on a real Spark with a real broker."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from annulet.spark.archive.holding import held_since
from annulet.spark.archive.table import Table
from annulet.spark.pipeline.definition import load
from annulet.spark.pipeline.errors import PipelineError
from annulet.spark.pipeline.progress import BatchReport
from annulet.spark.pipeline.running import _hold_archives, watch

if TYPE_CHECKING:
    from tests.spark.conftest import BrokerThread
    from tests.spark.pipeline.conftest import Runner

pytestmark = pytest.mark.spark

PIPELINE = """
[sources.orders]
type = "queue"
url = "${URL}"
queue = "NAME-in"
messages_per_trigger = 40
json_schema = "id INT, item STRING"

[transforms.parsed]
python = "shouting:loud"
inputs = ["orders"]
options = { suffix = "!" }

[sinks.files]
type = "parquet"
input = "parsed"
path = "files"
partition_by = ["odd"]
sql = "SELECT id, item, id % 2 AS odd FROM batch"

[sinks.evens]
type = "queue"
input = "parsed"
url = "${URL}"
address = "NAME-out"
sql = "SELECT item AS body FROM batch WHERE id % 2 = 0"

[sinks.screen]
type = "console"
input = "parsed"
rows = 2
sql = "SELECT count(*) AS orders FROM batch"
"""

MODULE = """
from pyspark.sql import functions

def loud(orders, suffix):
    item = functions.concat(functions.upper("json.item"), functions.lit(suffix))
    return orders.select("json.id", item.alias("item"))
"""


def bodies(first: int, last: int) -> list[bytes]:
    return [json.dumps({"id": number, "item": f"thing {number}"}).encode() for number in range(first, last)]


def test_a_queue_fans_out_to_files_a_queue_and_the_screen_and_goes_on(
    runner: Runner, broker: BrokerThread, name: str
) -> None:
    broker.declare(f"{name}-in", f"{name}-out")
    broker.publish(f"{name}-in", bodies(0, 100))
    (runner.folder / "shouting.py").write_text(MODULE)
    text = PIPELINE.replace("NAME", name)

    def stop_after_the_first(report: BatchReport, stop: Event) -> None:
        stop.set()

    first = runner.run(text, stop_after_the_first)
    assert (first.stopped, runner.reports[0].rows, runner.reports[0].backlog) == (True, 40, 60)
    runner.run(text)
    broker.publish(f"{name}-in", bodies(100, 110))
    last = runner.run(text)

    assert (last.rows, last.stopped) == (10, False)
    assert runner.shown == [f"screen: batch {runner.reports[0].batch}\n orders\n     10"]
    assert broker.bodies(f"{name}-out") == [b"THING %d!" % number for number in range(0, 110, 2)]
    rows = pyarrow.parquet.read_table(runner.folder / "files").to_pylist()
    assert sorted((row["id"], row["item"], str(row["odd"])) for row in rows) == [
        (number, f"THING {number}!", str(number % 2)) for number in range(110)
    ]


def test_one_queue_sink_and_an_aggregate_in_update_mode(runner: Runner, broker: BrokerThread, name: str) -> None:
    broker.declare(f"{name}-plain", f"{name}-counts")
    text = f"""
[sources.ticks]
type = "rate"
rows_per_batch = 20
[transforms.plain]
sql = "SELECT cast(value AS string) AS body FROM ticks"
[transforms.counts]
sql = "SELECT concat(value % 2, ':', count(*)) AS body FROM ticks GROUP BY value % 2"
[sinks.plain]
type = "queue"
input = "plain"
url = "${{URL}}"
address = "{name}-plain"
[sinks.counts]
type = "queue"
input = "counts"
mode = "update"
url = "${{URL}}"
address = "{name}-counts"
"""
    outcome = runner.run(text)

    assert (outcome.rows, outcome.batches) == (40, 2)
    assert sorted(broker.bodies(f"{name}-plain"), key=int) == [b"%d" % number for number in range(20)]
    assert sorted(broker.bodies(f"{name}-counts")) == [b"0:10", b"1:10"]


def test_what_is_wrong_is_told_in_one_line_before_anything_moves(
    runner: Runner, broker: BrokerThread, name: str
) -> None:
    broker.declare(f"{name}-in", f"{name}-out")
    broker.publish(f"{name}-in", bodies(0, 3))
    (runner.folder / "shouting.py").write_text(MODULE)
    good = PIPELINE.replace("NAME", name)
    wrong = {
        good.replace(f"{name}-in", "nowhere"): ":2: sources.orders: no queue 'nowhere' in virtual host '/'",
        good.replace("SELECT item AS body", "SELECT id AS body"): "column 'body' has type int, not binary or string",
        good.replace("AS odd FROM", "AS even FROM"): ":18: sinks.files.partition_by: no column 'odd'",
        good.replace("count(*)", "nothing"): ": sinks.screen.sql: ",
        good.replace("shouting:loud", "shouting:low"): ":10: transforms.parsed.python: module 'shouting' has no",
        good.replace("shouting:loud", "muttering:low"): "module 'muttering' cannot be imported: No module named",
        good.replace('suffix = "!"', "suffix = 5, more = 1"): "transforms.parsed.python: loud() got an unexpected",
        good.replace("id INT", "id INTEGRAL"): ":2: sources.orders: ",
        good.replace("${URL}", broker.url.replace("guest:guest", "guest:wrong")): "login refused for user 'guest'",
    }  # fmt: skip
    for text, expected in wrong.items():
        with pytest.raises(PipelineError) as error:
            runner.run(text)
        assert expected in str(error.value)
        assert len(str(error.value).splitlines()) == 1
    assert broker.pending(f"{name}-in") == 3


class FailedQuery:
    """A streaming query that ended with an error."""

    isActive = False  # noqa: N815 - Spark's names
    recentProgress: tuple[Any, ...] = ()  # noqa: N815
    lastProgress = None  # noqa: N815

    def exception(self) -> Exception:
        return RuntimeError("annulet.bulk.protocol.errors.UnavailableError: nobody there; start one")

    def stop(self) -> None:
        """It has ended."""


def test_a_failure_ends_the_run_but_not_one_that_was_asked_to_stop() -> None:
    stop = Event()
    queries: Any = {"orders": FailedQuery()}
    with pytest.raises(PipelineError, match="query orders: nobody there; start one"):
        watch(queries, stop=stop, report=lambda _batch: None)
    stop.set()
    outcome = watch(queries, stop=stop, report=lambda _batch: None)
    assert (outcome.stopped, outcome.cut_off) == (True, ("query orders: nobody there; start one",))


def test_a_lease_that_is_gone_and_a_damaged_checkpoint_are_told(
    runner: Runner, broker: BrokerThread, name: str
) -> None:
    from annulet.bulk.client import connect
    from annulet.bulk.protocol.protocol import ReleaseLease
    from annulet.bulk.protocol.url import parse_url

    broker.declare(f"{name}-in")
    broker.publish(f"{name}-in", bodies(0, 10))
    text = f"""
[sources.orders]
type = "queue"
url = "${{URL}}"
queue = "{name}-in"
lease = "{name}"
[sinks.screen]
type = "console"
input = "orders"
sql = "SELECT raise_error('broken on purpose') FROM batch"
"""
    with pytest.raises(PipelineError, match=r"query orders: .*broken on purpose"):
        runner.run(text)
    good = text.replace("raise_error('broken on purpose')", "count(*)")
    assert connect(parse_url(broker.url)).act(ReleaseLease(lease=name)) == {"returned": 10}
    with pytest.raises(PipelineError, match="lease range gone"):
        runner.run(good)
    runner.spark.range(1).write.parquet(str(runner.folder / "data"))
    other = good.replace('"queue"', '"parquet"').split("url")[0] + 'path = "data"\n[sinks' + good.split("[sinks")[1]
    with pytest.raises(PipelineError, match=r"source 'orders' was queue .* and is parquet"):
        runner.run(other)
    (runner.folder / "checkpoints" / "pipe" / "orders" / "metadata").write_text("{")
    with pytest.raises(PipelineError, match=r"checkpoint damaged: .*metadata is not what \.metadata\.crc was made of"):
        runner.run(good)


def test_files_of_an_archive_are_held_while_a_pipeline_reads_it(tmp_path: Path) -> None:
    table = Table(tmp_path / "archive")
    table.inside.mkdir(parents=True)
    file = tmp_path / "pipe.toml"
    file.write_text("""
[sources.ticks]
type = "rate"
[sources.past]
type = "parquet"
path = "archive"
snapshot = true
[sinks.screen]
type = "console"
input = "ticks"
""")
    shown: list[str] = []
    with ExitStack() as readers:
        _hold_archives(load(file, {}), readers, shown.append)
        assert held_since(table) is not None
    assert held_since(table) is None
    (table.inside / "readers").rmdir()
    (table.inside / "readers").touch()
    with ExitStack() as readers:
        _hold_archives(load(file, {}), readers, shown.append)
    assert "are kept for 60 minutes only; let this user write into" in shown[0]
