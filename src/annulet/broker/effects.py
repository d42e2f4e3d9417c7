"""The broker's answer to the core's effects: the message log, the catalogue, and the clients concerned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from annulet.core.effects import Effects
from annulet.store.errors import CatalogueError, StoreError

if TYPE_CHECKING:
    from annulet.broker.commit import CommitPipeline
    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry
    from annulet.core.message import Message
    from annulet.core.queue import Queue
    from annulet.store.catalogue import Catalogue
    from annulet.store.interface import Log

logger = structlog.get_logger(__name__)


class HostEffects(Effects):
    """Effects of one virtual host. Log, pipeline and catalogue are shared by all."""

    def __init__(self, host_name: str, log: Log, pipeline: CommitPipeline, catalogue: Catalogue) -> None:
        self.host_name = host_name
        self.log = log
        self.pipeline = pipeline
        self.catalogue = catalogue
        self._transaction = 0  # the log's id of the open transaction; 0 = none
        self._stored: dict[int, list[Message]] = {}  # by open transaction

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        """Append one record for all queues that hold the message and outlive the broker (exclusive ones do not)."""
        targets = [(entry.queue.queue_id, entry.sequence) for entry in entries if entry.queue.queue_id]
        if not targets:
            return
        message.record = self.log.append(message, targets, self._transaction)
        if self._transaction:
            self._stored[self._transaction].append(message)
        self.pipeline.request()

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        """Append the settlement, or cancel the record when it was not written yet."""
        if queue.queue_id:
            self.log.settle(entry.message.record, queue.queue_id, self._transaction)
            self.pipeline.request()

    def begin_transaction(self) -> None:
        """Open a log transaction."""
        self._transaction = self.log.begin()
        self._stored[self._transaction] = []

    def end_transaction(self, outcome: tuple[str, int] | None = None) -> None:
        """Commit the log transaction; ``outcome`` marks a staged publish as done (query id, batch id).

        Raises ``StoreError`` when the log has no room for the commit; the transaction is aborted then.
        """
        transaction, self._transaction = self._transaction, 0
        try:
            self.log.commit(transaction, outcome)
        except StoreError:
            self._abort(transaction)
            raise
        del self._stored[transaction]
        self.pipeline.request()

    def abort_transaction(self) -> None:
        """Drop the log transaction: nothing of it survives a restart."""
        transaction, self._transaction = self._transaction, 0
        self._abort(transaction)

    def _abort(self, transaction: int) -> None:
        """Abort in the log. Messages that reached their queues stay there and must not name records any more.

        The log gives their ids out again: settling one of them would settle somebody else's message.
        """
        self.log.abort(transaction)
        for message in self._stored.pop(transaction):
            message.record = 0

    def suspend_transaction(self) -> int:
        """Let other work store and settle outside the open transaction.

        Returns what :meth:`resume_transaction` takes.
        """
        transaction, self._transaction = self._transaction, 0
        return transaction

    def resume_transaction(self, transaction: int) -> None:
        """Go on with a suspended transaction."""
        assert self._transaction == 0, "one transaction at a time"
        self._transaction = transaction

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Let the client know that its consumer is gone."""
        consumer.session.consumer_cancelled(consumer)

    def queue_deleted(self, queue: Queue) -> None:
        """Forget a durable queue and everything stored for it.

        The queue is gone from memory already, and callers (a closing connection, expiry) have more to do, so a
        catalogue that refuses is no reason to stop half-way: the queue comes back, empty, at the next start.
        """
        if queue.queue_id:
            try:
                self.catalogue.delete_queue(self.host_name, queue.name)
            except CatalogueError as error:
                logger.error(  # noqa: TRY400 - the text says it all
                    "deleted queue stays in the catalogue", queue=queue.name, error=str(error), remedy="delete it again"
                )
            self.log.forget_queue(queue.queue_id)
            self.pipeline.request()

    def exchange_deleted(self, name: str) -> None:
        """Forget a durable exchange; the catalogue ignores names it does not hold, a refusal is as above."""
        try:
            self.catalogue.delete_exchange(self.host_name, name)
        except CatalogueError as error:
            logger.error(  # noqa: TRY400 - the text says it all
                "deleted exchange stays in the catalogue", exchange=name, error=str(error), remedy="delete it again"
            )
