"""Archived messages back into a queue: a time range, a filter, a rate; each message once, also across restarts.

The chosen rows are copied first, in order and numbered: what is archived, merged or expired meanwhile changes nothing.
They are published batch by batch under one ``writeId``, and the broker remembers how far.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import msgspec

from annulet.bulk import protocol
from annulet.bulk.client import BulkClient
from annulet.bulk.schema import WRITE_COLUMNS
from annulet.bulk.url import parse_url
from annulet.spark.archive.archiving import ORDER, read_archive
from annulet.spark.archive.log import ArchiveError, sync_folder
from annulet.spark.archive.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS: Final = 50_000
"""Messages published at once when no rate is given: what the broker makes visible in one turn of its loop."""

DESTINATION: Final = ("address", "exchange", "routing_key")
NAME: Final = re.compile(r"\w[\w.-]{0,99}")
"""A folder's name below ``replays``; two dots would be the folder around it."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay. ``rate`` is in messages a second, ``None`` for as fast as it goes.

    ``name`` makes a replay one: asked for again under the same name it goes on, or does nothing when it was done.
    """

    folder: Path
    url: str
    address: str
    name: str
    since: datetime | None = None
    until: datetime | None = None
    addresses: Sequence[str] = ()
    where: str | None = None
    rate: int | None = None
    retry_seconds: int = 60

    def described(self) -> dict[str, str]:
        """Return what makes two requests the same replay."""
        return {
            "address": self.address,
            "since": str(self.since),
            "until": str(self.until),
            "addresses": ",".join(self.addresses),
            "where": str(self.where),
        }


class Plan(msgspec.Struct):
    """A replay under way, as kept beside its rows."""

    request: dict[str, str]
    write_id: str
    rows: int
    batch_rows: int
    published: int = 0  # batches
    done: bool = False

    @property
    def batches(self) -> int:
        """Batches of all rows."""
        return -(-self.rows // self.batch_rows)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a call did: rows published by it, rows of the whole replay, whether that is done."""

    rows: int
    total: int
    done: bool


def replay(
    spark: SparkSession,
    request: ReplayRequest,
    *,
    stop: Event | None = None,
    report: Callable[[int, int], None] = lambda _published, _total: None,
    clock: Callable[[], float] = time.monotonic,
) -> Replayed:
    """Publish the chosen messages in the order of acceptance. ``report`` gets rows published so far, and all.

    Ends early, after a batch, when ``stop`` is set; the next call goes on. Raises :class:`ArchiveError`.
    """
    stop = stop or Event()
    if not NAME.fullmatch(request.name):
        raise ArchiveError(
            f"replay name {request.name!r}: use 1 to 100 letters, digits, dots, dashes, underscores, no dot or dash "
            "first"
        )
    if request.rate is not None and request.rate < 1:
        raise ArchiveError(f"rate {request.rate} is out of range; give at least 1 message a second")
    folder = Table(request.folder).inside / "replays" / request.name
    plan = _plan_of(spark, request, folder)
    published = 0
    first, started = plan.published, clock()
    for batch in range(plan.published, plan.batches) if not plan.done else ():
        due = started + (batch - first) * plan.batch_rows / request.rate if request.rate else started
        if stop.wait(max(0.0, due - clock())):
            return Replayed(published, plan.rows, done=False)
        rows = spark.read.parquet(str(folder / "rows" / f"batch={batch}"))
        _publish(rows, request, plan.write_id, batch)
        plan.published = batch + 1
        _save(folder, plan)
        so_far = min(plan.rows, plan.published * plan.batch_rows)
        published = so_far - first * plan.batch_rows
        report(so_far, plan.rows)
    if not plan.done:
        plan.done = True
        _save(folder, plan)
    shutil.rmtree(folder / "rows", ignore_errors=True)  # a crash may have left it behind the note that all is done
    _forget(request, plan.write_id)
    return Replayed(published, plan.rows, done=True)


def _plan_of(spark: SparkSession, request: ReplayRequest, folder: Path) -> Plan:
    """Find the plan of an earlier call, or choose and copy the rows."""
    file = folder / "plan.json"
    if file.exists():
        try:
            plan = msgspec.json.decode(file.read_bytes(), type=Plan)
        except msgspec.MsgspecError as error:
            raise ArchiveError(f"{file}: damaged: {error}; restore the file from a backup") from error
        if plan.request != request.described():
            changed = [name for name, value in request.described().items() if plan.request.get(name) != value]
            raise ArchiveError(
                f"replay {request.name!r} was begun with other settings ({', '.join(changed)}); repeat them, or choose "
                "another name"
            )
        return plan
    frame = read_archive(
        spark,
        request.folder,
        since=request.since,
        until=request.until,
        addresses=request.addresses,
        where=request.where,
    )
    shutil.rmtree(folder, ignore_errors=True)  # of a call that ended before it had a plan
    batch_rows = request.rate or BATCH_ROWS
    rows = _copy(frame, folder / "rows", batch_rows)
    plan = Plan(request.described(), f"replay-{request.name}-{uuid.uuid4().hex}", rows, batch_rows)
    _save(folder, plan)
    return plan


def _copy(frame: DataFrame, folder: Path, batch_rows: int) -> int:
    """Write the rows to be published, numbered in the order of acceptance, a folder for each batch."""
    from pyspark.sql import Window, functions  # noqa: PLC0415

    columns = [name for name in frame.columns if name in WRITE_COLUMNS and name not in DESTINATION]
    number = functions.row_number().over(Window.orderBy(*ORDER)) - 1
    numbered = frame.select(*columns, functions.col("durable").alias("persistent"), number.alias("row"))
    batch = functions.floor(functions.col("row") / batch_rows)
    numbered.withColumn("batch", batch).write.partitionBy("batch").parquet(str(folder))
    return numbered.sparkSession.read.parquet(str(folder)).count() if any(folder.glob("batch=*")) else 0


def _publish(rows: DataFrame, request: ReplayRequest, write_id: str, batch: int) -> None:
    ordered = rows.coalesce(1).sortWithinPartitions("row").drop("row")
    (
        ordered.write.format("annulet")
        .mode("append")
        .options(url=request.url, address=request.address, retrySeconds=request.retry_seconds)
        .options(writeId=write_id, writeBatch=batch)
        .save()
    )


def _forget(request: ReplayRequest, write_id: str) -> None:
    """Let the broker forget how far the replay is: it is noted as done."""
    url = parse_url(request.url)
    client = BulkClient(url, retry_seconds=request.retry_seconds)
    try:
        client.act(protocol.ForgetPublish(virtual_host=url.virtual_host, query=f"write:{write_id}"))
    finally:
        client.close()


def _save(folder: Path, plan: Plan) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "plan.json.new"
    with file.open("wb") as opened:
        opened.write(msgspec.json.encode(plan))
        opened.flush()
        os.fsync(opened.fileno())
    file.replace(folder / "plan.json")
    for parent in (folder, folder.parent, folder.parent.parent):  # a plan lost with the power would publish all again
        sync_folder(parent)
