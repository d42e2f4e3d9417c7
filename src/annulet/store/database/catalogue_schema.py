"""The tables of the catalogue, and how a file of an older version gets them."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 9
"""Written into the file. A file of an older version is migrated at open, a newer one is refused."""

CHECKS: Final = """
CREATE INDEX virtual_hosts_check ON virtual_hosts (name);
CREATE INDEX users_check ON users (password_hash, tags, scram);
CREATE INDEX permissions_check ON permissions (configure, write, read);
CREATE INDEX exchanges_check ON exchanges (type, auto_delete, internal, arguments, auto_created);
CREATE INDEX queues_check ON queues (auto_delete, arguments, address, auto_created);
CREATE INDEX bindings_check ON bindings (source);
CREATE INDEX leases_check ON leases
    (queue_id, generation, generated, created_at, active_at, acknowledged, last, owner);
CREATE INDEX lease_ranges_check ON lease_ranges (last, sequences);
CREATE INDEX publish_marks_check ON publish_marks (batch, updated_at);
CREATE INDEX queue_counters_check ON queue_counters (counters);
CREATE INDEX operator_settings_check ON operator_settings (value);
CREATE INDEX secrets_check ON secrets (value);
"""
"""SQLite has no checksums, and a flipped bit in a value is a value. With each of these there is every value twice, an
index having its table's key as well, and the integrity check of a start compares the two. Nothing is looked up by them.
"""

SUBSCRIPTIONS: Final = """
CREATE TABLE subscriptions (
    virtual_host TEXT NOT NULL, queue TEXT NOT NULL, client TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL,
    PRIMARY KEY (virtual_host, queue)) WITHOUT ROWID;
"""
SUBSCRIPTIONS_CHECK: Final = """
CREATE INDEX subscriptions_check ON subscriptions (client, name, user);
"""

FIND_SUBSCRIPTIONS: Final = """
INSERT INTO subscriptions SELECT virtual_host, name, '', '', '' FROM queues WHERE EXISTS (
    SELECT 1 FROM bindings WHERE bindings.virtual_host = queues.virtual_host AND destination_type = 'queue'
    AND destination = queues.name);
"""
"""Queues of an older version that may be subscriptions: those that are bound. Their clients are not known."""

DELETIONS: Final = """
CREATE TABLE deleted_queues (queue_id INTEGER PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX deleted_queues_check ON deleted_queues (queue_id);
CREATE TABLE generations (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX generations_check ON generations (value);
INSERT INTO generations VALUES ('catalogue', 0);
"""
"""Deleted queues of which the message log may still have records, to distinguish them from queues that are missing for
another reason; and the number of changes of the file."""

ACCESS: Final = """
ALTER TABLE users ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE virtual_hosts ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE virtual_hosts ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE virtual_hosts ADD COLUMN deleting INTEGER NOT NULL DEFAULT 0;
CREATE TABLE access_limits (
    kind TEXT NOT NULL, name TEXT NOT NULL, limit_name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (kind, name, limit_name)) WITHOUT ROWID;
CREATE TABLE tokens (
    user TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, scope TEXT NOT NULL, created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, PRIMARY KEY (user, name)) WITHOUT ROWID;
CREATE TABLE access_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
ACCESS_CHECKS: Final = """
DROP INDEX users_check;
CREATE INDEX users_check ON users (password_hash, tags, scram, source);
DROP INDEX virtual_hosts_check;
CREATE INDEX virtual_hosts_check ON virtual_hosts (name, description, tags, deleting);
CREATE INDEX access_limits_check ON access_limits (value);
CREATE INDEX tokens_check ON tokens (digest, scope, created_at, expires_at);
CREATE INDEX access_facts_check ON access_facts (value);
"""
BROWSE_AND_MANAGE: Final = """
ALTER TABLE permissions ADD COLUMN browse TEXT NOT NULL DEFAULT '';
ALTER TABLE permissions ADD COLUMN manage TEXT NOT NULL DEFAULT '';
DROP INDEX permissions_check;
CREATE INDEX permissions_check ON permissions (configure, write, read, browse, manage);
"""
"""Permissions beside RabbitMQ's three."""

FIRST_START_WAS: Final = """
INSERT INTO access_facts SELECT 'first-start', 'done' WHERE EXISTS (SELECT 1 FROM users);
"""
"""A file with users has had its first start: deleted users of it are not to be made again."""

LEASE_USERS: Final = """
ALTER TABLE leases ADD COLUMN user TEXT NOT NULL DEFAULT '';
DROP INDEX leases_check;
CREATE INDEX leases_check ON leases
    (queue_id, generation, generated, created_at, active_at, acknowledged, last, owner, user);
"""
"""The user that used a lease last; unknown of those of older versions until they are used again."""

MIGRATIONS: Final[dict[int, str]] = {
    1: """
ALTER TABLE exchanges ADD COLUMN auto_created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE queues ADD COLUMN auto_created INTEGER NOT NULL DEFAULT 0;
""",
    2: """
CREATE TABLE operator_settings (
    kind TEXT NOT NULL, virtual_host TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, virtual_host, name)) WITHOUT ROWID;
""",
    3: """
ALTER TABLE users ADD COLUMN scram TEXT NOT NULL DEFAULT '';
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
""",
    4: CHECKS,
    5: SUBSCRIPTIONS + SUBSCRIPTIONS_CHECK + FIND_SUBSCRIPTIONS + DELETIONS,
    6: ACCESS + ACCESS_CHECKS + FIRST_START_WAS,
    7: BROWSE_AND_MANAGE,
    8: LEASE_USERS,
}
"""Statements that lead from a version to the next one."""

TABLES: Final = """
CREATE TABLE virtual_hosts (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE users (
    name TEXT PRIMARY KEY, password_hash TEXT NOT NULL, tags TEXT NOT NULL, scram TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID;
CREATE TABLE permissions (
    user TEXT NOT NULL, virtual_host TEXT NOT NULL, configure TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL,
    PRIMARY KEY (user, virtual_host)) WITHOUT ROWID;
CREATE TABLE exchanges (
    virtual_host TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, auto_delete INTEGER NOT NULL,
    internal INTEGER NOT NULL, arguments TEXT NOT NULL, auto_created INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (virtual_host, name)) WITHOUT ROWID;
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT, virtual_host TEXT NOT NULL, name TEXT NOT NULL, auto_delete INTEGER NOT NULL,
    arguments TEXT NOT NULL, address TEXT NOT NULL DEFAULT '', auto_created INTEGER NOT NULL DEFAULT 0,
    UNIQUE (virtual_host, name));
CREATE TABLE bindings (
    virtual_host TEXT NOT NULL, source TEXT NOT NULL, destination_type TEXT NOT NULL, destination TEXT NOT NULL,
    routing_key TEXT NOT NULL, arguments TEXT NOT NULL,
    PRIMARY KEY (virtual_host, source, destination_type, destination, routing_key, arguments)) WITHOUT ROWID;
CREATE TABLE leases (
    virtual_host TEXT NOT NULL, name TEXT NOT NULL, queue_id INTEGER NOT NULL, generation INTEGER NOT NULL,
    generated INTEGER NOT NULL, created_at INTEGER NOT NULL, active_at INTEGER NOT NULL, acknowledged INTEGER NOT NULL,
    last INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (virtual_host, name)) WITHOUT ROWID;
CREATE TABLE lease_ranges (
    virtual_host TEXT NOT NULL, lease TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    sequences BLOB NOT NULL, PRIMARY KEY (virtual_host, lease, first));
CREATE TABLE publish_marks (query TEXT PRIMARY KEY, batch INTEGER NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE queue_counters (queue_id INTEGER PRIMARY KEY, counters TEXT NOT NULL);
CREATE TABLE operator_settings (
    kind TEXT NOT NULL, virtual_host TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, virtual_host, name)) WITHOUT ROWID;
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

SCHEMA: Final = (
    TABLES
    + SUBSCRIPTIONS
    + CHECKS
    + SUBSCRIPTIONS_CHECK
    + DELETIONS
    + ACCESS
    + ACCESS_CHECKS
    + BROWSE_AND_MANAGE
    + LEASE_USERS
)
