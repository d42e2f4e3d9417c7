from __future__ import annotations

import asyncio
import threading
from typing import cast

import argon2
import pytest
import structlog

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security import authentication
from annulet.broker.security.authentication import (
    PASSWORD_BYTES_MAX,
    Authenticator,
    CredentialsError,
    PermissionKind,
    parse_response,
)
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.sasl import Challenge, Failure, SaslExchange
from annulet.broker.settings.configuration import BrokerConfiguration, PermissionDeclaration, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.broker.settings.scram_verifiers import derive_verifier
from annulet.store.database.catalogue import Catalogue
from annulet.wire.amqp091.types.values import encode_table
from tests.cheap_passwords import PRODUCT_HASHER
from tests.databases import memory_catalogue
from tests.scram_client import ScramClient

SECRET = HASHER.hash("secret")
LOCAL = PeerFacts("127.0.0.1", 50_000, is_loopback=True)
REMOTE = PeerFacts("10.0.0.1", 50_000)
PLAINLY = BrokerConfiguration(limits=Limits(login_delay_first=0))  # nobody waits


class Sleeper:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def catalogue() -> Catalogue:
    return memory_catalogue()


@pytest.fixture
def first(catalogue: Catalogue) -> Authenticator:
    return Authenticator(catalogue, PLAINLY)


def declared(**permissions: PermissionDeclaration) -> BrokerConfiguration:
    hosts = {name.replace("root", "/"): permission for name, permission in permissions.items()}
    return BrokerConfiguration(users={"alice": UserDeclaration(SECRET, ("monitoring",), hosts)})


def test_users_get_hashes_of_the_documented_cost() -> None:
    parameters = argon2.extract_parameters(PRODUCT_HASHER.hash("secret"))
    assert parameters.type is argon2.Type.ID
    assert (parameters.memory_cost, parameters.time_cost, parameters.parallelism) == (12 * 1024, 3, 1)  # KiB, passes


async def test_the_first_start_makes_guest_for_loopback_only(first: Authenticator) -> None:
    user = await first.login("guest", "guest", peer=LOCAL)
    assert user is not None
    assert user.tags == {"administrator"}
    assert first.may_enter("guest", "/")
    assert first.allowed("guest", "/", "configure", "anything")
    assert await first.login("guest", "guest", peer=REMOTE) is None


async def test_loopback_users_can_be_none(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, BrokerConfiguration(loopback_users=()))
    assert await authenticator.login("guest", "guest", peer=REMOTE) is not None


async def test_declared_users_come_instead_of_guest(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, declared(root=PermissionDeclaration(".*", ".*", ".*")))
    assert await authenticator.login("guest", "guest", peer=LOCAL) is None
    user = await authenticator.login("alice", "secret", peer=REMOTE)
    assert user is not None
    assert (user.name, user.tags) == ("alice", {"monitoring"})


async def test_a_changed_declaration_counts_at_the_next_start(catalogue: Catalogue) -> None:
    before = Authenticator(catalogue, declared())
    assert await before.login("alice", "secret", peer=LOCAL) is not None
    changed = BrokerConfiguration(users={"alice": UserDeclaration(HASHER.hash("new"), ())})
    after = Authenticator(catalogue, changed)
    assert await after.login("alice", "secret", peer=LOCAL) is None
    assert await after.login("alice", "new", peer=LOCAL) is not None
    before.reload()
    assert await before.login("alice", "secret", peer=LOCAL) is None, "a remembered check ends with its hash"


def test_a_host_that_permissions_name_exists_from_then_on(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, declared(staging=PermissionDeclaration("", "", ".*")))
    assert "staging" in catalogue.virtual_hosts()
    assert authenticator.may_enter("alice", "staging")
    assert not authenticator.may_enter("alice", "/")


@pytest.mark.parametrize(("name", "password"), [("guest", "Guest"), ("guest", ""), ("nobody", "guest"), ("", "")])
async def test_wrong_credentials(first: Authenticator, name: str, password: str) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await first.login(name, password, peer=LOCAL) is None
    assert logs[0]["event"] == "login refused"
    assert (logs[0]["peer"], logs[0]["user"], logs[0]["mechanism"]) == ("127.0.0.1:50000", name, "PLAIN")
    assert first.statistics().refused == 1


async def test_passwords_stay_out_of_the_log(first: Authenticator) -> None:
    with structlog.testing.capture_logs() as logs:
        await first.login("guest", "hunter2-hunter2", peer=LOCAL)
        await first.login("guest", "hunter2-hunter2", peer=REMOTE)
    assert len(logs) == 2
    assert "hunter2" not in str(logs)


async def test_right_and_wrong_checks_are_remembered(first: Authenticator) -> None:
    for _ in range(3):
        assert await first.login("guest", "guest", peer=LOCAL) is not None
        assert await first.login("guest", "wrong", peer=LOCAL) is None
    statistics = first.statistics()
    assert (statistics.accepted, statistics.refused, statistics.hashed) == (3, 3, 2)


@pytest.mark.parametrize(("others", "forgotten"), [(0, False), (1, False), (2, True)])
async def test_memory_of_checks_is_bounded(
    first: Authenticator, monkeypatch: pytest.MonkeyPatch, others: int, forgotten: bool
) -> None:
    monkeypatch.setattr(authentication, "REMEMBERED_MAX", 2)
    await first.login("guest", "wrong", peer=LOCAL)
    for number in range(others):
        await first.login("guest", f"wrong-{number}", peer=LOCAL)
    hashed = first.statistics().hashed
    await first.login("guest", "wrong", peer=LOCAL)
    assert (first.statistics().hashed > hashed) is forgotten


@pytest.mark.parametrize(
    ("length", "hashed"), [(PASSWORD_BYTES_MAX - 1, 1), (PASSWORD_BYTES_MAX, 1), (PASSWORD_BYTES_MAX + 1, 0)]
)
async def test_overlong_passwords_are_wrong_without_a_hash(first: Authenticator, length: int, hashed: int) -> None:
    assert await first.login("guest", "x" * length, peer=LOCAL) is None
    assert first.statistics().hashed == hashed


async def test_checks_off_the_loop_agree_with_those_on_it(first: Authenticator) -> None:
    right = [first.login("guest", "guest", peer=LOCAL) for _ in range(4)]
    wrong = [first.login("guest", "wrong", peer=LOCAL) for _ in range(4)]
    users = await asyncio.gather(*right, *wrong)
    assert [user is not None for user in users] == [True] * 4 + [False] * 4
    assert await first.login("guest", "guest", peer=LOCAL) is not None


async def test_an_unusable_stored_hash_is_a_refusal_with_a_line_in_the_log(catalogue: Catalogue) -> None:
    configuration = BrokerConfiguration(users={"bob": UserDeclaration("$argon2id$broken")})
    authenticator = Authenticator(catalogue, configuration)
    with structlog.testing.capture_logs() as logs:
        assert await authenticator.login("bob", "x", peer=LOCAL) is None
    assert logs[0]["event"] == "stored password hash cannot be used"


# ---------------------------------------------------------------------- SASL


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
        ("EXTERNAL", b"", "'EXTERNAL' has no name and password"),
    ],
)
def test_malformed_responses(mechanism: str, response: bytes, message: str) -> None:
    with pytest.raises(CredentialsError, match=message):
        parse_response(mechanism, response)


# ---------------------------------------------------------------------- guessing


def slowed(catalogue: Catalogue, **limits: float) -> tuple[Authenticator, Sleeper]:
    sleeper = Sleeper()
    configuration = BrokerConfiguration(limits=Limits(**limits))  # type: ignore[arg-type]
    return Authenticator(catalogue, configuration, sleep=sleeper.sleep, clock=sleeper.clock), sleeper


async def test_each_failure_doubles_the_wait_up_to_the_cap_and_success_forgets(catalogue: Catalogue) -> None:
    authenticator, sleeper = slowed(catalogue)
    waits = []
    for _ in range(8):
        before = sleeper.now
        assert await authenticator.login("guest", "wrong", peer=LOCAL) is None
        waits.append(round(sleeper.now - before, 3))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0]
    assert await authenticator.login("guest", "guest", peer=LOCAL) is not None
    before = sleeper.now
    await authenticator.login("guest", "wrong", peer=LOCAL)
    assert round(sleeper.now - before, 3) == 0.1
    assert authenticator.statistics().delayed == 8  # all but the very first and the one after the success


async def test_waiting_comes_before_checking(catalogue: Catalogue) -> None:
    authenticator, _ = slowed(catalogue)
    await authenticator.login("guest", "wrong", peer=LOCAL)
    hashed = authenticator.statistics().hashed
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    authenticator._sleep = forever
    attempt = asyncio.create_task(authenticator.login("guest", "other", peer=LOCAL))
    await waiting.wait()
    attempt.cancel()
    await asyncio.wait({attempt})
    assert authenticator.statistics().hashed == hashed, "who hangs up early has learned nothing"
    assert authenticator.attempts_waiting == 0


async def test_a_password_that_was_right_never_waits(catalogue: Catalogue) -> None:
    authenticator, sleeper = slowed(catalogue)
    await authenticator.login("guest", "guest", peer=LOCAL)
    for number in range(5):
        await authenticator.login("guest", f"wrong {number}", peer=LOCAL)
    sleeper.slept.clear()
    assert await authenticator.login("guest", "guest", peer=LOCAL) is not None
    assert sleeper.slept == []


async def test_a_user_is_slowed_from_anywhere_and_an_address_for_any_user(catalogue: Catalogue) -> None:
    authenticator, sleeper = slowed(catalogue)
    for _ in range(3):
        await authenticator.login("guest", "wrong", peer=LOCAL)
    for name, peer, seconds in (("guest", REMOTE, 0.8), ("nobody", LOCAL, 0.8), ("somebody", REMOTE, 0.8)):
        before = sleeper.now
        await authenticator.login(name, "wrong", peer=peer)
        assert round(sleeper.now - before, 3) == pytest.approx(seconds if name != "somebody" else 0.2)


@pytest.mark.parametrize(("waiting", "unchecked"), [(2, 0), (3, 0), (4, 1)])
async def test_attempts_that_wait_are_bounded_by_address(catalogue: Catalogue, waiting: int, unchecked: int) -> None:
    authenticator, _ = slowed(catalogue, max_login_attempts_waiting=3)
    await asyncio.gather(*(authenticator.login("guest", f"w{number}", peer=LOCAL) for number in range(waiting)))
    statistics = authenticator.statistics()
    assert (statistics.unchecked, statistics.refused, statistics.hashed) == (unchecked, waiting, waiting - unchecked)
    await authenticator.login("guest", "again", peer=LOCAL)
    assert authenticator.statistics().unchecked == unchecked


async def test_hashes_are_computed_off_the_loop(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = Authenticator(catalogue, PLAINLY)
    threads = []
    verify = authenticator._verify

    def noting(known_hash: str, password: str) -> bool:
        threads.append(threading.get_ident())
        return verify(known_hash, password)

    monkeypatch.setattr(authenticator, "_verify", noting)
    await asyncio.gather(*(authenticator.login("guest", f"{number}", peer=LOCAL) for number in range(8)))
    assert len(threads) == 8
    assert threading.get_ident() not in threads
    assert len(set(threads)) <= authentication.CONCURRENT_CHECKS_MAX


async def test_checks_stay_on_their_threads_while_others_work(
    first: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread that ever computed a hash keeps 12 MiB: with the loop's pool all of its threads did in time."""
    threads: set[str] = set()
    verify = first._verify

    def noting(known_hash: str, password: str) -> bool:
        threads.add(threading.current_thread().name)
        return verify(known_hash, password)

    monkeypatch.setattr(first, "_verify", noting)
    for attempt in range(4):
        others = [asyncio.to_thread(threading.get_ident) for _ in range(40)]
        logins = [first.login("guest", f"{attempt} {number}", peer=LOCAL) for number in range(8)]
        await asyncio.gather(*others, *logins)
    assert threads <= {f"annulet-passwords_{number}" for number in range(authentication.CONCURRENT_CHECKS_MAX)}


async def test_closing_ends_the_threads_and_cancels_what_waits(
    first: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def waiting(known_hash: str, password: str) -> bool:
        entered.set()
        return leave.wait(30)

    monkeypatch.setattr(first, "_verify", waiting)
    logins = [asyncio.create_task(first.login("guest", f"{number}", peer=LOCAL)) for number in range(5)]
    assert await asyncio.to_thread(entered.wait, 30)
    first.close()
    leave.set()
    ended = await asyncio.gather(*logins, return_exceptions=True)
    cancelled = [outcome for outcome in ended if isinstance(outcome, asyncio.CancelledError)]
    assert len(cancelled) >= len(logins) - authentication.CONCURRENT_CHECKS_MAX


async def test_refusals_are_logged_up_to_a_rate_with_the_count_of_the_others(catalogue: Catalogue) -> None:
    authenticator, sleeper = slowed(catalogue, login_delay_first=0)
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            await authenticator.login("guest", "wrong", peer=LOCAL)
        assert len(logs) == 5
        sleeper.now += 1
        await authenticator.login("guest", "wrong", peer=LOCAL)
    assert logs[-1]["left_out"] == 95


# ---------------------------------------------------------------------- mechanisms


def test_mechanisms_depend_on_peer_and_protocol(first: Authenticator) -> None:
    scram = ("SCRAM-SHA-512", "SCRAM-SHA-256")
    named = PeerFacts("10.0.0.1", 1, tls=True, certificate_name="alice")
    assert first.mechanisms(LOCAL, "amqp10") == (*scram, "PLAIN", "ANONYMOUS")
    assert first.mechanisms(REMOTE, "amqp10") == (*scram, "PLAIN")
    assert first.mechanisms(named, "amqp10") == ("EXTERNAL", *scram, "PLAIN")
    assert first.mechanisms(LOCAL, "amqp091") == ("PLAIN", "AMQPLAIN", *scram)
    assert first.mechanisms(named, "amqp091") == ("PLAIN", "AMQPLAIN", "EXTERNAL", *scram)


async def test_anonymous_is_offered_while_the_guest_has_the_password_everybody_knows(catalogue: Catalogue) -> None:
    guest = {"guest": UserDeclaration(HASHER.hash("guest"))}
    for users, offered in (
        ({}, True),  # the first start makes it
        ({}, True),
        ({"guest": UserDeclaration(SECRET)}, False),
        ({}, False),
        (guest, True),
    ):
        made = Authenticator(catalogue, BrokerConfiguration(users=users))
        assert ("ANONYMOUS" in made.mechanisms(LOCAL, "amqp10")) is offered
        assert ("ANONYMOUS" in made.mechanisms(LOCAL, "stomp")) is offered
        anonymous = made.login_anonymous(peer=LOCAL)
        assert (anonymous is not None) is offered
        assert anonymous is None or (anonymous.name, anonymous.tags) == ("guest", frozenset())
        assert made.login_anonymous(peer=REMOTE) is None
        assert "ANONYMOUS" not in made.mechanisms(REMOTE, "amqp10")
    catalogue.access.set_user("guest", SECRET, ())
    made.reload()
    assert "ANONYMOUS" not in made.mechanisms(LOCAL, "amqp10")


def test_only_configured_mechanisms_are_offered(catalogue: Catalogue) -> None:
    authenticator = Authenticator(catalogue, BrokerConfiguration(sasl_mechanisms=("PLAIN", "EXTERNAL")))
    assert authenticator.mechanisms(LOCAL, "amqp10") == ("PLAIN",)


async def test_scram_is_offered_when_every_user_was_given_a_verifier_and_no_login_changes_that(
    catalogue: Catalogue,
) -> None:
    with structlog.testing.capture_logs() as logs:
        authenticator = Authenticator(catalogue, declared())
    before = authenticator.mechanisms(LOCAL, "amqp10")
    assert "SCRAM-SHA-256" not in before
    assert {line["mechanism"]: line["users"] for line in logs} == {
        "SCRAM-SHA-256": ["alice"],
        "SCRAM-SHA-512": ["alice"],
    }
    assert await authenticator.login("alice", "secret", peer=LOCAL) is not None
    assert authenticator.mechanisms(LOCAL, "amqp10") == before, "the second connection meets what the first did"
    assert catalogue.access.users()[0].scram == ""
    assert Authenticator(catalogue, declared()).mechanisms(LOCAL, "amqp10") == before


def test_the_verifiers_of_declared_users_are_those_of_the_file(catalogue: Catalogue) -> None:
    catalogue.access.set_user("alice", SECRET, (), str(derive_verifier("SCRAM-SHA-256", "secret", iterations=4096)))
    assert "SCRAM-SHA-256" not in Authenticator(catalogue, declared()).mechanisms(LOCAL, "amqp10")
    assert catalogue.access.users()[0].scram == ""


@pytest.mark.parametrize("known", [True, False])
async def test_the_password_that_everybody_knows_brings_verifiers_without_being_declared(
    catalogue: Catalogue, known: bool
) -> None:
    user = UserDeclaration(HASHER.hash("guest") if known else SECRET)
    made = Authenticator(catalogue, BrokerConfiguration(users={"guest": user}))
    assert ("SCRAM-SHA-512" in made.mechanisms(LOCAL, "amqp10")) is known
    client = ScramClient("SCRAM-SHA-256", "guest", "guest" if known else "secret")
    exchange = SaslExchange(made, "amqp091")
    step = await exchange.begin("SCRAM-SHA-256", client.first, peer=LOCAL)
    if known:
        assert isinstance(step, Challenge)
        assert isinstance(await exchange.respond(client.final(step.octets)), Challenge)
    else:
        assert isinstance(step, Failure)


def test_without_scram_in_the_configuration_no_verifiers_are_made(catalogue: Catalogue) -> None:
    made = Authenticator(catalogue, BrokerConfiguration(sasl_mechanisms=("PLAIN",)))
    assert made._verifiers == {}


def test_declared_verifiers_are_used_and_broken_ones_reported(catalogue: Catalogue) -> None:
    verifier = derive_verifier("SCRAM-SHA-256", "secret", iterations=4096)
    user = UserDeclaration(SECRET, scram=(str(verifier), "SCRAM-SHA-512$broken"))
    with structlog.testing.capture_logs() as logs:
        authenticator = Authenticator(catalogue, BrokerConfiguration(users={"alice": user}))
    assert authenticator.mechanisms(REMOTE, "amqp10") == ("SCRAM-SHA-256", "PLAIN")
    assert authenticator.scram_verifier("SCRAM-SHA-256", "alice") == verifier
    assert logs[0]["event"] == "stored SCRAM verifier cannot be used"


def test_decoys_of_unknown_users_have_a_stable_salt(catalogue: Catalogue) -> None:
    salts = {Authenticator(catalogue, PLAINLY).scram_verifier("SCRAM-SHA-256", "nobody").salt for _ in range(3)}
    assert len(salts) == 1
    other = Authenticator(memory_catalogue(), PLAINLY).scram_verifier("SCRAM-SHA-256", "nobody").salt
    assert other not in salts


@pytest.mark.parametrize(
    ("name", "asked", "accepted"),
    [("guest", b"", True), ("guest", b"guest", True), ("guest", b"root", False), ("nobody", b"", False)],
)
def test_external_takes_the_name_of_the_certificate(
    first: Authenticator, name: str, asked: bytes, accepted: bool
) -> None:
    peer = PeerFacts("127.0.0.1", 1, is_loopback=True, tls=True, certificate_name=name)
    user = first.login_external(asked, peer=peer)
    assert (user is not None and user.name == name) is accepted


def test_external_obeys_loopback_users(first: Authenticator) -> None:
    assert first.login_external(b"", peer=PeerFacts("10.0.0.1", 1, tls=True, certificate_name="guest")) is None


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


async def test_names_that_a_peer_chose_are_cut_in_the_log(first: Authenticator) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await first.login("n" * 60_000, "wrong", peer=LOCAL, mechanism="M" * 1000) is None
    assert (logs[0]["user"], logs[0]["mechanism"]) == ("n" * 128, "M" * 20)
