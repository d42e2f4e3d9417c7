"""One run of the demonstration, from an empty folder to the verdict."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from annulet.demo import browsing, flights, plots
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.consuming import Taken, take_all
from annulet.demo.outcome import Outcome, Phases
from annulet.demo.publisher import publish
from annulet.demo.reconciliation import Observed, accounts_of, losses_of, reconcile
from annulet.demo.spark_run import QUERIES, Queries, start_session, wait_until_moved
from annulet.demo.topology import (
    AIRCRAFT,
    ARCHIVE,
    DELAYS,
    LATE,
    LEGS,
    LEGS_CONSUMERS,
    ORIGINS,
    SCHEDULE,
    STATISTICS,
    board,
    declare,
)
from annulet.demo.what_if import try_rules

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from rich.console import Console

    from annulet.demo.workspace import Workspace


class Production:
    """The publishing side, in a separate thread: reads the table, declares the queues, publishes."""

    def __init__(self, broker: BrokerProcess, limit: int | None, phases: Phases) -> None:
        self.declared = Event()
        self.confirmed = 0
        self.frame: pd.DataFrame | None = None
        self._broker = broker
        self._limit = limit
        self._phases = phases
        self._stop = Event()
        self._executor = ThreadPoolExecutor(1, "publisher")
        self._future: Future[int] = self._executor.submit(self._produce)

    def _produce(self) -> int:
        with self._phases.measure("read the table"):
            frame = flights.load(self._limit)
        self.frame = frame
        with self._phases.measure("broker ready, queues declared"):
            self._broker.wait_until_ready(self._stop)
            declare(self._broker.address)
        self.declared.set()
        with self._phases.measure("publish with confirms"):
            return publish(
                self._broker.address.parameters(),
                flights.messages(frame),
                stop=self._stop,
                on_confirmed=self._count,
            )

    def _count(self, more: int) -> None:
        self.confirmed += more

    def running(self) -> bool:
        """Return whether messages are still being published; raise an error of the publisher."""
        if not self._future.done():
            return True
        self._future.result()
        return False

    def wait_until_declared(self) -> pd.DataFrame:
        """Return the table once the queues exist. Raises an earlier error."""
        while not self.declared.wait(0.1):
            self.running()
        assert self.frame is not None
        return self.frame

    def stop(self) -> None:
        """Stop publishing and wait for the thread. Its errors are raised by :meth:`running`."""
        self._stop.set()
        self._executor.shutdown(wait=True)


def run(workspace: Workspace, limit: int | None, console: Console) -> Outcome:
    """Run everything. On return or error nothing is left running; the workspace is the caller's to close."""
    phases = Phases()
    with phases.measure("total"), ExitStack() as cleanup:
        consumer = ThreadPoolExecutor(1, "consumer")
        cleanup.callback(consumer.shutdown)  # after the broker's end, which ends remaining consumers
        broker = cleanup.enter_context(BrokerProcess(workspace.broker, workspace.broker_log))
        production = Production(broker, limit, phases)
        cleanup.callback(production.stop)
        with phases.measure("start Spark"):
            spark = start_session(workspace)
        cleanup.callback(spark.stop)
        frame = production.wait_until_declared()
        with phases.measure("Spark moves everything"):
            queries = Queries(spark, broker.address.bulk_url, workspace)
            cleanup.callback(queries.stop)
            _follow(broker, production, queries, len(frame), console)
        with phases.measure("consume in order, and what if"):
            consumed = consumer.submit(_consume, broker)
            with phases.measure("what if"):
                trials = try_rules(spark, broker.address.bulk_url, workspace.parquet)
            deliveries = consumed.result()
        with phases.measure("browse"):
            seen, boards = _observe(spark, broker, workspace, production.confirmed, queries.delay_messages())
            seen.late = [taken.row for taken in deliveries[LATE]]
            seen.schedule = [taken.row for taken in deliveries[SCHEDULE]]
            seen.legs = deliveries[LEGS]
            seen.trials = trials
        with phases.measure("reconcile"):
            checks = reconcile(frame, seen)
        accounts = list(seen.accounts.values())
        with phases.measure("plots"):
            shown = {origin: rows.to_dict("records") for origin, rows in boards.items()}
            pictures = plots.save_all(workspace.plots, shown, seen.delays, seen.archive, accounts)
        with phases.measure("stop"):
            cleanup.close()
    return Outcome(accounts, checks, shown, pictures, phases.seconds, {ARCHIVE: len(seen.archive)}, seen.trials)


def _follow(broker: BrokerProcess, production: Production, queries: Queries, total: int, console: Console) -> None:
    """Show the progress until everything has been published, moved and acknowledged."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        published = progress.add_task("published and confirmed", total=total, note="")
        labels = {ARCHIVE: "archive to Parquet", STATISTICS: "statistics to delays"}
        bars = {name: progress.add_task(labels[name], total=total, note="") for name in QUERIES}

        def look(moved: dict[str, tuple[int, int]]) -> None:
            broker.check_alive()
            progress.update(published, completed=production.confirmed)
            for name, (count, batches) in moved.items():
                progress.update(bars[name], completed=count, note=f"{batches} batches")

        def acknowledged() -> dict[str, int]:
            accounts = accounts_of(broker.get_json)
            return {name: accounts[name].acknowledged for name in QUERIES}

        wait_until_moved(total, queries, acknowledged=acknowledged, look=look, producing=production.running)


def _consume(broker: BrokerProcess) -> dict[str, list[Taken]]:
    """Consume the priority, the sorted and the grouped queue, as applications would."""
    parameters = broker.address.parameters()
    consumers = {LATE: 1, SCHEDULE: 1, LEGS: LEGS_CONSUMERS}
    return {name: take_all(parameters, name, count, look=broker.check_alive) for name, count in consumers.items()}


def _observe(
    spark: SparkSession, broker: BrokerProcess, workspace: Workspace, confirmed: int, delay_messages: int
) -> tuple[Observed, dict[str, pd.DataFrame]]:
    """Read all externally visible results: queues through Spark, counters over HTTP, the files."""
    url = broker.address.bulk_url
    boards = {origin: browsing.browse_flights(spark, url, board(origin)) for origin in ORIGINS}
    archive = browsing.read_archive(spark, workspace.parquet)
    seen = Observed(
        confirmed=confirmed,
        accounts=accounts_of(broker.get_json),
        boards={origin: [int(row) for row in rows["row"]] for origin, rows in boards.items()},
        aircraft=[int(row) for row in browsing.browse_flights(spark, url, AIRCRAFT)["row"]],
        delays=browsing.browse_delays(spark, url, DELAYS),
        archive=archive,
        delay_messages=delay_messages,
        losses=losses_of(broker.get_json),
        partitions=browsing.partition_counts(spark, workspace.parquet),
    )
    return seen, boards
