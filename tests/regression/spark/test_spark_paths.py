"""URIs where a local path is meant (issue 30, C28)."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.spark.archive.archiving import start_archive
from annulet.spark.archive.log import ArchiveError
from annulet.spark.archive.replay import ReplayRequest, replay
from annulet.spark.archive.table import Table
from annulet.spark.pipeline.definition import load
from annulet.spark.pipeline.errors import PipelineFileError

PIPELINE = """[sources.tp]
type = "queue"
url = "annulet://guest:guest@localhost/"
queue = "tp2"

[sinks.files]
type = "parquet"
input = "tp"
path = "{path}"
"""


@pytest.mark.parametrize("path", ["s3a://bucket/out", "file:///srv/out", "${PLACE}/out"])
def test_a_pipeline_with_a_uri_is_refused_with_file_and_line(tmp_path: Path, path: str) -> None:
    """C28: messages left the broker and lay in ``./s3a:/bucket/out``."""
    file = tmp_path / "uri.toml"
    file.write_text(PIPELINE.format(path=path))
    with pytest.raises(PipelineFileError, match=r"uri\.toml:9: sinks\.files\.path: '.*' is a URI \(\w+\)"):
        load(file, {"PLACE": "hdfs://host"})


@pytest.mark.parametrize("folder", [Path("s3a://bucket/out"), Path("file:///srv/out")])
def test_archive_and_replay_refuse_a_uri(folder: Path) -> None:
    """C28: before anything is asked of Spark or the broker."""
    url = "annulet://guest:guest@localhost/"
    with pytest.raises(ArchiveError, match="is a URI"):
        start_archive(None, url, "q", folder)  # type: ignore[arg-type] # Spark is not asked
    with pytest.raises(ArchiveError, match="is a URI"):
        replay(None, ReplayRequest(folder, url, "q", "again"))  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="is a URI"):
        Table(folder)


def test_an_archive_refuses_a_uri_as_its_checkpoint(tmp_path: Path) -> None:
    """C28, a brother."""
    with pytest.raises(ArchiveError, match="checkpoint: 's3a:/bucket/c' is a URI"):
        start_archive(None, "", "q", tmp_path, checkpoint=Path("s3a://bucket/c"))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
