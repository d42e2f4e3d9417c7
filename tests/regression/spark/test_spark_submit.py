"""spark-submit with ``--py-files`` brings annulet where Spark's Python has none (issue 30, C29)."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pika
import pyspark
import pytest

from annulet.spark.java import ensure_java
from tests.broker_process import BrokerProcess
from tests.spark.bare_python import interpreter

pytestmark = pytest.mark.spark

SUBMIT_SECONDS = 250

JOB = """
import sys, tempfile
from pyspark.sql import SparkSession
from annulet.spark import register
spark = SparkSession.builder.getOrCreate()
register(spark)
of_queue = {"url": sys.argv[1], "queue": "submitted"}
rows = spark.range(20).selectExpr("cast(id AS string) AS body")
rows.write.format("annulet").mode("append").options(url=sys.argv[1], address="submitted").save()
print("READ", spark.read.format("annulet").options(**of_queue).load().count())
folder = tempfile.mkdtemp()
stream = spark.readStream.format("annulet").options(**of_queue).load().writeStream.format("parquet")
stream = stream.option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
stream.trigger(availableNow=True).start().awaitTermination()
print("STREAMED", spark.read.parquet(folder + "/out").count())
"""


def archive(folder: Path) -> Path:
    """Return an archive of the packages, as ``--py-files`` takes it."""
    source = Path(__file__).parents[3] / "src"
    path = folder / "annulet.zip"
    with zipfile.ZipFile(path, "w") as writer:
        for package in ("annulet", "pyspark_annulet"):
            for module in sorted((source / package).rglob("*.py")):
                writer.write(module, module.relative_to(source))
    return path


def test_a_job_with_py_files_reads_writes_and_streams(tmp_path: Path) -> None:
    """C29: the process that runs the source of a stream does not get what --py-files names."""
    job = tmp_path / "job.py"
    job.write_text(JOB)
    ensure_java()
    python = str(interpreter(tmp_path, only_tasks=False))
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    environment.pop("PYTHONPATH", None)
    with BrokerProcess(tmp_path / "data", bulk=True) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        connection.channel().queue_declare("submitted", durable=True)
        connection.close()
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
        for setting in ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"):
            command += ["--conf", setting]
        done = subprocess.run(
            [*command, "--py-files", str(archive(tmp_path)), str(job), broker.bulk_url],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SUBMIT_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert [line for line in done.stdout.splitlines() if line.startswith(("READ", "STREAMED"))] == [
        "READ 20",
        "STREAMED 20",
    ]
