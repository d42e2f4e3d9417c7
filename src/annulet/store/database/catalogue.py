"""The catalogue: definitions, users, leases and publish marks in one SQLite file.

Small relational state with few changes, suited to SQLite; messages are in the log. Every mutating method is one
transaction and durable when it returns (WAL, ``synchronous=FULL``); :meth:`Catalogue.transaction` combines several.
Belongs to the event loop's thread: a change blocks the loop for one sync of the disk, about a millisecond. Declarations
of clients are grouped instead, and committed in a thread: see ``definition_groups``.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from annulet.store.database.access_tables import AccessTables
from annulet.store.database.argument_json import dump_arguments, load_arguments
from annulet.store.database.catalogue_schema import MIGRATIONS, SCHEMA, SCHEMA_VERSION
from annulet.store.database.database import DatabaseKind, open_database
from annulet.store.database.database_copy import copy_database
from annulet.store.database.definition_groups import DefinitionGroup, DefinitionGroups
from annulet.store.database.definitions import (
    BindingRecord,
    ExchangeRecord,
    LeaseRange,
    LeaseRecord,
    QueueName,
    QueueRecord,
    SubscriptionRecord,
)
from annulet.store.files.errors import CatalogueError
from annulet.store.files.full_disk import FULL_DISK
from annulet.store.files.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from annulet.core.message.message import PropertyValue
    from annulet.store.files.marks import MarkFile

    Arguments = dict[str, PropertyValue]

KIND: Final = DatabaseKind(
    "catalogue",
    SCHEMA_VERSION,
    SCHEMA,
    MIGRATIONS,
    synced=True,
    error=CatalogueError,
    remedy="restore it from a backup, or move it away and have annulet doctor --rebuild make one of the queues that "
    "the message log knows",
)

INSERT_QUEUE: Final = (
    "INSERT INTO queues (id, virtual_host, name, auto_delete, arguments, address, auto_created) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
"""With the id: it is assigned before the row is written."""

OF_QUEUE: Final = "IN (SELECT id FROM queues WHERE virtual_host = ? AND name = ?)"
LEASES_OF_QUEUE: Final = f"(SELECT virtual_host, name FROM leases WHERE queue_id {OF_QUEUE})"  # noqa: S608 - ours
FORGET_NAME: Final = (
    "DELETE FROM subscriptions WHERE virtual_host = ? AND queue = ?",
    "DELETE FROM bindings WHERE virtual_host = ? AND destination_type = 'queue' AND destination = ?",
)
"""Statements that take a virtual host and a queue's name, for what the catalogue has of the name."""

DELETE_QUEUE: Final = (
    "INSERT OR IGNORE INTO deleted_queues SELECT id FROM queues WHERE virtual_host = ? AND name = ?",
    f"DELETE FROM queue_counters WHERE queue_id {OF_QUEUE}",  # noqa: S608 - as above
    f"DELETE FROM lease_ranges WHERE (virtual_host, lease) IN {LEASES_OF_QUEUE}",  # noqa: S608 - as above
    f"DELETE FROM leases WHERE queue_id {OF_QUEUE}",  # noqa: S608 - as above
    "DELETE FROM queues WHERE virtual_host = ? AND name = ?",
    *FORGET_NAME,
)
"""Statements that take a virtual host and a queue's name. They read nothing beforehand, so that they may wait. Their
placeholders have no numbers: Python 3.14 takes those by name only.
"""

IDENTITY: Final = "identity"
"""Name of the secret that identifies a catalogue."""

REDELIVERED: Final = "redelivered"
"""Among the counters of a queue as they are written: a list, where the counters are numbers."""

OPERATOR_QUEUE: Final = "queue"
OPERATOR_BROKER: Final = "broker"
OPERATOR_ADDRESS_SETTINGS: Final = "address-settings"
OPERATOR_POLICY: Final = "policy"
OPERATOR_DIVERT: Final = "divert"
"""Kinds of settings that operators make at run time: changed settings of a queue, address settings, policies."""


class Catalogue:
    """All definitions of one data directory; ``":memory:"`` keeps them for as long as the process runs.

    Raises :class:`CatalogueError` when the file is damaged or of a newer version.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._depth = 0  # open transaction() brackets
        self._mark: MarkFile | None = None
        self.on_queue: Callable[[QueueName], None] | None = None  # called for each added queue
        self.deletions = 0  # of queues since the file was opened or ids of deleted ones were last dropped
        self._secrets: dict[str, bytes] = {}  # as they are in the file
        self._connection = open_database(self.path, KIND)
        self.grouping = False  # changes are committed together, see ``definition_groups``
        self.joins_group: Callable[[], bool] | None = None  # whether a change is grouped while that is not set
        self.groups = DefinitionGroups(self._run_group)
        self.generation: int = self._rows("SELECT value FROM generations WHERE name = 'catalogue'")[0][0]
        self._last_queue_id: int = self._highest_queue_id()
        self.access = AccessTables(self._change, self._rows, self.transaction)

    def mark_with(self, mark: MarkFile) -> None:
        """Tell a mark beside the message log of every change from now on: see
        :mod:`annulet.store.database.catalogue_mark`.
        """
        self.secret(IDENTITY)
        self._mark = mark
        mark.begin(self._present())

    def _present(self) -> Mark:
        return Mark(self.generation, self.secret(IDENTITY))

    def close(self) -> None:
        """Close the file. Idempotent."""
        self.settle()
        self._connection.close()
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    def copy_to(self, path: Path) -> None:
        """Write all of it to a new file, as it is now. The file is not synced. Raises :class:`BackupError`."""
        self.settle()
        copy_database(self._connection, path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes inside one transaction; an exception undoes all of them. Nests: the outermost decides.

        Raises :class:`CatalogueError` when the file refuses; nothing was changed then.
        """
        if self._is_grouped():
            with self._part_of_group():
                yield
            return
        outermost = self._depth == 0
        if outermost:
            self.settle()
        changes = self._connection.total_changes
        if outermost:
            self._execute("BEGIN IMMEDIATE", ())
        self._depth += 1
        try:
            yield
            if outermost:
                self._commit(changed=self._connection.total_changes != changes)
        except BaseException:
            if outermost and self._connection.in_transaction:  # SQLite may have rolled back already
                self._execute("ROLLBACK", ())
            raise
        finally:
            self._depth -= 1

    def _commit(self, *, changed: bool) -> None:
        """End the transaction. The mark is written after the commit: an older mark covers less, but is never wrong."""
        if not changed:
            self._execute("COMMIT", ())
            return
        self._execute("UPDATE generations SET value = value + 1 WHERE name = 'catalogue'", ())
        self._execute("COMMIT", ())
        self.generation += 1
        if self._mark is not None:
            self._mark.write(self._present())

    # ------------------------------------------------------------------ groups

    def settle(self) -> None:
        """Commit the waiting groups, and wait for the one being committed."""
        if self.groups.waiting:
            self.groups.seal()
            self.groups.run_all()

    def if_refused(self, undo: Callable[[], None]) -> None:
        """Register an action for the case that the open group cannot be written. Durable changes are not undone."""
        if self._is_grouped():
            self.groups.open.undo.append(undo)

    def _is_grouped(self) -> bool:
        return self.grouping or (self.joins_group is not None and self.joins_group())

    @contextmanager
    def _part_of_group(self) -> Iterator[None]:
        """Remove the statements of a call that an exception ended half-way from the open group."""
        group = self.groups.open
        statements, undo = len(group.statements), len(group.undo)
        try:
            yield
        except BaseException:
            del group.statements[statements:], group.undo[undo:]
            raise

    def _run_group(self, group: DefinitionGroup) -> None:
        """Commit a group. From any thread, but one at a time."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for statement, values in group.statements:
                connection.execute(statement, values)
            connection.execute("UPDATE generations SET value = value + 1 WHERE name = 'catalogue'")
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            group.error = self._refusal(error, f"{len(group.statements)} changes")
            if connection.in_transaction:  # SQLite may have rolled back already
                connection.execute("ROLLBACK")
            return
        self.generation += 1
        if self._mark is not None:
            self._mark.write(self._present())

    # ------------------------------------------------------------------ statements

    def _change(self, statement: str, *values: object) -> None:
        """Run one statement, durable on return unless inside a transaction or a group."""
        if self._is_grouped():
            self.groups.add(statement, values)
        elif self._depth:
            self._execute(statement, values)
        else:
            with self.transaction():
                self._execute(statement, values)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        self.settle()
        return self._execute(statement, values).fetchall()

    def _execute(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, values)
        except sqlite3.DatabaseError as error:
            raise self._refusal(error, "a statement") from error

    def _refusal(self, error: sqlite3.DatabaseError, what: str) -> CatalogueError:
        """Return the exception to raise; log a full disk."""
        full = FULL_DISK.note(error, Path(self.path).parent, "definitions")
        remedy = "free space on that disk" if full else "check the disk"
        return CatalogueError(f"catalogue {self.path} refuses {what}: {error}; {remedy}")

    # ------------------------------------------------------------------ virtual hosts, secrets

    def virtual_hosts(self) -> list[str]:
        """Return the names of all virtual hosts."""
        return [name for (name,) in self._rows("SELECT name FROM virtual_hosts ORDER BY name")]

    def add_virtual_host(self, name: str) -> None:
        """Create a virtual host; once more is fine."""
        self._change("INSERT OR IGNORE INTO virtual_hosts (name) VALUES (?)", name)

    def secret(self, name: str) -> bytes:
        """Return 32 random octets that stay the same as long as the catalogue."""
        known = self._secrets.get(name)
        if known is None:
            self._change("INSERT OR IGNORE INTO secrets VALUES (?, randomblob(32))", name)
            known = self._secrets[name] = self._rows("SELECT value FROM secrets WHERE name = ?", name)[0][0]
        return known

    # ------------------------------------------------------------------ exchanges

    def exchanges(self, virtual_host: str) -> list[ExchangeRecord]:
        """Return the durable exchanges of a virtual host."""
        rows = self._rows(
            "SELECT name, type, auto_delete, internal, arguments, auto_created FROM exchanges WHERE virtual_host = ? "
            "ORDER BY name",
            virtual_host,
        )
        return [
            ExchangeRecord(
                name, kind, bool(auto_delete), bool(internal), load_arguments(arguments), auto_created=bool(automatic)
            )
            for name, kind, auto_delete, internal, arguments, automatic in rows
        ]

    def add_exchange(
        self,
        virtual_host: str,
        name: str,
        kind: str,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
        *,
        auto_created: bool = False,
    ) -> None:
        """Create or replace an exchange.

        ``auto_created``: an address that the broker created because a client named it.
        """
        self._change(
            "INSERT OR REPLACE INTO exchanges (virtual_host, name, type, auto_delete, internal, arguments, "
            "auto_created) VALUES (?, ?, ?, ?, ?, ?, ?)",
            virtual_host,
            name,
            kind,
            auto_delete,
            internal,
            dump_arguments(arguments),
            auto_created,
        )

    def delete_exchange(self, virtual_host: str, name: str) -> None:
        """Delete an exchange with the bindings from and to it; an unknown one is ignored."""
        with self.transaction():
            self._change("DELETE FROM exchanges WHERE virtual_host = ? AND name = ?", virtual_host, name)
            self._change(
                "DELETE FROM bindings WHERE virtual_host = ? AND "
                "(source = ? OR (destination_type = 'exchange' AND destination = ?))",
                virtual_host,
                name,
                name,
            )

    # ------------------------------------------------------------------ queues

    def queues(self, virtual_host: str) -> list[QueueRecord]:
        """Return the durable queues of a virtual host."""
        rows = self._rows(
            "SELECT id, name, auto_delete, arguments, address, auto_created FROM queues WHERE virtual_host = ? "
            "ORDER BY id",
            virtual_host,
        )
        return [
            QueueRecord(
                queue_id, name, bool(auto_delete), load_arguments(arguments), address, auto_created=bool(automatic)
            )
            for queue_id, name, auto_delete, arguments, address, automatic in rows
        ]

    def add_queue(
        self,
        virtual_host: str,
        name: str,
        auto_delete: bool,
        arguments: Arguments,
        *,
        address: str = "",
        auto_created: bool = False,
    ) -> int:
        """Create a queue and return its id, above all ids ever given. Raises :class:`CatalogueError` if it exists.

        ``address``: the address whose settings apply, empty for its own name; ``auto_created``: the broker created it
        because a client named it.
        """
        queue_id = self._last_queue_id + 1
        made = QueueName(queue_id, virtual_host, name, auto_delete, dump_arguments(arguments), address, auto_created)
        row = (queue_id, virtual_host, name, auto_delete, made.arguments, address, auto_created)
        if self._is_grouped():
            self._change(INSERT_QUEUE, *row)
        else:
            with self.transaction():
                try:
                    self._connection.execute(INSERT_QUEUE, row)
                except sqlite3.DatabaseError as error:
                    raise self._refusal(error, f"queue {name!r} of {virtual_host!r}") from error
        self._last_queue_id = queue_id
        if self.on_queue is not None:
            self.on_queue(made)
        return queue_id

    def _highest_queue_id(self) -> int:
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'queues'")
        return rows[0][0] if rows else 0

    def queue_names(self) -> list[QueueName]:
        """Return the durable queues of all virtual hosts, as the message log keeps them a second time."""
        rows = self._rows("SELECT id, virtual_host, name, auto_delete, arguments, address, auto_created FROM queues")
        return [_named(row) for row in rows]

    def queue_name(self, queue_id: int) -> QueueName:
        """Return one of them. Raises ``LookupError`` for an id that no queue has."""
        rows = self._rows(
            "SELECT id, virtual_host, name, auto_delete, arguments, address, auto_created FROM queues WHERE id = ?",
            queue_id,
        )
        if not rows:
            raise LookupError(f"no queue of the catalogue has the id {queue_id}")
        return _named(rows[0])

    def restore_queue(self, name: QueueName) -> str:
        """Restore a queue under its id. Returns its name, which differs if a queue of the old name exists by now."""
        given = name.name
        with self.transaction():
            if self._rows("SELECT id FROM queues WHERE virtual_host = ? AND name = ?", name.virtual_host, given):
                given = f"{given}.recovered-{name.queue_id}"
            self._change("INSERT OR IGNORE INTO virtual_hosts (name) VALUES (?)", name.virtual_host)
            self._change("DELETE FROM deleted_queues WHERE queue_id = ?", name.queue_id)
            self._change(
                INSERT_QUEUE,
                name.queue_id,
                name.virtual_host,
                given,
                name.auto_delete,
                name.arguments,
                name.address,
                name.auto_created,
            )
        self._last_queue_id = max(self._last_queue_id, name.queue_id)
        return given

    def reserve_queue_ids(self, upto: int) -> None:
        """Do not assign ids up to this one to new queues: the message log has them for other queues."""
        self._last_queue_id = max(self._last_queue_id, upto)
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'queues'")
        if rows and rows[0][0] >= upto:
            return
        if rows:
            self._change("UPDATE sqlite_sequence SET seq = ? WHERE name = 'queues'", upto)
        else:
            self._change("INSERT INTO sqlite_sequence VALUES ('queues', ?)", upto)

    def deleted_queues(self) -> set[int]:
        """Return the ids of deleted queues of which the message log may still have records."""
        return {queue_id for (queue_id,) in self._rows("SELECT queue_id FROM deleted_queues")}

    def forget_deleted_queues(self, queue_ids: set[int]) -> None:
        """Drop ids of deleted queues: the message log durably has no records of them any more."""
        with self.transaction():
            for queue_id in queue_ids:
                self._change("DELETE FROM deleted_queues WHERE queue_id = ?", queue_id)
        self.deletions = 0

    def delete_queue(self, virtual_host: str, name: str) -> None:
        """Delete a queue with its bindings, counters and leases; an unknown one is ignored."""
        with self.transaction():
            for statement in DELETE_QUEUE:
                self._change(statement, virtual_host, name)
            self.deletions += 1
            self.delete_operator_setting(OPERATOR_QUEUE, virtual_host, name)

    def set_queue_aside(self, virtual_host: str, name: str, given: str) -> None:
        """Rename a deleted queue that still has messages to be sent on; its bindings and settings by name go."""
        with self.transaction():
            self._change("UPDATE queues SET name = ? WHERE virtual_host = ? AND name = ?", given, virtual_host, name)
            for statement in FORGET_NAME:
                self._change(statement, virtual_host, name)
            self.delete_operator_setting(OPERATOR_QUEUE, virtual_host, name)

    def subscriptions(self, virtual_host: str) -> list[SubscriptionRecord]:
        """Return which durable queues of a virtual host are subscriptions, and whose."""
        rows = self._rows(
            "SELECT queue, client, name, user FROM subscriptions WHERE virtual_host = ? ORDER BY queue", virtual_host
        )
        return [SubscriptionRecord(*row) for row in rows]

    def set_subscription(self, virtual_host: str, subscription: SubscriptionRecord) -> None:
        """Write down that a queue is a subscription; it is forgotten with the queue."""
        self._change(
            "INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?, ?)",
            virtual_host,
            subscription.queue,
            subscription.client,
            subscription.name,
            subscription.user,
        )

    def queue_counters(self, queue_id: int) -> dict[str, int] | None:
        """Return the counters written at the last clean stop, ``None`` when there are none."""
        found = self._counters(queue_id)
        if found is not None:
            found.pop(REDELIVERED, None)
        return found

    def redelivered(self, queue_id: int) -> list[int] | None:
        """Return the lengths given to :meth:`set_queue_counters`, ``None`` when an older version wrote the counters."""
        found = self._counters(queue_id)
        return None if found is None else found.get(REDELIVERED)

    def set_queue_counters(self, queue_id: int, counters: dict[str, int], redelivered: list[int] | None = None) -> None:
        """Write the counters of a queue and its returned messages, as lengths of ranges.

        Versions that do not know of the latter read the counters and pass over it.
        """
        values = counters if redelivered is None else counters | {REDELIVERED: redelivered}
        text = json.dumps(values, separators=(",", ":"))
        self._change("INSERT OR REPLACE INTO queue_counters VALUES (?, ?)", queue_id, text)

    def _counters(self, queue_id: int) -> dict[str, Any] | None:
        rows = self._rows("SELECT counters FROM queue_counters WHERE queue_id = ?", queue_id)
        return json.loads(rows[0][0]) if rows else None

    # ------------------------------------------------------------------ settings of operators at run time

    def operator_settings(self, kind: str, virtual_host: str) -> dict[str, Arguments]:
        """Return the settings of operators by the name of their queue, pattern or policy."""
        rows = self._rows(
            "SELECT name, value FROM operator_settings WHERE kind = ? AND virtual_host = ? ORDER BY name",
            kind,
            virtual_host,
        )
        return {name: load_arguments(value) for name, value in rows}

    def set_operator_setting(self, kind: str, virtual_host: str, name: str, value: Arguments) -> None:
        """Create or replace a setting of an operator."""
        self._change(
            "INSERT OR REPLACE INTO operator_settings VALUES (?, ?, ?, ?)",
            kind,
            virtual_host,
            name,
            dump_arguments(value),
        )

    def delete_operator_setting(self, kind: str, virtual_host: str, name: str) -> None:
        """Delete it; an unknown one is ignored."""
        self._change(
            "DELETE FROM operator_settings WHERE kind = ? AND virtual_host = ? AND name = ?", kind, virtual_host, name
        )

    # ------------------------------------------------------------------ bindings

    def bindings(self, virtual_host: str) -> list[BindingRecord]:
        """Return the durable bindings of a virtual host."""
        rows = self._rows(
            "SELECT source, destination_type, destination, routing_key, arguments FROM bindings WHERE virtual_host = ?",
            virtual_host,
        )
        return [
            BindingRecord(source, kind, to, key, load_arguments(arguments)) for source, kind, to, key, arguments in rows
        ]

    def add_binding(
        self,
        virtual_host: str,
        source: str,
        destination_type: str,
        destination: str,
        routing_key: str,
        arguments: Arguments,
    ) -> None:
        """Create a binding; once more is fine."""
        values = (virtual_host, source, destination_type, destination, routing_key, dump_arguments(arguments))
        self._change("INSERT OR IGNORE INTO bindings VALUES (?, ?, ?, ?, ?, ?)", *values)

    def remove_binding(
        self,
        virtual_host: str,
        source: str,
        destination_type: str,
        destination: str,
        routing_key: str,
        arguments: Arguments,
    ) -> None:
        """Delete a binding; an unknown one is ignored."""
        values = (virtual_host, source, destination_type, destination, routing_key, dump_arguments(arguments))
        self._change(
            "DELETE FROM bindings WHERE virtual_host = ? AND source = ? AND destination_type = ? AND destination = ? "
            "AND routing_key = ? AND arguments = ?",
            *values,
        )

    # ------------------------------------------------------------------ leases

    def leases(self) -> list[LeaseRecord]:
        """Return all leases."""
        rows = self._rows(
            "SELECT name, virtual_host, queue_id, generation, created_at, active_at, acknowledged, last, owner, "
            "generated, user FROM leases ORDER BY virtual_host, name"
        )
        return [LeaseRecord(*[*row[:-2], bool(row[-2]), row[-1]]) for row in rows]

    def set_lease(self, lease: LeaseRecord) -> None:
        """Create or replace a lease."""
        self._change(
            "INSERT OR REPLACE INTO leases (name, virtual_host, queue_id, generation, generated, created_at, "
            "active_at, acknowledged, last, owner, user) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            lease.name,
            lease.virtual_host,
            lease.queue_id,
            lease.generation,
            lease.generated,
            lease.created_at,
            lease.active_at,
            lease.acknowledged,
            lease.last,
            lease.owner,
            lease.user,
        )

    def delete_lease(self, virtual_host: str, name: str) -> None:
        """Delete a lease with its positions; an unknown one is ignored."""
        with self.transaction():
            self._change("DELETE FROM leases WHERE virtual_host = ? AND name = ?", virtual_host, name)
            self._change("DELETE FROM lease_ranges WHERE virtual_host = ? AND lease = ?", virtual_host, name)

    def lease_ranges(self, virtual_host: str, lease: str) -> list[LeaseRange]:
        """Return the positions of a lease, ascending."""
        rows = self._rows(
            "SELECT first, last, sequences FROM lease_ranges WHERE virtual_host = ? AND lease = ? ORDER BY first",
            virtual_host,
            lease,
        )
        return [LeaseRange(*row) for row in rows]

    def add_lease_range(self, virtual_host: str, lease: str, span: LeaseRange) -> None:
        """Add the positions of one acquisition."""
        insert = "INSERT INTO lease_ranges VALUES (?, ?, ?, ?, ?)"
        self._change(insert, virtual_host, lease, span.first, span.last, span.sequences)

    def set_lease_range(self, virtual_host: str, lease: str, span: LeaseRange) -> None:
        """Replace the sequences of an existing range."""
        update = "UPDATE lease_ranges SET sequences = ? WHERE virtual_host = ? AND lease = ? AND first = ?"
        self._change(update, span.sequences, virtual_host, lease, span.first)

    def delete_lease_ranges(self, virtual_host: str, lease: str, upto: int) -> None:
        """Delete the ranges that end at or before position ``upto``; one that straddles it stays whole."""
        self._change(
            "DELETE FROM lease_ranges WHERE virtual_host = ? AND lease = ? AND last <= ?", virtual_host, lease, upto
        )

    # ------------------------------------------------------------------ publish marks

    def publish_mark(self, query: str) -> int | None:
        """Return the highest batch id that a query has published, ``None`` when it is unknown."""
        rows = self._rows("SELECT batch FROM publish_marks WHERE query = ?", query)
        return rows[0][0] if rows else None

    def set_publish_mark(self, query: str, batch: int, now: int) -> None:
        """Raise a query's mark; a lower one changes nothing."""
        self._change(
            "INSERT INTO publish_marks VALUES (?, ?, ?) ON CONFLICT (query) DO UPDATE "
            "SET batch = excluded.batch, updated_at = excluded.updated_at WHERE excluded.batch > batch",
            query,
            batch,
            now,
        )

    def delete_publish_mark(self, query: str) -> None:
        """Forget a query; an unknown one is ignored."""
        self._change("DELETE FROM publish_marks WHERE query = ?", query)


def _named(row: tuple[int, str, str, int, str, str, int]) -> QueueName:
    queue_id, virtual_host, name, auto_delete, arguments, address, automatic = row
    return QueueName(queue_id, virtual_host, name, bool(auto_delete), arguments, address, bool(automatic))
