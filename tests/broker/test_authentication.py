from __future__ import annotations

import asyncio
from typing import cast

import pytest
import structlog

from annulet.broker import authentication
from annulet.broker.authentication import (
    HASHER,
    MECHANISMS,
    PASSWORD_BYTES_MAX,
    Authenticator,
    CredentialsError,
    PermissionKind,
    parse_response,
)
from annulet.broker.configuration import BrokerConfiguration, PermissionDeclaration, UserDeclaration
from annulet.store.catalogue import Catalogue
from annulet.wire.amqp091.values import encode_table

SECRET = HASHER.hash("secret")


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(":memory:")


@pytest.fixture
def first(catalogue: Catalogue) -> Authenticator:
    return Authenticator(catalogue, BrokerConfiguration())


def declared(**permissions: PermissionDeclaration) -> BrokerConfiguration:
    hosts = {name.replace("root", "/"): permission for name, permission in permissions.items()}
    return BrokerConfiguration(users={"alice": UserDeclaration(SECRET, ("monitoring",), hosts)})


def test_the_first_start_makes_guest_for_loopback_only(first: Authenticator) -> None:
    user = first.check("guest", "guest", peer_is_loopback=True)
    assert user is not None
    assert user.tags == {"administrator"}
    assert first.may_enter("guest", "/")
    assert first.allowed("guest", "/", "configure", "anything")
    assert first.check("guest", "guest", peer_is_loopback=False) is None


def test_loopback_users_can_be_none(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, BrokerConfiguration(loopback_users=()))
    assert authenticator.check("guest", "guest", peer_is_loopback=False) is not None


def test_declared_users_come_instead_of_guest(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, declared(root=PermissionDeclaration(".*", ".*", ".*")))
    assert authenticator.check("guest", "guest", peer_is_loopback=True) is None
    user = authenticator.check("alice", "secret", peer_is_loopback=False)
    assert user is not None
    assert (user.name, user.tags) == ("alice", {"monitoring"})


def test_a_changed_declaration_counts_at_the_next_start(catalogue: Catalogue) -> None:
    before = Authenticator(catalogue, declared())
    assert before.check("alice", "secret", peer_is_loopback=True) is not None
    changed = BrokerConfiguration(users={"alice": UserDeclaration(HASHER.hash("new"), ())})
    after = Authenticator(catalogue, changed)
    assert after.check("alice", "secret", peer_is_loopback=True) is None
    assert after.check("alice", "new", peer_is_loopback=True) is not None
    before.reload()
    assert before.check("alice", "secret", peer_is_loopback=True) is None, "a remembered check ends with its hash"


def test_a_host_that_permissions_name_exists_from_then_on(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, declared(staging=PermissionDeclaration("", "", ".*")))
    assert "staging" in catalogue.virtual_hosts()
    assert authenticator.may_enter("alice", "staging")
    assert not authenticator.may_enter("alice", "/")


@pytest.mark.parametrize(("name", "password"), [("guest", "Guest"), ("guest", ""), ("nobody", "guest"), ("", "")])
def test_wrong_credentials(first: Authenticator, name: str, password: str) -> None:
    with structlog.testing.capture_logs() as logs:
        assert first.check(name, password, peer_is_loopback=True, peer="127.0.0.1") is None
    assert logs[0]["event"] == "login refused"
    assert logs[0]["peer"] == "127.0.0.1"
    assert first.statistics().refused == 1


def test_passwords_stay_out_of_the_log(first: Authenticator) -> None:
    with structlog.testing.capture_logs() as logs:
        first.check("guest", "hunter2-hunter2", peer_is_loopback=True)
        first.authenticate("PLAIN", b"\0guest\0hunter2-hunter2", "127.0.0.1")
    assert len(logs) == 2
    assert "hunter2" not in str(logs)


def test_right_and_wrong_checks_are_remembered(first: Authenticator) -> None:
    for _ in range(3):
        assert first.check("guest", "guest", peer_is_loopback=True) is not None
        assert first.check("guest", "wrong", peer_is_loopback=True) is None
    statistics = first.statistics()
    assert (statistics.accepted, statistics.refused, statistics.hashed) == (3, 3, 2)


@pytest.mark.parametrize(("others", "forgotten"), [(0, False), (1, False), (2, True)])
def test_memory_of_checks_is_bounded(
    first: Authenticator, monkeypatch: pytest.MonkeyPatch, others: int, forgotten: bool
) -> None:
    monkeypatch.setattr(authentication, "REMEMBERED_MAX", 2)
    first.check("guest", "wrong", peer_is_loopback=True)
    for number in range(others):
        first.check("guest", f"wrong-{number}", peer_is_loopback=True)
    hashed = first.statistics().hashed
    first.check("guest", "wrong", peer_is_loopback=True)
    assert (first.statistics().hashed > hashed) is forgotten


@pytest.mark.parametrize(
    ("length", "hashed"), [(PASSWORD_BYTES_MAX - 1, 1), (PASSWORD_BYTES_MAX, 1), (PASSWORD_BYTES_MAX + 1, 0)]
)
def test_overlong_passwords_are_wrong_without_a_hash(first: Authenticator, length: int, hashed: int) -> None:
    assert first.check("guest", "x" * length, peer_is_loopback=True) is None
    assert first.statistics().hashed == hashed


async def test_checks_off_the_loop_agree_with_those_on_it(first: Authenticator) -> None:
    right = [first.check_async("guest", "guest", peer_is_loopback=True) for _ in range(4)]
    wrong = [first.check_async("guest", "wrong", peer_is_loopback=True) for _ in range(4)]
    users = await asyncio.gather(*right, *wrong)
    assert [user is not None for user in users] == [True] * 4 + [False] * 4
    assert first.check("guest", "guest", peer_is_loopback=True) is not None


def test_an_unusable_stored_hash_is_a_refusal_with_a_line_in_the_log(catalogue: Catalogue) -> None:
    configuration = BrokerConfiguration(users={"bob": UserDeclaration("$argon2id$broken")})
    authenticator = Authenticator(catalogue, configuration)
    with structlog.testing.capture_logs() as logs:
        assert authenticator.check("bob", "x", peer_is_loopback=True) is None
    assert logs[0]["event"] == "stored password hash cannot be used"


# ---------------------------------------------------------------------- SASL


def test_sasl_plain_and_amqplain_and_anonymous(first: Authenticator) -> None:
    amqplain = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    for mechanism, response in (("PLAIN", b"\0guest\0guest"), ("AMQPLAIN", amqplain), ("ANONYMOUS", b"trace")):
        assert mechanism in MECHANISMS
        user = first.authenticate(mechanism, response, "127.0.0.1")
        assert user is not None
        assert user.name == "guest"
        assert first.authenticate(mechanism, response, "10.0.0.1") is None


def test_the_authorisation_identity_of_plain_is_ignored() -> None:
    assert parse_response("PLAIN", b"other\0guest\0p") == ("guest", "p")


@pytest.mark.parametrize(
    ("mechanism", "response", "message"),
    [
        ("PLAIN", b"", "1 fields"),
        ("PLAIN", b"guest\0guest", "2 fields"),
        ("PLAIN", b"\0a\0b\0c", "4 fields"),
        ("PLAIN", b"\0\xff\0guest", "user name is not UTF-8"),
        ("PLAIN", b"\0guest\0\xff", "password is not UTF-8"),
        ("AMQPLAIN", b"\x05LOGINS\x00\x00", "not a field table"),
        ("AMQPLAIN", b"", "needs the text fields LOGIN and PASSWORD"),
        ("AMQPLAIN", encode_table({"LOGIN": "a", "PASSWORD": 5})[4:], "needs the text fields"),
        ("EXTERNAL", b"", "unknown SASL mechanism 'EXTERNAL'; known: PLAIN"),
    ],
)
def test_malformed_responses(first: Authenticator, mechanism: str, response: bytes, message: str) -> None:
    with pytest.raises(CredentialsError, match=message):
        parse_response(mechanism, response)
    assert first.authenticate(mechanism, response, "127.0.0.1") is None
    statistics = first.statistics()
    assert (statistics.refused, statistics.malformed) == (1, 1)


# ---------------------------------------------------------------------- permissions


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("configure", "a-queue", True),
        ("configure", "b-queue", False),
        ("write", "an out there", True),  # searched, not matched whole
        ("write", "", False),
        ("read", "amq.default", True),
        ("read", "", True),  # the default exchange is amq.default here
        ("read", "other", False),
    ],
)
def test_permissions_are_searched_expressions(catalogue: Catalogue, kind: str, name: str, expected: bool) -> None:
    authenticator = Authenticator(catalogue, declared(root=PermissionDeclaration("^a-", "out", r"^amq\.default$")))
    for _ in range(2):  # asked and remembered
        assert authenticator.allowed("alice", "/", cast("PermissionKind", kind), name) is expected


def test_an_empty_permission_matches_nothing_with_a_name(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, declared(root=PermissionDeclaration()))
    assert not authenticator.allowed("alice", "/", "read", "q")
    assert not authenticator.allowed("alice", "/", "write", "")
    assert authenticator.may_enter("alice", "/")


def test_no_entry_no_permission(first: Authenticator) -> None:
    assert not first.allowed("nobody", "/", "read", "q")
    assert not first.allowed("guest", "other", "read", "q")
    assert not first.may_enter("nobody", "/")


def test_memory_of_verdicts_is_bounded(first: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "VERDICTS_MAX", 2)
    for number in range(10):
        assert first.allowed("guest", "/", "read", f"q{number}")
        assert len(first._verdicts) <= 2
