"""What Spark asks the data source before it starts anything. Reads and writes: test_source and test_sink."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

import pyspark
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import pyspark_annulet
import pyspark_annulet.source as pyspark_source
from annulet.bulk.protocol.schema import COLUMNS
from annulet.spark.datasource import FORMAT, AnnuletDataSource
from annulet.spark.options import OptionError
from annulet.spark.schema import read_schema
from annulet.spark.sink import AnnuletStreamWriter, AnnuletWriter
from annulet.spark.source import AnnuletReader, AnnuletStreamReader

URL = "annulet://guest:guest@127.0.0.1:1/"
BODY = StructType([StructField("body", BinaryType())])


def source(**options: str) -> AnnuletDataSource:
    return AnnuletDataSource({"url": URL, **options})


def test_spark_finds_the_format_by_itself() -> None:
    assert isinstance(pyspark_annulet.DefaultSource({"url": URL}), AnnuletDataSource)
    assert pyspark_annulet.DefaultSource.name() == AnnuletDataSource.name() == FORMAT == "annulet"


def test_what_cannot_be_imported_is_told_with_versions_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "0")  # put back at the end
    monkeypatch.setitem(sys.modules, "annulet.spark.datasource", None)
    with pytest.raises(ImportError) as caught:
        pyspark_annulet.DefaultSource({"url": URL})
    text = str(caught.value)
    assert f"({sys.executable}, host {platform.node()})" in text
    assert f"pyspark==4.3.* (has {pyspark.__version__})" in text
    assert "pip install 'annulet[spark]==" in text


def test_a_package_that_annulet_always_needs_is_told_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without(name: str) -> str:
        if name == "msgspec":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    text = pyspark_source.explanation(ImportError("No module named 'msgspec'"))
    assert "msgspec>=0.19 (missing)" in text
    assert "starlette" not in text


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert pyspark_source.installed("pyarrow>=18") == "missing"
    assert "annulet is not installed there" in pyspark_source.explanation(ImportError("No module named 'annulet'"))


def test_the_schema_follows_the_options_and_needs_no_broker() -> None:
    assert source(queue="q").schema() == read_schema(COLUMNS)
    assert source(queue="q", includeBody="false").schema() == read_schema([name for name in COLUMNS if name != "body"])


def test_planning_needs_no_broker() -> None:
    assert isinstance(source(queue="q").reader(BODY), AnnuletReader)
    assert isinstance(source(queue="q").streamReader(BODY), AnnuletStreamReader)
    assert isinstance(source(address="q").writer(BODY, overwrite=False), AnnuletWriter)
    assert isinstance(source(address="q").streamWriter(BODY, overwrite=False), AnnuletStreamWriter)


@pytest.mark.parametrize(("method", "remedy"), [("writer", '.mode\\("append"\\)'), ("streamWriter", "outputMode")])
def test_a_queue_is_not_overwritten(method: str, remedy: str) -> None:
    with pytest.raises(OptionError, match=f"a queue cannot be overwritten; use .*{remedy}"):
        getattr(source(address="q"), method)(BODY, overwrite=True)


WRONG = [
    ({}, BODY, "option queue is missing"),
    ({"queue": "q"}, StructType([StructField("body", StringType())]), "type binary"),
]


@pytest.mark.parametrize(("options", "schema", "text"), WRONG)
def test_a_read_is_refused_before_it_starts(options: dict[str, str], schema: StructType, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        source(**options).reader(schema)
    refused = source(**options).streamReader(schema)
    for call in (
        refused.initialOffset,
        lambda: refused.latestOffset({}, ReadAllAvailable()),
        lambda: refused.partitions({}, {}),
        lambda: refused.read(InputPartition(0)),
        lambda: refused.commit({}),
    ):
        with pytest.raises(OptionError, match=text):
            call()
    refused.stop()
