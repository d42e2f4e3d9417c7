"""The catalogue's tables of users, permissions, limits, tokens and virtual hosts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_schema import CHECKS, DELETIONS, SUBSCRIPTIONS, SUBSCRIPTIONS_CHECK, TABLES
from annulet.store.database.definitions import (
    OF_FILE,
    USER,
    VIRTUAL_HOST,
    LimitRecord,
    PermissionRecord,
    TokenRecord,
    UserRecord,
    VirtualHostRecord,
)

TOKEN = TokenRecord("ann", "ci", "digest", "{}", 5, 9)


def filled(path: Path) -> Catalogue:
    """Return a catalogue with one record of each kind."""
    catalogue = Catalogue(path)
    access = catalogue.access
    catalogue.add_virtual_host("shop")
    access.describe_virtual_host("shop", "of the shop", ("a", "b"))
    access.set_user("ann", "hash", ("monitoring",), source=OF_FILE)
    access.set_permission("ann", "shop", "a", "b", "c")
    access.set_limit(LimitRecord(USER, "ann", "max-connections", 3))
    access.set_limit(LimitRecord(VIRTUAL_HOST, "shop", "max-queues", 4))
    access.set_token(TOKEN)
    access.set_fact("first-start", "done")
    return catalogue


def test_each_record_is_there_after_a_restart(tmp_path: Path) -> None:
    filled(tmp_path / "c.sqlite").close()
    with closing(Catalogue(tmp_path / "c.sqlite")) as catalogue:
        access = catalogue.access
        assert access.users() == [UserRecord("ann", "hash", ("monitoring",), "", OF_FILE)]
        assert access.permissions() == [PermissionRecord("ann", "shop", "a", "b", "c")]
        assert access.tokens() == [TOKEN]
        assert access.virtual_hosts() == [VirtualHostRecord("shop", "of the shop", ("a", "b"))]
        assert [record.value for record in access.limits()] == [3, 4]
        assert (access.fact("first-start"), access.fact("other")) == ("done", "")


def test_a_user_takes_its_records_along(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "c.sqlite")) as catalogue:
        catalogue.access.delete_user("ann")
        assert (catalogue.access.users(), catalogue.access.permissions(), catalogue.access.tokens()) == ([], [], [])
        assert catalogue.access.limits() == [LimitRecord(VIRTUAL_HOST, "shop", "max-queues", 4)]


def test_single_records_go(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "c.sqlite")) as catalogue:
        access = catalogue.access
        access.delete_permission("ann", "shop")
        access.delete_token("ann", "ci")
        access.delete_limit(USER, "ann", "max-connections")
        assert (access.permissions(), access.tokens()) == ([], [])
        assert [record.kind for record in access.limits()] == [VIRTUAL_HOST]


def test_a_virtual_host_that_is_being_deleted_is_known_as_such(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "c.sqlite")) as catalogue:
        catalogue.access.begin_deleting_virtual_host("shop")
        assert catalogue.access.virtual_hosts()[0].deleting
        assert catalogue.access.permissions() == []
        assert [record.kind for record in catalogue.access.limits()] == [USER]


def test_a_deleted_virtual_host_leaves_nothing(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "c.sqlite")) as catalogue:
        for host in ("shop", "/"):
            catalogue.add_virtual_host(host)
            catalogue.add_exchange(host, "e", "topic", False, False, {})
            catalogue.add_binding(host, "e", "exchange", "f", "", {})
            catalogue.set_operator_setting("policy", host, "p", {})
        catalogue.access.delete_virtual_host("shop")
        assert catalogue.virtual_hosts() == ["/"]
        assert (catalogue.exchanges("shop"), catalogue.bindings("shop")) == ([], [])
        assert catalogue.operator_settings("policy", "shop") == {}
        assert len(catalogue.exchanges("/")) == len(catalogue.bindings("/")) == 1
        assert catalogue.operator_settings("policy", "/") == {"p": {}}


def test_a_file_of_the_version_before_keeps_its_users_and_has_had_its_first_start(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        tables = f"{TABLES}{SUBSCRIPTIONS}{CHECKS}{SUBSCRIPTIONS_CHECK}{DELETIONS}"
        connection.executescript(f"{tables}PRAGMA user_version=6;")
        connection.execute("INSERT INTO users (name, password_hash, tags) VALUES ('ann', 'hash', '[]')")
        connection.execute("INSERT INTO virtual_hosts VALUES ('/')")
        connection.commit()
    with closing(Catalogue(path)) as catalogue:
        assert catalogue.access.users() == [UserRecord("ann", "hash")]
        assert catalogue.access.virtual_hosts() == [VirtualHostRecord("/")]
        assert catalogue.access.fact("first-start") == "done"
