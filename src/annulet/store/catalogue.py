"""The catalogue: everything about a broker that is not a message, in one SQLite file.

Each changing method is one transaction and durable when it returns; :meth:`Catalogue.transaction` makes one of several.
Belongs to the loop thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annulet.core.message import PropertyValue
from annulet.store.catalogue_records import (
    BindingRecord,
    ExchangeRecord,
    LeaseRange,
    LeaseRecord,
    PermissionRecord,
    QueueRecord,
    UserRecord,
    decode_arguments,
    decode_sequences,
    encode_arguments,
    encode_sequences,
)
from annulet.store.database import MIGRATIONS, open_database
from annulet.store.errors import CatalogueError

Arguments = Mapping[str, PropertyValue]


class Catalogue:
    """Definitions, users, leases and marks. ``path`` may be ``":memory:"``: the same, and gone with the process."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._connection = open_database(path, MIGRATIONS)
        self._depth = 0  # of nested transaction() blocks

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make one durable transaction of all changes in the block; an exception undoes them all. May be nested."""
        if self._depth == 0:
            self._run("BEGIN IMMEDIATE")
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self._run("COMMIT")
        except BaseException:
            if self._depth == 1 and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        finally:
            self._depth -= 1

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, values)
        except sqlite3.IntegrityError as error:
            raise CatalogueError(f"catalogue {self.path}: {error}; a name it refers to is not there") from error
        except (sqlite3.Error, OverflowError) as error:
            raise CatalogueError(
                f"catalogue {self.path} cannot be used: {error}; check the disk's space and health"
            ) from error

    def _rows(self, statement: str, *values: object) -> list[Any]:
        return self._run(statement, *values).fetchall()

    # ------------------------------------------------------------------ virtual hosts, users, permissions

    def virtual_hosts(self) -> list[str]:
        """Return the names, sorted."""
        return [name for (name,) in self._rows("SELECT name FROM virtual_hosts ORDER BY name")]

    def add_virtual_host(self, name: str) -> None:
        """Add one; one that is there is fine."""
        self._run("INSERT OR IGNORE INTO virtual_hosts VALUES (?)", name)

    def delete_virtual_host(self, name: str) -> None:
        """Delete one with everything in it."""
        self._run("DELETE FROM virtual_hosts WHERE name = ?", name)

    def users(self) -> list[UserRecord]:
        """Return all users by name."""
        rows = self._rows("SELECT name, password_hash, tags FROM users ORDER BY name")
        return [UserRecord(name, password_hash, tuple(json.loads(tags))) for name, password_hash, tags in rows]

    def set_user(self, name: str, password_hash: str, tags: Iterable[str] = ()) -> None:
        """Add or change a user; permissions stay."""
        self._run(
            "INSERT INTO users VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "password_hash = excluded.password_hash, tags = excluded.tags",
            name,
            password_hash,
            json.dumps(sorted(tags)),
        )

    def delete_user(self, name: str) -> None:
        """Delete a user and its permissions; one that is not there is fine."""
        self._run("DELETE FROM users WHERE name = ?", name)

    def permissions(self) -> list[PermissionRecord]:
        """Return all permissions by user and virtual host."""
        rows = self._rows(
            "SELECT user, virtual_host, configure, write, read FROM permissions ORDER BY user, virtual_host"
        )
        return [PermissionRecord(*row) for row in rows]

    def set_permission(self, user: str, virtual_host: str, configure: str, write: str, read: str) -> None:
        """Set the three expressions. Raises :class:`CatalogueError` without that user or virtual host."""
        self._run(
            "INSERT INTO permissions VALUES (?, ?, ?, ?, ?) ON CONFLICT (user, virtual_host) DO UPDATE SET "
            "configure = excluded.configure, write = excluded.write, read = excluded.read",
            user,
            virtual_host,
            configure,
            write,
            read,
        )

    def delete_permission(self, user: str, virtual_host: str) -> None:
        """Take all permissions of a user in a virtual host away."""
        self._run("DELETE FROM permissions WHERE user = ? AND virtual_host = ?", user, virtual_host)

    # ------------------------------------------------------------------ exchanges, queues, bindings

    def exchanges(self, virtual_host: str) -> list[ExchangeRecord]:
        """Return the virtual host's exchanges by name."""
        rows = self._rows(
            "SELECT name, type, auto_delete, internal, arguments, durable FROM exchanges "
            "WHERE virtual_host = ? ORDER BY name",
            virtual_host,
        )
        return [
            ExchangeRecord(
                virtual_host, name, kind, bool(auto_delete), bool(internal), decode_arguments(arguments), bool(durable)
            )
            for name, kind, auto_delete, internal, arguments, durable in rows
        ]

    def add_exchange(
        self,
        virtual_host: str,
        name: str,
        type_: str,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
        *,
        durable: bool = True,
    ) -> None:
        """Add or replace an exchange. Raises :class:`CatalogueError` without that virtual host."""
        self._run(
            "INSERT OR REPLACE INTO exchanges (virtual_host, name, type, auto_delete, internal, arguments, durable) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            virtual_host,
            name,
            type_,
            auto_delete,
            internal,
            encode_arguments(arguments),
            durable,
        )

    def delete_exchange(self, virtual_host: str, name: str) -> None:
        """Delete an exchange and the bindings from and to it; one that is not there is fine."""
        with self.transaction():
            self._run("DELETE FROM exchanges WHERE virtual_host = ? AND name = ?", virtual_host, name)
            self._run("DELETE FROM bindings WHERE virtual_host = ? AND source = ?", virtual_host, name)
            self._delete_bindings_to(virtual_host, "exchange", name)

    def queues(self, virtual_host: str) -> list[QueueRecord]:
        """Return the virtual host's queues by id, which is the order they were declared in."""
        rows = self._rows(
            "SELECT id, name, auto_delete, arguments, durable, exclusive FROM queues WHERE virtual_host = ? ORDER BY id",
            virtual_host,
        )
        return [
            QueueRecord(
                queue_id, virtual_host, name, bool(auto_delete), decode_arguments(arguments), bool(durable), bool(only)
            )
            for queue_id, name, auto_delete, arguments, durable, only in rows
        ]

    def add_queue(
        self,
        virtual_host: str,
        name: str,
        auto_delete: bool,
        arguments: Arguments,
        *,
        durable: bool = True,
        exclusive: bool = False,
    ) -> int:
        """Add a queue and return its id, which no other queue ever had or gets.

        Raises :class:`CatalogueError` when the virtual host is not there or has a queue of that name.
        """
        cursor = self._run(
            "INSERT INTO queues (virtual_host, name, durable, auto_delete, exclusive, arguments) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            virtual_host,
            name,
            durable,
            auto_delete,
            exclusive,
            encode_arguments(arguments),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def delete_queue(self, virtual_host: str, name: str) -> None:
        """Delete a queue with its bindings, leases and counters; one that is not there is fine."""
        with self.transaction():
            self._run("DELETE FROM queues WHERE virtual_host = ? AND name = ?", virtual_host, name)
            self._delete_bindings_to(virtual_host, "queue", name)

    def bindings(self, virtual_host: str) -> list[BindingRecord]:
        """Return the virtual host's bindings, sorted."""
        rows = self._rows(
            "SELECT source, destination_type, destination, routing_key, arguments FROM bindings "
            "WHERE virtual_host = ? ORDER BY source, destination_type, destination, routing_key, arguments",
            virtual_host,
        )
        return [BindingRecord(virtual_host, *row[:4], decode_arguments(row[4])) for row in rows]

    def add_binding(
        self,
        virtual_host: str,
        source: str,
        destination_type: str,
        destination: str,
        routing_key: str,
        arguments: Arguments,
    ) -> None:
        """Add a binding; one that is there is fine (AMQP 0-9-1 §1.7.2.3: binding is idempotent)."""
        if destination_type not in ("queue", "exchange"):
            raise CatalogueError(f"destination type: {destination_type!r}; give 'queue' or 'exchange'")
        self._run(
            "INSERT OR IGNORE INTO bindings VALUES (?, ?, ?, ?, ?, ?)",
            virtual_host,
            source,
            destination_type,
            destination,
            routing_key,
            encode_arguments(arguments),
        )

    def remove_binding(
        self,
        virtual_host: str,
        source: str,
        destination_type: str,
        destination: str,
        routing_key: str,
        arguments: Arguments,
    ) -> None:
        """Remove a binding; one that is not there is fine."""
        self._run(
            "DELETE FROM bindings WHERE virtual_host = ? AND source = ? AND destination_type = ? AND destination = ? "
            "AND routing_key = ? AND arguments = ?",
            virtual_host,
            source,
            destination_type,
            destination,
            routing_key,
            encode_arguments(arguments),
        )

    def _delete_bindings_to(self, virtual_host: str, destination_type: str, destination: str) -> None:
        self._run(
            "DELETE FROM bindings WHERE virtual_host = ? AND destination_type = ? AND destination = ?",
            virtual_host,
            destination_type,
            destination,
        )

    # ------------------------------------------------------------------ leases

    def leases(self, virtual_host: str) -> list[LeaseRecord]:
        """Return the virtual host's leases by name."""
        rows = self._rows(
            "SELECT name, virtual_host, queue_id, generation, generated, created_at, active_at, acknowledged_position, "
            "last_position FROM leases WHERE virtual_host = ? ORDER BY name",
            virtual_host,
        )
        return [LeaseRecord(*row[:4], bool(row[4]), *row[5:]) for row in rows]

    def set_lease(self, lease: LeaseRecord) -> None:
        """Add or change a lease; its ranges stay. Raises :class:`CatalogueError` without that queue."""
        self._run(
            "INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (virtual_host, name) DO UPDATE SET "
            "queue_id = excluded.queue_id, generation = excluded.generation, generated = excluded.generated, "
            "created_at = excluded.created_at, active_at = excluded.active_at, "
            "acknowledged_position = excluded.acknowledged_position, last_position = excluded.last_position",
            lease.virtual_host,
            lease.name,
            lease.queue_id,
            lease.generation,
            lease.generated,
            lease.created_at,
            lease.active_at,
            lease.acknowledged_position,
            lease.last_position,
        )

    def delete_lease(self, virtual_host: str, name: str) -> None:
        """Delete a lease and its ranges; one that is not there is fine."""
        self._run("DELETE FROM leases WHERE virtual_host = ? AND name = ?", virtual_host, name)

    def lease_ranges(self, virtual_host: str, lease: str) -> list[LeaseRange]:
        """Return a lease's ranges by position."""
        rows = self._rows(
            "SELECT first, last, sequences FROM lease_ranges WHERE virtual_host = ? AND lease = ? ORDER BY first",
            virtual_host,
            lease,
        )
        return [
            LeaseRange(virtual_host, lease, first, last, decode_sequences(sequences)) for first, last, sequences in rows
        ]

    def add_lease_range(self, added: LeaseRange) -> None:
        """Add a range. Raises :class:`CatalogueError` without that lease, or when positions and sequences differ."""
        if added.last - added.first + 1 != len(added.sequences):
            raise CatalogueError(
                f"lease {added.lease}: positions {added.first} to {added.last} with {len(added.sequences)} sequences; "
                "give one sequence for each position"
            )
        self._run(
            "INSERT INTO lease_ranges VALUES (?, ?, ?, ?, ?)",
            added.virtual_host,
            added.lease,
            added.first,
            added.last,
            encode_sequences(added.sequences),
        )

    def delete_lease_ranges(self, virtual_host: str, lease: str, last: int | None = None) -> None:
        """Delete a lease's ranges that end at or before position ``last``; all of them by default."""
        self._run(
            "DELETE FROM lease_ranges WHERE virtual_host = ? AND lease = ? AND (? IS NULL OR last <= ?)",
            virtual_host,
            lease,
            last,
            last,
        )

    # ------------------------------------------------------------------ staged publishes, counters

    def publish_marks(self) -> dict[str, int]:
        """Return each query's highest published batch id."""
        return dict(self._rows("SELECT query, batch FROM publish_marks"))

    def set_publish_mark(self, query: str, batch: int, updated_at: int) -> None:
        """Raise a query's mark (milliseconds since 1970 in ``updated_at``); a mark never falls."""
        self._run(
            "INSERT INTO publish_marks VALUES (?, ?, ?) ON CONFLICT (query) DO UPDATE SET "
            "batch = max(batch, excluded.batch), updated_at = excluded.updated_at",
            query,
            batch,
            updated_at,
        )

    def delete_publish_marks(self, before: int) -> None:
        """Forget marks not updated since ``before`` (milliseconds since 1970)."""
        self._run("DELETE FROM publish_marks WHERE updated_at < ?", before)

    def queue_counters(self, queue_id: int) -> dict[str, int] | None:
        """Return the counters saved for a queue, ``None`` when there are none."""
        row = self._run("SELECT counters FROM queue_counters WHERE queue_id = ?", queue_id).fetchone()
        return None if row is None else json.loads(row[0])

    def set_queue_counters(self, queue_id: int, counters: Mapping[str, int]) -> None:
        """Save a queue's counters. Raises :class:`CatalogueError` without that queue."""
        self._run(
            "INSERT INTO queue_counters VALUES (?, ?) ON CONFLICT (queue_id) DO UPDATE SET counters = excluded.counters",
            queue_id,
            json.dumps(dict(counters)),
        )
