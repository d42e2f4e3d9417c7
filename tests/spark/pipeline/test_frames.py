"""Data frames of sources and transforms; the rest of them is in the tests of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.archive.table import Table
from annulet.spark.options import OptionError
from annulet.spark.pipeline.definition import Pipeline, QueueSource, load
from annulet.spark.pipeline.errors import PipelineFileError

if TYPE_CHECKING:
    from tests.spark.conftest import BrokerThread
    from tests.spark.pipeline.conftest import Runner

pytestmark = pytest.mark.spark


def pipeline_of(runner: Runner, text: str) -> Pipeline:
    return load(runner.write(text + '[sources.n]\ntype="rate"\n[sinks.s]\ntype="console"\ninput="n"\n'), {})


def test_a_queue_may_be_read_as_it_is_now(runner: Runner, broker: BrokerThread, name: str) -> None:
    from annulet.spark.pipeline.frames import build_frames

    broker.declare(name)
    broker.publish(name, [b'{"id": 5}', b"no JSON"])
    source = f'[sources.q]\ntype="queue"\nurl="{broker.url}"\nqueue="{name}"\nsnapshot=true\njson_schema="id INT"\n'

    frame = build_frames(runner.spark, pipeline_of(runner, source))["q"]

    assert [row.id for row in frame.orderBy("position").select("json.id").collect()] == [5, None]


def test_a_queue_may_be_streamed_without_taking(tmp_path: Path) -> None:
    from annulet.spark.pipeline.frames import _stream_options
    from annulet.spark.pipeline.planning import how_read

    def source(more: str) -> tuple[Pipeline, QueueSource]:
        file = tmp_path / "pipe.toml"
        file.write_text(f"""
[sources.ticks]
type = "queue"
url = "annulet://host"
queue = "ticks"
{more}
[sinks.a]
type = "console"
input = "ticks"
[transforms.b]
sql = "SELECT * FROM ticks"
[sinks.c]
type = "console"
input = "b"
""")
        pipeline = load(file, {})
        found = pipeline.sources["ticks"]
        assert isinstance(found, QueueSource)
        return pipeline, found

    pipeline, ticks = source("non_destructive = true")  # two queries read it, which a stream that takes may not
    options = _stream_options(pipeline, "ticks", ticks)
    assert (options["nonDestructive"], "lease" in options) == (True, False)
    assert how_read(pipeline, "ticks", ticks) == "stream that takes nothing"
    with pytest.raises(OptionError, match="lease 'l' has no meaning beside non_destructive"):
        _stream_options(pipeline, "ticks", source('non_destructive = true\nlease = "l"')[1])


def test_files_of_annulet_are_read_by_their_log_and_never_streamed(runner: Runner) -> None:
    from annulet.spark.pipeline.frames import build_frames

    folder = runner.folder / "t"
    Table(folder).append(runner.spark.range(4), "q", 0)
    (folder / "not-counted.parquet").write_bytes(b"left by a crash")
    source = '[sources.t]\ntype="parquet"\npath="t"\nsnapshot={}\n'

    assert build_frames(runner.spark, pipeline_of(runner, source.format("true")))["t"].count() == 4
    with pytest.raises(PipelineFileError, match=r"pipe\.toml:1: sources\.t: .* would read rows twice; set snapshot"):
        build_frames(runner.spark, pipeline_of(runner, source.format("false")))


def test_a_python_transform_must_return_a_data_frame(runner: Runner) -> None:
    from annulet.spark.pipeline.frames import build_frames

    (runner.folder / "none_module.py").write_text("def nothing(frame):\n    return None\n")
    text = '[transforms.x]\npython="none_module:nothing"\ninputs=["n"]\n'

    with pytest.raises(PipelineFileError, match=r"pipe\.toml:2: transforms\.x\.python: returned NoneType; return a"):
        build_frames(runner.spark, pipeline_of(runner, text))
