"""Pipeline files: what they say, what they leave out, and what they may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.spark.pipeline.definition import (
    ConsoleSink,
    Pipeline,
    QueueSource,
    load,
    streams,
    without_password,
    words_of_sql,
)
from annulet.spark.pipeline.errors import PipelineFileError

GOOD = """
[pipeline]
trigger = "5 seconds"

[sources.flights]
type = "queue"
url = "annulet://${USER}@host"
queue = "archive"

[sources.airports]
type = "parquet"
path = "airports"
snapshot = true

[transforms.late]
sql = "SELECT f.body FROM flights f JOIN airports ON true"

[transforms.seen]
python = "module:function"
inputs = ["late"]

[sinks.console]
type = "console"
input = "seen"
"""


def read(folder: Path, text: str, **environment: str) -> Pipeline:
    file = folder / "departures.toml"
    file.write_text(text)
    return load(file, environment)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(PipelineFileError) as error:
        read(folder, text, USER="me:secret")
    return str(error.value).replace(str(folder), "")


def test_a_file_is_read_with_defaults_and_variables(tmp_path: Path) -> None:
    pipeline = read(tmp_path, GOOD, USER="me:secret")

    flights = pipeline.sources["flights"]
    assert isinstance(flights, QueueSource)
    assert (flights.url, flights.messages_per_trigger, flights.lease) == ("annulet://me:secret@host", 10_000, "")
    assert pipeline.name == "departures"
    assert pipeline.checkpoints == tmp_path / "checkpoints" / "departures"
    assert pipeline.sinks == {"console": ConsoleSink(input="seen")}
    assert list(pipeline.feeders("seen")) == ["flights", "airports"]
    assert [streams(source) for source in pipeline.sources.values()] == [True, False]
    assert without_password(flights.url) == "annulet://me:***@host"


def test_words_of_comments_and_strings_are_no_views() -> None:
    assert words_of_sql("SELECT 'a' /* b */ FROM `c` -- d\nWHERE \"e\" = F") == {"select", "from", "c", "where", "f"}


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("[pipeline]", "[pipelin]", "/departures.toml:2: pipelin: unknown table; did you mean 'pipeline'?"),
        ('queue = "archive"', 'quue = "x"', ":8: sources.flights.quue: unknown key; did you mean 'queue'?"),
        ('queue = "archive"', "queue = 5", ":8: sources.flights.queue: expected `str`, got `int`"),
        ('queue = "archive"', "", "sources.flights: object missing required field `queue`; add queue = ..."),
        ('queue = "archive"', 'queue = "a"\npartitions = 0', ":9: sources.flights.partitions: 0 is out of range"),
        ('type = "parquet"', 'type = "csv"', ":11: sources.airports.type: 'csv' is unknown; choose queue, parquet"),
        ('type = "console"', "", "sinks.console.type: is missing; choose queue, parquet, console"),
        ("${USER}", "${USR}", ":7: sources.flights.url: the environment has no variable USR; export it"),
        ('"5 seconds"', '"5 apples"', ":3: pipeline.trigger: '5 apples' is unknown; give"),
        ('input = "seen"', 'input = "sen"', ":24: sinks.console.input: no source or transform 'sen'; did you mean"),
        ('input = "seen"', 'input = "airports"', ":24: sinks.console.input: nothing streams into 'airports'"),
        ('inputs = ["late"]', 'inputs = ["seen"]', ":20: transforms.seen.inputs: no source or transform 'seen'"),
        ('"module:function"', '"module"', ":19: transforms.seen.python: 'module' is not \"module:function\""),
        ('python = "module:function"', "", "transforms.seen: give either sql"),
        ("[transforms.late]", "[transforms.flights]", "transforms.flights: a source has the same name"),
        ("[transforms.late]", '[transforms."la te"]', "'la te' is no name of an SQL view"),
        ("FROM flights f JOIN airports ON true", "", "transforms.late: reads nothing from above it"),
        ("[sinks.console]", "[sinks]\n[sink.console]", "sink: unknown table"),
        ("[pipeline]", "[pipeline", ":2: not TOML"),
        ('path = "airports"', 'path = "s3a://b/a"', ":12: sources.airports.path: 's3a://b/a' is a URI (s3a), and only"),
        (
            '"5 seconds"',
            '"5 seconds"\ncheckpoints = "file:///c"',
            ":4: pipeline.checkpoints: 'file:///c'",
        ),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, before: str, after: str, text: str) -> None:
    assert before in GOOD
    assert text in refused(tmp_path, GOOD.replace(before, after))


def test_a_queue_streams_into_one_query_only(tmp_path: Path) -> None:
    second = '[sinks.other]\ntype = "console"\ninput = "{}"\n{}'

    assert "sinks.other.input: queue 'archive' already streams into 'seen'" in refused(
        tmp_path, GOOD + second.format("flights", "")
    )
    assert list(read(tmp_path, GOOD + second.format("seen", ""), USER="u").sinks) == ["console", "other"]
    assert "sinks with the same input share one query" in refused(
        tmp_path, GOOD + second.format("seen", 'mode = "update"')
    )


def test_two_sinks_of_one_query_do_not_share_a_folder(tmp_path: Path) -> None:
    def sink(name: str, view: str, path: str) -> str:
        return f'[sinks.{name}]\ntype = "parquet"\ninput = "{view}"\npath = "{path}"\n'

    text = GOOD.replace('type = "queue"\nurl = "annulet://${USER}@host"\nqueue = "archive"', 'type = "rate"')
    text += sink("first", "seen", "out") + sink("second", "seen", "out/more") + sink("third", "late", "out")
    assert len(read(tmp_path, text).sinks) == 4
    assert "sinks.same.path: sink 'first' writes 'seen' into this folder too; give each its own" in refused(
        tmp_path, text + sink("same", "seen", "./more/../out")
    )


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_names_are_relative_to_the_file(tmp_path: Path) -> None:
    pipeline = read(tmp_path, GOOD, USER="u")

    assert pipeline.resolve("data/x") == tmp_path / "data" / "x"
    assert pipeline.resolve("/data/x") == Path("/data/x")
