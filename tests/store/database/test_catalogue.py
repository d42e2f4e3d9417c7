"""The catalogue: what was put in is there after a restart, deleting takes along what depends on it."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.catalogue import OPERATOR_POLICY, OPERATOR_QUEUE, SCHEMA, SCHEMA_VERSION, Catalogue
from annulet.store.database.catalogue_schema import LEASE_USERS
from annulet.store.database.definitions import (
    BindingRecord,
    ExchangeRecord,
    LeaseRange,
    LeaseRecord,
    PermissionRecord,
    QueueRecord,
    SubscriptionRecord,
    UserRecord,
)
from annulet.store.files.errors import CatalogueError

LEASE = LeaseRecord("lease", "/", 1, 3, 1000, 2000, 40, 50, "checkpoint", generated=True, user="ann")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "catalogue.sqlite"


@pytest.fixture
def catalogue(path):
    catalogue = Catalogue(path)
    yield catalogue
    catalogue.close()


@pytest.fixture
def reopen(path, catalogue):
    """Close the file and open it as the next process would."""
    opened = []

    def again():
        catalogue.close()
        opened.append(Catalogue(path))
        return opened[-1]

    yield again
    for each in opened:
        each.close()


# ---------------------------------------------------------------------- users and virtual hosts


def test_users_and_permissions_are_replaced_and_survive(catalogue, reopen):
    catalogue.access.set_user("b", "hash-1", ("administrator",))
    catalogue.access.set_user("b", "hash-2", ["monitoring", "management"])
    catalogue.access.set_user("a", "hash")
    catalogue.access.set_permission("b", "/", "x", "y", "z")
    catalogue.access.set_permission("b", "/", "^$", ".*", "a|b")
    again = reopen()
    assert again.access.users() == [UserRecord("a", "hash"), UserRecord("b", "hash-2", ("monitoring", "management"))]
    assert again.access.permissions() == [PermissionRecord("b", "/", "^$", ".*", "a|b")]


def test_a_deleted_user_leaves_no_permission_to_a_later_one_of_that_name(catalogue):
    for name in ("leaver", "stayer"):
        catalogue.access.set_user(name, "hash")
        catalogue.access.set_permission(name, "/", ".*", ".*", ".*")
    catalogue.access.delete_user("leaver")
    catalogue.access.delete_user("never was")
    assert [user.name for user in catalogue.access.users()] == ["stayer"]
    assert [permission.user for permission in catalogue.access.permissions()] == ["stayer"]


def test_virtual_hosts(catalogue, reopen):
    for name in ("/", "tests", "/"):
        catalogue.add_virtual_host(name)
    assert reopen().virtual_hosts() == ["/", "tests"]


# ---------------------------------------------------------------------- exchanges, queues, bindings


def test_exchanges_keep_their_arguments_and_belong_to_one_virtual_host(catalogue, reopen):
    arguments = {"alternate-exchange": "other", "x-octets": b"\xff"}
    catalogue.add_exchange("/", "e", "topic", True, False, arguments)
    catalogue.add_exchange("tests", "e", "direct", False, True, {})
    again = reopen()
    assert again.exchanges("/") == [ExchangeRecord("e", "topic", True, False, arguments)]
    assert again.exchanges("tests") == [ExchangeRecord("e", "direct", False, True)]
    assert again.exchanges("unknown") == []


def test_queue_ids_are_never_given_again(catalogue, reopen):
    first = catalogue.add_queue("/", "a", False, {"x-ring-size": 5})
    second = catalogue.add_queue("/", "b", True, {})
    assert second > first
    catalogue.delete_queue("/", "b")
    third = reopen().add_queue("/", "b", False, {})
    assert third > second


def test_queues_come_in_the_order_they_were_made(catalogue):
    ids = [catalogue.add_queue("/", name, False, {"n": name}) for name in ("z", "a")]
    assert catalogue.queues("/") == [
        QueueRecord(ids[0], "z", False, {"n": "z"}),
        QueueRecord(ids[1], "a", False, {"n": "a"}),
    ]


def test_a_second_queue_of_one_name_is_refused_by_name(catalogue):
    catalogue.add_queue("/", "orders", False, {})
    with pytest.raises(CatalogueError, match="queue 'orders' of '/'"):
        catalogue.add_queue("/", "orders", False, {})
    catalogue.add_queue("tests", "orders", False, {})


def test_bindings_differ_in_every_field(catalogue, reopen):
    base = ("e", "queue", "q", "k", {"a": 1, "b": b"x"})
    others = [
        ("f", *base[1:]), ("e", "exchange", *base[2:]), ("e", "queue", "r", *base[3:]), (*base[:3], "l", base[4]),
        (*base[:4], {"a": 1}), (*base[:4], {"a": True, "b": b"x"}),
    ]  # fmt: skip
    for binding in (base, *others, base):
        catalogue.add_binding("/", *binding)
    again = reopen()
    assert len(again.bindings("/")) == 7
    again.remove_binding("/", *base[:4], {"b": b"x", "a": 1})  # the order of fields makes no difference
    again.remove_binding("/", *base)
    assert len(again.bindings("/")) == 6
    (alike,) = [binding for binding in again.bindings("/") if binding == BindingRecord(*base)]
    assert alike.arguments["a"] is True  # equal to 1 in Python, another binding here


def test_deleting_an_exchange_takes_bindings_on_both_sides(catalogue):
    for name in ("e", "f"):
        catalogue.add_exchange("/", name, "fanout", False, False, {})
    catalogue.add_binding("/", "e", "queue", "q", "", {})
    catalogue.add_binding("/", "f", "exchange", "e", "", {})
    catalogue.add_binding("/", "f", "queue", "e", "", {})  # a queue of the same name
    catalogue.add_binding("tests", "e", "queue", "q", "", {})
    catalogue.delete_exchange("/", "e")
    catalogue.delete_exchange("/", "never was")
    assert [exchange.name for exchange in catalogue.exchanges("/")] == ["f"]
    assert catalogue.bindings("/") == [BindingRecord("f", "queue", "e", "")]
    assert len(catalogue.bindings("tests")) == 1


def test_deleting_a_queue_takes_bindings_counters_and_leases(catalogue):
    ids = [catalogue.add_queue("/", name, False, {}) for name in ("q", "kept")]
    for queue_id, name in zip(ids, ("q", "kept"), strict=True):
        catalogue.add_binding("/", "e", "queue", name, "", {})
        catalogue.set_queue_counters(queue_id, {"messages_added": 1})
        catalogue.set_lease(dataclasses.replace(LEASE, name=f"lease of {name}", queue_id=queue_id))
        catalogue.add_lease_range("/", f"lease of {name}", LeaseRange(1, 1, b"\0" * 8))
    catalogue.add_binding("/", "e", "exchange", "q", "", {})  # an exchange of the same name
    catalogue.delete_queue("/", "q")
    catalogue.delete_queue("/", "q")
    assert [queue.name for queue in catalogue.queues("/")] == ["kept"]
    assert [(item.destination_type, item.destination) for item in catalogue.bindings("/")] == [
        ("exchange", "q"), ("queue", "kept"),
    ]  # fmt: skip
    assert (catalogue.queue_counters(ids[0]), catalogue.queue_counters(ids[1])) == (None, {"messages_added": 1})
    assert [lease.name for lease in catalogue.leases()] == ["lease of kept"]
    assert catalogue.lease_ranges("/", "lease of q") == []
    assert len(catalogue.lease_ranges("/", "lease of kept")) == 1


def test_counters_are_replaced(catalogue, reopen):
    catalogue.set_queue_counters(1, {"messages_added": 1, "removed.expired": 2})
    catalogue.set_queue_counters(1, {"messages_added": 2**40})
    again = reopen()
    assert (again.queue_counters(1), again.queue_counters(2)) == ({"messages_added": 2**40}, None)
    assert (again.redelivered(1), again.redelivered(2)) == (None, None)


def test_what_came_back_stands_beside_the_counters(catalogue, reopen):
    catalogue.set_queue_counters(1, {"messages_added": 9}, [3, 1, 2, 1])
    catalogue.set_queue_counters(2, {"messages_added": 1}, [])
    again = reopen()
    assert (again.queue_counters(1), again.queue_counters(2)) == ({"messages_added": 9}, {"messages_added": 1})
    assert (again.redelivered(1), again.redelivered(2)) == ([3, 1, 2, 1], [])
    again.set_queue_counters(1, {"messages_added": 9})  # as an older version does
    assert again.redelivered(1) is None


# ---------------------------------------------------------------------- leases and publish marks


def test_every_field_of_a_lease_survives(catalogue, reopen):
    catalogue.set_lease(dataclasses.replace(LEASE, generation=1, owner="before"))
    catalogue.set_lease(LEASE)
    assert reopen().leases() == [LEASE]


def test_ranges_are_kept_until_their_last_position_is_done(catalogue, reopen):
    spans = [LeaseRange(1, 10, b"\1" * 80), LeaseRange(11, 20, b"\2" * 80), LeaseRange(21, 30, b"\3" * 80)]
    for span in reversed(spans):
        catalogue.add_lease_range("/", "lease", span)
    catalogue.add_lease_range("/", "other", spans[0])
    assert catalogue.lease_ranges("/", "lease") == spans
    for upto, kept in ((9, spans), (10, spans[1:]), (19, spans[1:]), (20, spans[2:])):
        catalogue.delete_lease_ranges("/", "lease", upto)
        assert catalogue.lease_ranges("/", "lease") == kept
    assert reopen().lease_ranges("/", "other") == spans[:1]


def test_one_position_cannot_begin_two_ranges(catalogue):
    catalogue.add_lease_range("/", "lease", LeaseRange(1, 10, b""))
    with pytest.raises(CatalogueError, match="refuses a statement"):
        catalogue.add_lease_range("/", "lease", LeaseRange(1, 5, b""))


def test_a_deleted_lease_leaves_no_positions_to_a_later_one_of_that_name(catalogue):
    catalogue.set_lease(LEASE)
    catalogue.add_lease_range("/", "lease", LeaseRange(41, 50, b""))
    catalogue.delete_lease("/", "lease")
    catalogue.delete_lease("/", "never was")
    catalogue.set_lease(LEASE)
    assert catalogue.lease_ranges("/", "lease") == []


def test_a_publish_mark_only_rises(catalogue, reopen):
    assert catalogue.publish_mark("query") is None
    for batch in (0, 5, 3):
        catalogue.set_publish_mark("query", batch, 1000)
    again = reopen()
    assert again.publish_mark("query") == 5
    again.delete_publish_mark("query")
    again.delete_publish_mark("query")
    assert again.publish_mark("query") is None


# ---------------------------------------------------------------------- transactions and files


def test_a_transaction_holds_all_or_nothing(catalogue, reopen):
    def fail_after(changes):
        with catalogue.transaction():
            changes()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fail_after(lambda: (catalogue.add_queue("/", "q", False, {}), catalogue.set_lease(LEASE)))
    assert (catalogue.queues("/"), catalogue.leases()) == ([], [])
    with catalogue.transaction():
        catalogue.add_queue("/", "q", False, {})
        catalogue.set_lease(LEASE)
    again = reopen()
    assert ([queue.name for queue in again.queues("/")], again.leases()) == (["q"], [LEASE])


def test_the_outermost_transaction_decides(catalogue):
    def inner_succeeds_outer_fails():
        with catalogue.transaction():
            with catalogue.transaction():
                catalogue.add_virtual_host("inner")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        inner_succeeds_outer_fails()
    assert catalogue.virtual_hosts() == []
    catalogue.add_virtual_host("after")  # the next change is on its own again
    assert catalogue.virtual_hosts() == ["after"]


def test_a_change_is_there_for_another_connection_at_once(catalogue, path):
    catalogue.add_virtual_host("/")
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM virtual_hosts").fetchall() == [("/",)]
    other.close()


def test_a_file_of_the_first_version_is_brought_up_to_date(path):
    old = SCHEMA.replace(", auto_created INTEGER NOT NULL DEFAULT 0", "").replace(
        ", address TEXT NOT NULL DEFAULT ''", ""
    )
    old = old.replace(", scram TEXT NOT NULL DEFAULT ''", "")
    assert old != SCHEMA
    old = old[: old.index("CREATE TABLE operator_settings")]
    connection = sqlite3.connect(path)
    connection.executescript(f"{old}PRAGMA user_version=1;")
    connection.execute("INSERT INTO exchanges VALUES ('/', 'e', 'topic', 0, 0, '{}')")
    connection.execute("INSERT INTO queues VALUES (7, '/', 'q', 0, '{}')")
    connection.execute("INSERT INTO users VALUES ('alice', '$argon2id$x', '[]')")
    connection.commit()
    connection.close()
    for _ in range(2):  # once is enough
        catalogue = Catalogue(path)
        assert catalogue.exchanges("/") == [ExchangeRecord("e", "topic", False, False)]
        assert catalogue.queues("/") == [QueueRecord(7, "q", False)]
        assert catalogue.access.users() == [UserRecord("alice", "$argon2id$x")]
        assert len(catalogue.secret("any")) == 32
        catalogue.set_operator_setting(OPERATOR_QUEUE, "/", "q", {"x-ring-size": 3})
        catalogue.close()


def test_verifiers_stay_with_the_hash_they_belong_to(catalogue, reopen):
    catalogue.access.set_user("alice", "hash", ["a"], "verifier")
    catalogue.access.set_user("alice", "hash", ["b"])
    catalogue = reopen()
    assert catalogue.access.users() == [UserRecord("alice", "hash", ("b",), "verifier")]
    catalogue.access.set_user("alice", "hash", ["b"], "given")
    assert catalogue.access.users()[0].scram == "given"
    catalogue.access.set_user("alice", "another hash")
    found = catalogue.access.users()
    assert found == [UserRecord("alice", "another hash")], "a verifier of the old password would let it in"
    catalogue.access.set_scram("alice", "new")
    catalogue.access.set_scram("nobody", "new")
    assert [(user.name, user.scram) for user in catalogue.access.users()] == [("alice", "new")]


def test_a_secret_is_random_and_stays(catalogue, reopen):
    first = catalogue.secret("one")
    assert len(first) == 32
    assert catalogue.secret("two") != first
    assert reopen().secret("one") == first


def test_what_operators_set_is_replaced_and_survives(catalogue, reopen):
    for value in ({"x-ring-size": 3}, {"x-ring-size": 5, "x-evict": b"\x00"}):
        catalogue.set_operator_setting(OPERATOR_QUEUE, "/", "q", value)
    catalogue.set_operator_setting(OPERATOR_QUEUE, "other", "q", {})
    catalogue.set_operator_setting(OPERATOR_POLICY, "/", "q", {"priority": 1})
    catalogue = reopen()
    assert catalogue.operator_settings(OPERATOR_QUEUE, "/") == {"q": {"x-ring-size": 5, "x-evict": b"\x00"}}
    assert catalogue.operator_settings(OPERATOR_POLICY, "/") == {"q": {"priority": 1}}
    catalogue.delete_queue("/", "q")
    assert catalogue.operator_settings(OPERATOR_QUEUE, "/") == {}
    assert catalogue.operator_settings(OPERATOR_QUEUE, "other") == {"q": {}}
    catalogue.delete_operator_setting(OPERATOR_POLICY, "/", "q")
    catalogue.delete_operator_setting(OPERATOR_POLICY, "/", "q")
    assert catalogue.operator_settings(OPERATOR_POLICY, "/") == {}


def test_what_the_broker_made_by_itself_is_told_from_what_was_declared(catalogue, reopen):
    catalogue.add_exchange("/", "topic", "address", False, False, {}, auto_created=True)
    number = catalogue.add_queue("/", "DLQ.orders", False, {}, address="dead", auto_created=True)
    again = reopen()
    assert again.exchanges("/") == [ExchangeRecord("topic", "address", False, False, auto_created=True)]
    assert again.queues("/") == [QueueRecord(number, "DLQ.orders", False, {}, "dead", auto_created=True)]


def test_a_newer_file_is_refused_and_stays_as_it_was(path):
    Catalogue(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(CatalogueError, match=f"schema version {SCHEMA_VERSION + 1}.*start the newer version again"):
        Catalogue(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_by_name_and_stays(path):
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(CatalogueError, match=f"{path} cannot be read: .*restore it from a backup"):
        Catalogue(path)
    assert path.read_bytes().startswith(b"something else")


def test_closing_twice_is_closing_once_and_memory_is_forgotten():
    catalogue = Catalogue(":memory:")
    catalogue.add_virtual_host("/")
    catalogue.close()
    catalogue.close()
    again = Catalogue(":memory:")
    assert again.virtual_hosts() == []
    again.close()


def test_a_subscription_is_forgotten_with_its_queue(catalogue, reopen):
    for name in ("c.s", "other"):
        catalogue.add_queue("/", name, False, {})
        catalogue.set_subscription("/", SubscriptionRecord(name, "c", "s", ""))
    catalogue.set_subscription("/", SubscriptionRecord("c.s", "c", "s", "alice"))
    catalogue.delete_queue("/", "other")
    again = reopen()
    assert again.subscriptions("/") == [SubscriptionRecord("c.s", "c", "s", "alice")]
    assert again.subscriptions("elsewhere") == []


def test_leases_of_a_file_of_the_version_before_have_no_user(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        tables = SCHEMA.removesuffix(LEASE_USERS)
        connection.executescript(f"{tables}PRAGMA user_version=8;")
        connection.execute("INSERT INTO leases VALUES ('/', 'lease', 1, 3, 1, 1000, 2000, 40, 50, 'checkpoint')")
        connection.commit()
    with closing(Catalogue(path)) as catalogue:
        assert catalogue.leases() == [dataclasses.replace(LEASE, user="")]
        catalogue.set_lease(LEASE)
    with closing(Catalogue(path)) as catalogue:
        assert catalogue.leases() == [LEASE]
