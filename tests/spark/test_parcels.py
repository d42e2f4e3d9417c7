"""What executors get is opened by a function that comes with it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from annulet import __version__
from annulet.spark.datasource import AnnuletDataSource
from annulet.spark.engine.streaming import EngineProcessor
from annulet.spark.parcels import Call, Sealed, restored, seal, sealed_function
from annulet.spark.sequences import SequencePartition
from annulet.spark.source import LeasePartition, SnapshotPartition
from tests.spark.bare_python import packages_without_annulet

BODY = StructType([StructField("body", BinaryType())])
POSITION = StructType([StructField("position", LongType())])
SERIALIZER = CloudPickleSerializer()


def source(**options: str) -> AnnuletDataSource:
    return AnnuletDataSource({"url": "annulet://127.0.0.1:1/", **options})


TRAVELLING: list[object] = [
    source(queue="q"),
    source(queue="q").reader(BODY),
    source(queue="q", pushdown="true").reader(BODY),
    source(queue="q").streamReader(BODY),
    source(queue="q", nonDestructive="true").streamReader(BODY),
    source(address="q").writer(BODY, overwrite=False),
    source(address="q").streamWriter(BODY, overwrite=False),
    source(rejectFrom="lease").writer(POSITION, overwrite=False),
    SnapshotPartition("view", 1, 2),
    LeasePartition("lease", "owner", 1, 2),
    SequencePartition("reader", {"sequence": 3}, 1, 2, 1),
    EngineProcessor(2),
]


@pytest.mark.parametrize("travelling", TRAVELLING, ids=lambda it: type(it).__name__)
def test_what_executors_get_arrives_as_it_was(travelling: object) -> None:
    again = SERIALIZER.loads(SERIALIZER.dumps(travelling))
    assert type(again) is type(travelling)
    assert repr(sorted(vars(again))) == repr(sorted(vars(travelling)))
    assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(travelling)))


def test_a_python_without_annulet_tells_versions_and_remedy(tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.write_bytes(pickle.dumps([SERIALIZER.dumps(travelling) for travelling in TRAVELLING]))
    code = (
        "import pickle, sys; from pathlib import Path; from pyspark.serializers import CloudPickleSerializer\n"
        "for sealed in pickle.loads(Path(sys.argv[1]).read_bytes()):\n"
        "    try: CloudPickleSerializer().loads(sealed)\n"
        "    except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(sealed)],
        env={**os.environ, "PYTHONPATH": str(packages_without_annulet(tmp_path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    told = done.stdout.splitlines()
    assert len(told) == len(TRAVELLING)
    for line in told:
        assert "No module named 'annulet'; annulet is not installed there" in line
        assert f"planned by annulet {__version__})" in line
        assert f"pip install 'annulet[spark]=={__version__}'" in line


class Renamed(Sealed):
    """A class the other version does not have."""


def test_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "0")  # put back at the end
    sealed = seal(pickle.dumps(Call(restored, Renamed, {})), "9.9.9")
    monkeypatch.delattr(sys.modules[__name__], "Renamed")
    with pytest.raises(ImportError) as caught:
        pickle.loads(sealed)
    assert f"annulet {__version__} (the query was planned by annulet 9.9.9) needs there:" in str(caught.value)
    assert "pip install 'annulet[spark]==9.9.9'" in str(caught.value)


def test_what_comes_from_an_archive_is_looked_for_there(tmp_path: Path) -> None:
    archive = tmp_path / "annulet.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("annulet/__init__.py", "found = 'in the archive'")
    sealed = tmp_path / "sealed"
    sealed.write_bytes(seal(b"cannulet\nfound\n.", archive=str(archive)))
    code = "import pickle, sys; from pathlib import Path; print(pickle.loads(Path(sys.argv[1]).read_bytes()))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(sealed)],
        env={**os.environ, "PYTHONPATH": str(packages_without_annulet(tmp_path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout == "in the archive\n"


def test_a_function_travels_with_what_it_needs() -> None:
    end = b"f"

    def made(given: bytes) -> Renamed:
        return restored(Renamed, {"given": given + end})

    again = SERIALIZER.loads(SERIALIZER.dumps(sealed_function(made)))
    assert again(b"a").given == b"af"
