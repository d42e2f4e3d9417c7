"""Archived messages back into a queue: a time range, a filter, a rate; each message once, also across restarts.

The chosen rows are copied first, in order and numbered, so archiving, merging or expiry during the replay has no
effect. They are published batch by batch under one ``writeId``, and the broker keeps the progress.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
import pyarrow.parquet

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.schema import WRITE_COLUMNS
from annulet.bulk.protocol.url import parse_url
from annulet.spark.archive.archiving import ORDER, read_archive
from annulet.spark.archive.log import ArchiveError, sync_folder
from annulet.spark.archive.table import Table
from annulet.spark.options import BYTES_PER_TRIGGER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS: Final = 50_000
"""Messages published at once, or fewer at a lower rate: the number the broker makes visible in one turn of its loop."""
BATCH_BYTES: Final = BYTES_PER_TRIGGER
"""Bodies published at once, but for the last one, which may exceed it: the broker has a batch in its memory."""

DESTINATION: Final = ("address", "exchange", "routing_key")
NAME: Final = re.compile(r"\w[\w.-]{0,99}")
"""A folder's name below ``replays``; two dots would be the folder around it."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay. ``rate`` is in messages a second, ``None`` for as fast as possible.

    ``name`` identifies a replay: repeated under the same name it continues, or does nothing if it is finished.
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
        """Return the identity of a replay."""
        url = parse_url(self.url)
        return {
            "broker": f"{url.location}/{quote(url.virtual_host, safe='')}",  # independent of the user
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
    batches: int
    published: int = 0  # batches
    published_rows: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a call: rows published by it, rows of the whole replay, whether that is done."""

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

    Ends early, after a batch, when ``stop`` is set; the next call continues. Raises :class:`ArchiveError`.
    """
    stop = stop or Event()
    if not NAME.fullmatch(request.name):
        raise ArchiveError(
            f"replay name {request.name!r}: use 1 to 100 letters, digits, dots, dashes, underscores, no dot or dash "
            "first"
        )
    if request.rate is not None and request.rate < 1:
        raise ArchiveError(f"rate {request.rate} is out of range; give at least 1 message a second")
    inside = Table(request.folder).inside
    # A folder that is not an archive is refused by its reader, and gets no lock.
    with _alone(inside / "replays", request.name) if inside.is_dir() else nullcontext():
        folder = inside / "replays" / request.name
        plan = _plan_of(spark, request, folder)
        published, started = 0, clock()
        for batch in range(plan.published, plan.batches) if not plan.done else ():
            due = started + published / request.rate if request.rate else started
            if stop.wait(max(0.0, due - clock())):
                return Replayed(published, plan.rows, done=False)
            part = folder / "rows" / f"batch={batch}"
            _publish(spark.read.parquet(str(part)), request, plan.write_id, batch)
            rows = _rows_below(part)
            published += rows
            plan.published, plan.published_rows = batch + 1, plan.published_rows + rows
            _save(folder, plan)
            report(plan.published_rows, plan.rows)
        if not plan.done:
            plan.done = True
            _save(folder, plan)
        shutil.rmtree(folder / "rows", ignore_errors=True)  # a crash may have left it after the end was noted
        _forget(request, plan.write_id)
        return Replayed(published, plan.rows, done=True)


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Keep a second process from the same replay: each would make a plan, and publish all rows under its own id."""
    folder.mkdir(exist_ok=True)
    with (folder / f".{name}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveError(
                f"replay {name!r} is under way in another process; wait for its end, or choose another name"
            ) from None
        yield


def _plan_of(spark: SparkSession, request: ReplayRequest, folder: Path) -> Plan:
    """Find the plan of an earlier call, or choose and copy the rows."""
    file = folder / "plan.json"
    if file.exists():
        try:
            plan = msgspec.json.decode(file.read_bytes(), type=Plan)
        except msgspec.MsgspecError as error:
            raise ArchiveError(f"{file}: damaged: {error}; restore the file from a backup") from error
        # Fields missing in a plan had their defaults when it was written.
        changed = [name for name, value in request.described().items() if plan.request.get(name, value) != value]
        if changed:
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
    batches = _copy(frame, folder / "rows", min(request.rate or BATCH_ROWS, BATCH_ROWS), BATCH_BYTES)
    rows = _rows_below(folder / "rows")
    plan = Plan(request.described(), f"replay-{request.name}-{uuid.uuid4().hex}", rows, batches)
    _save(folder, plan)
    return plan


def _copy(frame: DataFrame, folder: Path, batch_rows: int, batch_bytes: int) -> int:
    """Write the rows to be published, numbered in the order of acceptance, a folder for each batch. Returns batches."""
    from pyspark.sql import Window, functions  # noqa: PLC0415

    columns = [name for name in frame.columns if name in WRITE_COLUMNS and name not in DESTINATION]
    order = Window.orderBy(*ORDER)
    number = functions.row_number().over(order) - 1
    bytes_before = functions.sum(functions.length("body")).over(order.rowsBetween(Window.unboundedPreceding, -1))
    numbered = frame.select(
        *columns,
        functions.col("durable").alias("persistent"),
        number.alias("row"),
        functions.floor(number / batch_rows).alias("by_rows"),
        functions.floor(functions.coalesce(bytes_before, functions.lit(0)) / batch_bytes).alias("by_bytes"),
    )
    batch = functions.dense_rank().over(Window.orderBy("by_rows", "by_bytes")) - 1
    chosen = numbered.withColumn("batch", batch).drop("by_rows", "by_bytes")
    chosen.write.partitionBy("batch").parquet(str(folder))
    return sum(1 for _ in folder.glob("batch=*"))


def _rows_below(folder: Path) -> int:
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))


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
