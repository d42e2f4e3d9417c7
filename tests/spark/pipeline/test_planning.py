"""The plan of a pipeline, as a dry run prints it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from annulet.spark.pipeline.definition import load

if TYPE_CHECKING:
    from tests.spark.conftest import BrokerThread
    from tests.spark.pipeline.conftest import Runner

pytestmark = pytest.mark.spark


def test_a_plan_names_everything_and_takes_nothing(runner: Runner, broker: BrokerThread, name: str) -> None:
    from annulet.spark.pipeline.frames import build_frames
    from annulet.spark.pipeline.planning import describe

    broker.declare(name)
    broker.publish(name, [b"1", b"2"])
    runner.spark.range(3).write.parquet(str(runner.folder / "numbers"))
    file = runner.write(f"""
[sources.waiting]
type = "queue"
url = "${{URL}}"
queue = "{name}"
[sources.numbers]
type = "parquet"
path = "numbers"
snapshot = true
[transforms.joined]
sql = "SELECT w.body, n.id FROM waiting w JOIN numbers n ON cast(w.body AS string) = n.id"
[sinks.next]
type = "queue"
input = "joined"
url = "${{URL}}"
exchange = "amq.topic"
routing_key = "k"
sql = "SELECT body FROM batch"
[sinks.files]
type = "parquet"
input = "joined"
path = "out"
partition_by = ["id"]
[sinks.screen]
type = "console"
input = "joined"
""")
    pipeline = load(file, {"URL": broker.url})

    lines = list(describe(runner.spark, pipeline, build_frames(runner.spark, pipeline)))

    url = broker.url.replace("guest:guest", "guest:***")
    folder = runner.folder
    assert lines[0] == f"pipeline pipe: {file}, trigger available-now"
    known = f"source waiting: queue {name} at {url}, stream by lease pipe.waiting, 2 waiting"
    assert re.fullmatch(re.escape(known) + r", the oldest for [\d,]+\.\d s", lines[1])
    assert lines[2].startswith("  columns position bigint, sequence bigint, message_id string, ")
    assert lines[3:] == [
        f"source numbers: parquet {folder}/numbers, snapshot",
        "  columns id bigint",
        "transform joined: sql of waiting, numbers",
        "  columns body binary, id bigint",
        f"query joined: append, starts anew, checkpoint {folder}/checkpoints/pipe/joined",
        f"  sink next: exchange 'amq.topic' at {url}",
        "    columns body binary",
        f"  sink files: parquet {folder}/out by id",
        "    columns body binary, id bigint",
        "  sink screen: console, 20 rows",
        "    columns body binary, id bigint",
    ]
    assert broker.pending(name) == 2
    assert not (folder / "checkpoints").exists()
