"""Kills at exact points of a batch, in whichever process of Spark comes there; see ``tests/spark/test_deaths.py``.

Python imports this at its start where the folder is on the path: in the driver, the source's process and the workers.
The folder of ``ANNULET_DEATHS`` holds one file for each death to come, ``NUMBER-POINT-WHO``, the next one first. Who
dies is the ``driver`` with its JVM, the ``broker`` (its process id is in the file ``broker``), or the ``worker``.

==========  ===============================================================================================
point       where
==========  ===============================================================================================
acquired    messages are acquired for a batch, Spark's offset log does not know of it
planned     the offset log knows, nothing was read
reading     a task has read a part of its rows
staged      all tasks are done, the sink's commit was not sent
committed   the sink's commit was answered, Spark's commit log does not know of it
logged      the commit log knows, the next batch is asked for, nothing was acknowledged
carried     the engine has carried out a shard's commands, and written nothing of it
written     the engine has written a shard's state and remembers it, Spark has not committed it
==========  ===============================================================================================
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("ANNULET_DEATHS", "")
OF_THE_ENGINE = ("carried", "written")


def come_to(point: str) -> None:
    """Die here, or let die, when that is the next death."""
    coming = min(Path(FOLDER).glob("[0-9]*"), default=None)
    if coming is None:
        return
    _, where, who = coming.name.split("-")
    if where != point:
        return
    try:
        coming.rename(coming.with_name(f"done-{coming.name}"))
    except FileNotFoundError:  # another task was here first
        return
    if who == "broker":
        os.kill(int(Path(FOLDER, "broker").read_text()), signal.SIGKILL)
        return
    if who == "driver":
        os.killpg(int(os.environ["ANNULET_DRIVER"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    """Put the points into the source and the sink."""
    from annulet.spark.sink import _Writer
    from annulet.spark.source import NOT_STARTED, AnnuletStreamReader

    latest_offset, partitions, read = (
        AnnuletStreamReader.latestOffset,
        AnnuletStreamReader.partitions,
        AnnuletStreamReader.read,
    )
    commit = _Writer._commit

    def latest_offset_with_points(self: Any, start: Any, limit: Any) -> Any:
        if start["pos"] != NOT_STARTED:
            come_to("logged")
        end = latest_offset(self, start, limit)
        if end != start:
            come_to("acquired")
        return end

    def partitions_with_point(self: Any, start: Any, end: Any) -> Any:
        come_to("planned")
        return partitions(self, start, end)

    def read_with_point(self: Any, partition: Any) -> Any:
        for batch in read(self, partition):
            yield batch
            come_to("reading")

    def commit_with_points(self: Any, messages: Any) -> Any:
        come_to("staged")
        answer = commit(self, messages)
        come_to("committed")
        return answer

    AnnuletStreamReader.latestOffset = latest_offset_with_points  # type: ignore[method-assign]
    AnnuletStreamReader.partitions = partitions_with_point  # type: ignore[method-assign]
    AnnuletStreamReader.read = read_with_point  # type: ignore[method-assign]
    _Writer._commit = commit_with_points  # type: ignore[method-assign]


def install_in_engine() -> None:
    """Put the points into what the engine's workers call: before they import it by its name."""
    from annulet.spark.engine import shard

    close_shard = shard.close_shard

    def close_with_points(*arguments: Any) -> None:
        come_to("carried")
        close_shard(*arguments)
        come_to("written")

    shard.close_shard = close_with_points


if FOLDER:
    os.environ.setdefault("ANNULET_DRIVER", str(os.getpid()))
    install()
    if any(path.name.split("-")[-2] in OF_THE_ENGINE for path in Path(FOLDER).glob("*-*-*")):
        install_in_engine()  # for others it would only cost every process the import
    sys.stderr.write(f"deaths: points are in process {os.getpid()}\n")
