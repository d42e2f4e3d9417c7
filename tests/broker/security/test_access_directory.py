"""Users, permissions, limits and tokens as operators change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.access_directory import (
    EXPRESSION_CHARACTERS_MAX,
    NAME_BYTES_MAX,
    TAGS_MAX,
    TOKENS_PER_USER_MAX,
    AccessDirectory,
)
from annulet.broker.security.authentication import Authenticator, User
from annulet.broker.security.given_limits import MAX_CONNECTIONS, GivenLimits
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.tokens import TOKEN_PREFIX, TokenScope
from annulet.broker.settings.configuration import BrokerConfiguration, PermissionDeclaration, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.definitions import USER, VIRTUAL_HOST, PermissionRecord
from annulet.store.files.errors import CatalogueError
from tests.databases import memory_catalogue

SECRET = HASHER.hash("secret")
LOCAL = PeerFacts("127.0.0.1", 50_000, is_loopback=True)
REMOTE = PeerFacts("10.0.0.1", 50_000)
ALL = PermissionDeclaration(".*", ".*", ".*")


class Place:
    """A directory over a catalogue, as a broker has it, and what it tells."""

    def __init__(self, catalogue: Catalogue | None = None, **users: UserDeclaration) -> None:
        self.catalogue = memory_catalogue() if catalogue is None else catalogue
        self.now = 1_000_000
        configuration = BrokerConfiguration(users=users, limits=Limits(login_delay_first=0))
        self.authenticator = Authenticator(self.catalogue, configuration, now=lambda: self.now)
        self.limits = GivenLimits()
        self.directory = AccessDirectory(self.catalogue, self.authenticator, self.limits, source="annulet.toml")
        self.told: list[tuple[set[str], set[str]]] = []
        self.directory.on_change = lambda users, of_tokens: self.told.append((set(users), set(of_tokens)))

    def user(self, name: str = "ann", *tags: str) -> None:
        self.directory.set_user(name, tags, password_hash=SECRET)

    def permit(self, name: str = "ann", host: str = "/", expression: str = ".*") -> None:
        self.directory.set_permission(PermissionRecord(name, host, expression, expression, expression))

    async def log_in(self, name: str = "ann", password: str = "secret", peer: PeerFacts = LOCAL) -> User | None:
        return await self.authenticator.login(name, password, peer=peer)


@pytest.fixture
def place() -> Place:
    return Place()


async def test_a_user_is_there_at_once_and_after_a_restart(place: Place) -> None:
    place.user("ann", "monitoring")
    place.permit("ann")
    for now in (place, Place(place.catalogue)):
        user = await now.log_in()
        assert user is not None
        assert user.tags == {"monitoring"}
        assert now.authenticator.allowed("ann", "/", "read", "anything")


async def test_a_deleted_user_is_gone_with_everything(place: Place) -> None:
    place.user()
    place.permit()
    place.directory.set_limit(USER, "ann", MAX_CONNECTIONS, 3)
    text = place.directory.make_token("ann", "ci", TokenScope(), now=place.now, expires_at=0)
    assert await place.log_in() is not None
    assert place.authenticator.allowed("ann", "/", "read", "q")
    place.directory.delete_users(["ann"])
    assert place.told[-1] == ({"ann"}, set())
    for now in (place, Place(place.catalogue)):
        assert await now.log_in() is None, "the remembered check is forgotten"
        assert await now.log_in(password=text) is None
        assert not now.authenticator.allowed("ann", "/", "read", "q")
        assert now.limits.of_user("ann", MAX_CONNECTIONS) == -1
    place.user()
    assert not place.authenticator.may_enter("ann", "/"), "a new user of that name has nothing of the old one"


async def test_a_changed_password_counts_at_once_and_ends_nothing(place: Place) -> None:
    place.user()
    assert await place.log_in() is not None
    place.directory.set_user("ann", (), password_hash=HASHER.hash("new"))
    assert await place.log_in() is None
    assert await place.log_in(password="new") is not None
    assert place.told == []


async def test_a_password_that_is_changed_while_it_is_checked_does_not_let_in(place: Place) -> None:
    place.user()
    authenticator = place.authenticator
    check = authenticator._verify

    def change_then_check(known_hash: str, password: str) -> bool:
        loop_work = lambda: place.directory.set_user("ann", (), password_hash=HASHER.hash("new"))  # noqa: E731
        changed.append(loop_work)
        return check(known_hash, password)

    changed: list[Callable[[], object]] = []
    authenticator._verify = change_then_check  # type: ignore[method-assign]
    remember = authenticator._remember

    def remembered(digest: bytes, verdict: bool) -> None:
        changed.pop()()
        remember(digest, verdict)

    authenticator._remember = remembered  # type: ignore[method-assign]
    assert await place.log_in() is None


async def test_tags_and_password_can_be_changed_alone(place: Place) -> None:
    place.user("ann", "management")
    place.directory.set_user("ann", ("monitoring",))
    user = await place.log_in()
    assert user is not None
    assert user.tags == {"monitoring"}


def test_withdrawn_permissions_are_told_and_widened_ones_are_not(place: Place) -> None:
    place.user()
    place.permit(expression="^q$")
    assert place.told == []
    place.permit(expression="^q$")
    assert place.told == [], "nothing has changed"
    assert place.authenticator.allowed("ann", "/", "write", "q")
    place.permit(expression="^r$")
    assert not place.authenticator.allowed("ann", "/", "write", "q"), "the remembered verdict is forgotten"
    place.directory.delete_permission("ann", "/")
    assert not place.authenticator.may_enter("ann", "/")
    assert place.told == [({"ann"}, set())] * 2


@pytest.mark.parametrize("change", ["tags", "delete", "password", "permission", "no permission"])
def test_a_user_of_the_file_is_changed_there_only(change: str) -> None:
    place = Place(boss=UserDeclaration(SECRET, ("administrator",), {"/": ALL}))
    directory = place.directory
    changes: dict[str, Callable[[], object]] = {
        "tags": lambda: directory.set_user("boss", ()),
        "password": lambda: directory.set_user("boss", ("administrator",), password_hash=SECRET),
        "delete": lambda: directory.delete_users(["boss"], force=True),
        "permission": lambda: place.permit("boss", "other"),
        "no permission": lambda: directory.delete_permission("boss", "/"),
    }
    with pytest.raises(PreconditionFailed, match=r"user 'boss' is declared in annulet\.toml; change it there"):
        changes[change]()
    assert Place(place.catalogue, boss=UserDeclaration(SECRET, ("administrator",), {"/": ALL})).directory.users()


def test_what_the_file_no_longer_names_is_revoked_and_the_rest_stays() -> None:
    boss = UserDeclaration(SECRET, ("administrator",), {"/": ALL, "other": ALL})
    place = Place(boss=boss, helper=UserDeclaration(SECRET, (), {"/": ALL}))
    place.user("ann")
    place.permit("ann")
    less = UserDeclaration(SECRET, ("administrator",), {"/": ALL})
    with structlog.testing.capture_logs() as logs:
        place.directory.reload_file({"boss": less})
    assert {user.name for user in place.directory.users()} == {"ann", "boss"}
    assert [(record.user, record.virtual_host) for record in place.directory.permissions()] == [
        ("ann", "/"),
        ("boss", "/"),
    ]
    assert place.told == [({"boss", "helper"}, set())]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == [
        "user revoked: the configuration file no longer names it",
        "permission revoked: the configuration file does not name it",
    ]
    place.directory.reload_file({"boss": less})
    assert len(place.told) == 1, "the same file takes nothing away"


def test_a_user_that_the_file_names_later_becomes_the_files() -> None:
    place = Place(boss=UserDeclaration(SECRET, ("administrator",)))
    place.user("ann")
    place.permit("ann")
    place.directory.reload_file(
        {"boss": UserDeclaration(SECRET, ("administrator",)), "ann": UserDeclaration(SECRET, ("monitoring",))}
    )
    assert place.directory.permissions() == [], "its permissions are the file's too"
    with pytest.raises(PreconditionFailed, match="declared in"):
        place.directory.set_user("ann", ())


async def test_guest_goes_for_good(place: Place) -> None:
    with pytest.raises(PreconditionFailed, match=r"'administrator' with a password would be left.*force"):
        place.directory.delete_users(["guest"])
    with pytest.raises(PreconditionFailed, match="would be left"):
        place.directory.set_user("guest", ("monitoring",))
    with pytest.raises(PreconditionFailed, match="would be left"):
        place.directory.set_user("guest", ("administrator",), password_hash="")
    place.user("ann", "administrator")
    place.directory.delete_users(["guest"])
    for now in (place, Place(place.catalogue)):
        assert await now.log_in("guest", "guest") is None
        assert now.authenticator.anonymous_user == ""


def test_the_last_user_may_go_by_force_and_no_start_makes_guest_again(place: Place) -> None:
    place.directory.delete_users(["guest"], force=True)
    with structlog.testing.capture_logs() as logs:
        assert Place(place.catalogue).directory.users() == []
    assert any(log["event"] == "there is no user: no client can log in" for log in logs)


async def test_an_anonymous_peer_is_guest_only_while_its_password_is_well_known(place: Place) -> None:
    assert place.authenticator.anonymous_user == "guest"
    place.directory.set_user("guest", ("administrator",), password_hash=SECRET)
    assert place.authenticator.anonymous_user == ""
    place.directory.set_user("guest", ("administrator",), password_hash=HASHER.hash("guest"))
    assert place.authenticator.anonymous_user == "guest"


def test_changes_together_are_all_or_none(place: Place) -> None:
    def change() -> None:
        with place.directory.together():
            place.user("ann")
            place.permit("ann")
            place.permit("missing")

    with pytest.raises(NotFound, match="no user 'missing'"):
        change()
    assert [user.name for user in place.directory.users()] == ["guest"]
    assert [user.name for user in place.catalogue.access.users()] == ["guest"]
    assert place.told == []
    assert not place.authenticator.may_enter("ann", "/")


def test_a_catalogue_that_refuses_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.user("ann")

    def refuse(*_: Any, **__: Any) -> None:
        raise CatalogueError("the disk is full")

    monkeypatch.setattr(place.catalogue.access, "delete_user", refuse)
    with pytest.raises(CatalogueError):
        place.directory.delete_users(["ann"])
    assert [user.name for user in place.directory.users()] == ["ann", "guest"]
    assert place.told == []


@pytest.mark.parametrize(
    ("name", "tags", "words"),
    [
        ("", (), "the name of a user is empty"),
        ("a" * (NAME_BYTES_MAX + 1), (), "more than 255 bytes"),
        ("a\nb", (), "line break"),
        ("ann", [f"t{number}" for number in range(TAGS_MAX + 1)], "33 tags, 32 are allowed"),
        ("ann", ["a\rb"], "line break"),
    ],
)
def test_wrong_users_are_refused_by_field(place: Place, name: str, tags: list[str], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        place.directory.set_user(name, tags, password_hash=SECRET)


def test_names_and_expressions_at_their_bounds(place: Place) -> None:
    place.user("a" * NAME_BYTES_MAX, *[f"t{number}" for number in range(TAGS_MAX)])
    place.permit("a" * NAME_BYTES_MAX, "/", "a" * EXPRESSION_CHARACTERS_MAX)
    with pytest.raises(InvalidArgument, match="4097 characters, 4096 are allowed"):
        place.permit("a" * NAME_BYTES_MAX, "/", "a" * (EXPRESSION_CHARACTERS_MAX + 1))
    with pytest.raises(InvalidArgument, match="'configure' is not a regular expression"):
        place.permit("guest", "/", "(")


def test_limits_are_durable_and_checked(place: Place) -> None:
    told: list[str] = []
    place.directory.on_limits = lambda: told.append("limits")
    place.user("ann")
    place.directory.set_limit(USER, "ann", MAX_CONNECTIONS, 5)
    place.directory.set_limit(VIRTUAL_HOST, "/", "max-queues", -5)
    assert Place(place.catalogue).limits.of_user("ann", MAX_CONNECTIONS) == 5
    assert place.directory.limits(VIRTUAL_HOST) == {"/": {"max-queues": -1}}
    place.directory.delete_limit(USER, "ann", MAX_CONNECTIONS)
    assert place.directory.limits(USER) == {}
    assert told == ["limits"] * 4, "with the new user"
    with pytest.raises(NotFound, match="user 'ann' has no limit 'max-connections'"):
        place.directory.delete_limit(USER, "ann", MAX_CONNECTIONS)
    with pytest.raises(NotFound, match="no user 'bob'"):
        place.directory.set_limit(USER, "bob", MAX_CONNECTIONS, 1)
    with pytest.raises(InvalidArgument, match="limit 'max-queues' is unknown; take one of max-connections"):
        place.directory.set_limit(USER, "ann", "max-queues", 1)


# ---------------------------------------------------------------------- tokens


async def test_a_token_takes_the_place_of_the_password(place: Place) -> None:
    place.user("ann", "management", "monitoring")
    text = place.directory.make_token("ann", "ci", TokenScope(tags=("monitoring",)), now=place.now, expires_at=0)
    assert text.startswith(TOKEN_PREFIX)
    for name in ("ann", ""):
        user = await place.log_in(name, text)
        assert user is not None
        assert (user.name, user.token, user.tags) == ("ann", "ci", {"monitoring"})
    assert await place.log_in("guest", text) is None, "it is not guest's"
    assert await place.log_in("ann", text + "x") is None
    assert await Place(place.catalogue).log_in("ann", text) is not None
    assert text not in str(place.catalogue.access.tokens()), "only its digest is stored"


async def test_a_token_of_a_loopback_user_is_for_loopback(place: Place) -> None:
    text = place.directory.make_token("guest", "ci", TokenScope(), now=place.now, expires_at=0)
    assert await place.log_in("guest", text) is not None
    assert await place.log_in("guest", text, REMOTE) is None


async def test_a_token_ends_by_its_time(place: Place) -> None:
    place.user("ann")
    text = place.directory.make_token("ann", "ci", TokenScope(), now=place.now, expires_at=place.now + 10)
    user = await place.log_in("ann", text)
    assert user is not None
    assert place.authenticator.current(user) == user
    place.told.clear()
    place.now += 9
    place.directory.tick(place.now)
    assert place.told == []
    place.now += 1
    assert place.authenticator.current(user) is None
    assert await place.log_in("ann", text) is None
    place.directory.tick(place.now)
    assert place.told == [(set(), {"ann"})]
    assert place.directory.tokens() == []
    place.directory.tick(place.now)
    assert len(place.told) == 1


async def test_another_token_of_the_same_name_ends_the_first(place: Place) -> None:
    place.user("ann")
    first = await place.log_in(
        "ann", place.directory.make_token("ann", "ci", TokenScope(), now=place.now, expires_at=0)
    )
    assert first is not None
    second = place.directory.make_token("ann", "ci", TokenScope(("read",)), now=place.now, expires_at=0)
    assert place.authenticator.current(first) is None
    assert await place.log_in("ann", second) is not None


async def test_a_token_that_was_taken_from_its_user_with_its_tag(place: Place) -> None:
    place.user("ann", "monitoring")
    text = place.directory.make_token("ann", "ci", TokenScope(tags=("monitoring",)), now=place.now, expires_at=0)
    place.directory.set_user("ann", ())
    user = await place.log_in("ann", text)
    assert user is not None
    assert user.tags == frozenset(), "it never has more than its user"


@pytest.mark.parametrize(
    ("scope", "expires_at", "words"),
    [
        (TokenScope(("look",)), 0, "operation 'look' is unknown; take some of configure, write, read, browse, manage"),
        (TokenScope(()), 0, "'operations' is empty"),
        (TokenScope(tags=("administrator",)), 0, "tag 'administrator' is none of user 'ann'; it has monitoring"),
        (TokenScope(), 5, "'expires_at' is 5, which is over"),
    ],
)
def test_wrong_tokens_are_refused(place: Place, scope: TokenScope, expires_at: int, words: str) -> None:
    place.user("ann", "monitoring")
    with pytest.raises(InvalidArgument, match=words):
        place.directory.make_token("ann", "ci", scope, now=place.now, expires_at=expires_at)


def test_a_user_has_so_many_tokens_at_most(place: Place) -> None:
    place.user("ann")
    for number in range(TOKENS_PER_USER_MAX):
        place.directory.make_token("ann", f"t{number}", TokenScope(), now=place.now, expires_at=0)
    place.directory.make_token("ann", "t0", TokenScope(), now=place.now, expires_at=0)  # in place of one
    with pytest.raises(PreconditionFailed, match="user 'ann' has 100 tokens, which is the limit"):
        place.directory.make_token("ann", "more", TokenScope(), now=place.now, expires_at=0)
