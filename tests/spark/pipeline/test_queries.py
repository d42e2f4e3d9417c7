"""Which queries a pipeline needs."""

from __future__ import annotations

from pathlib import Path

from annulet.spark.pipeline.definition import load
from annulet.spark.pipeline.queries import checkpoint_of, groups, inputs_of

TEXT = """
[sources.a]
type = "queue"
url = "annulet://host"
queue = "in"
[sources.b]
type = "parquet"
path = "b"
[sources.c]
type = "parquet"
path = "c"
snapshot = true
[sources.d]
type = "rate"
[transforms.both]
sql = "SELECT body FROM a JOIN b JOIN c"
[sinks.one]
type = "queue"
input = "both"
url = "annulet://host"
[sinks.two]
type = "queue"
input = "d"
url = "annulet://host"
address = "q"
[sinks.three]
type = "console"
input = "both"
"""


def test_sinks_with_one_input_share_a_query(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(TEXT)
    pipeline = load(file)

    both, plain = groups(pipeline)

    assert (both.input, list(both.sinks), both.staged) == ("both", ["one", "three"], None)
    assert (plain.input, plain.staged) == ("d", pipeline.sinks["two"])
    assert checkpoint_of(pipeline, both) == tmp_path / "checkpoints" / "p" / "both"
    assert inputs_of(pipeline, both) == {"a": "queue in", "b": f"parquet {tmp_path / 'b'}"}
    assert inputs_of(pipeline, plain) == {"d": "rate"}


def test_a_queue_sink_with_sql_or_updates_is_not_spark_s_own(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    for more in ('sql = "SELECT 1"', 'mode = "update"'):
        file.write_text(TEXT.replace('address = "q"', f'address = "q"\n{more}'))
        assert [group.staged for group in groups(load(file))] == [None, None]
