"""The users of the configuration file as records."""

from __future__ import annotations

import structlog

from annulet.broker.security.file_users import declare_users
from annulet.broker.security.password_hashes import HASHER, verify
from annulet.broker.settings.configuration import FirstUser, PermissionDeclaration, UserDeclaration
from annulet.store.database.definitions import OF_FILE
from tests.databases import memory_catalogue

ANN = UserDeclaration("hash", ("monitoring",), {"shop": PermissionDeclaration("a", "b", "c")})


def test_the_first_start_without_users_makes_guest_and_says_so() -> None:
    catalogue = memory_catalogue()
    with structlog.testing.capture_logs() as logs:
        made = declare_users(catalogue, {})
    assert verify(made, b"guest")
    (user,) = catalogue.access.users()
    assert (user.name, user.tags, user.source) == ("guest", ("administrator",), "")
    (line,) = logs
    said = "first start: user made with a well-known password, for connections from this machine only"
    assert (line["event"], line["user"]) == (said, "guest")
    assert declare_users(catalogue, {}) == ""
    assert len(catalogue.access.users()) == 1


def test_the_files_users_come_in_place_of_guest() -> None:
    catalogue = memory_catalogue()
    assert declare_users(catalogue, {"ann": ANN}) == ""
    (user,) = catalogue.access.users()
    assert (user.name, user.source) == ("ann", OF_FILE)
    assert catalogue.virtual_hosts() == ["shop"]


def test_users_that_the_file_had_and_lost_are_no_first_start() -> None:
    catalogue = memory_catalogue()
    declare_users(catalogue, {"ann": ANN})
    with structlog.testing.capture_logs() as logs:
        assert declare_users(catalogue, {}) == ""
    assert catalogue.access.users() == []
    assert [line["event"] for line in logs] == [
        "user revoked: the configuration file no longer names it",
        "there is no user: no client can log in",
    ]


def test_permissions_of_the_files_users_are_the_files() -> None:
    catalogue = memory_catalogue()
    catalogue.access.set_user("bob", HASHER.hash("x"))
    catalogue.access.set_permission("bob", "/", ".*", ".*", ".*")
    catalogue.access.set_permission("ann", "/", ".*", ".*", ".*")
    declare_users(catalogue, {"ann": ANN})
    found = [(record.user, record.virtual_host) for record in catalogue.access.permissions()]
    assert found == [("ann", "shop"), ("bob", "/")]


def test_the_configured_first_user_comes_in_place_of_guest_and_stays_as_it_was_made() -> None:
    catalogue = memory_catalogue()
    first = FirstUser("ops", "s3cret")
    assert declare_users(catalogue, {}, first=first, mechanisms=("SCRAM-SHA-256", "PLAIN")) == ""
    (user,) = catalogue.access.users()
    assert (user.name, user.tags, user.source) == ("ops", ("administrator",), "")
    assert verify(user.password_hash, b"s3cret")
    assert user.scram.count(" ") == 0
    assert "SCRAM-SHA-256" in user.scram
    declare_users(catalogue, {}, first=FirstUser("ops", "other"))
    declare_users(catalogue, {}, first=FirstUser("someone", "else"))
    assert catalogue.access.users() == [user]
