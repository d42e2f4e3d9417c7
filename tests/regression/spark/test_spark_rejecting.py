"""The documented way to reject single messages rejects them (issue 30, C31)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "spark-source.md"


def documented(url: str, folder: Path) -> Any:
    """Return the function of the page's example, with an address and a folder of the test."""
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "rejectFrom" in block
    ]
    assert "/data/orders" in code
    names: dict[str, Any] = {"url": url}
    exec(code.replace("/data/orders", str(folder)), names)
    return names["process"]


def test_the_example_of_the_page_rejects_what_it_cannot_read(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """C31: the example of ``rejectFrom`` filtered what no read message has, so it rejected nothing."""
    dead = f"{name}.dead"
    broker.declare(dead)
    broker.declare(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    broker.publish(name, [b'{"order": 1}', b"no order", b'{"order": 2}'])
    options = {"url": broker.url, "queue": name, "lease": "orders-to-parquet"}
    query = (
        spark.readStream.format("annulet").options(**options).load()
        .writeStream.foreachBatch(documented(broker.url, tmp_path / "orders"))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(240)
    written = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert sorted(bytes(row.body) for row in written) == [b'{"order": 1}', b'{"order": 2}']
    assert broker.bodies(dead) == [b"no order"]
    assert broker.pending(name) == 0
