from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from annulet.broker.broker import Broker
from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.authentication import ACCESS_TOKEN, User
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.token_grants import TokenGrants
from annulet.broker.security.tokens import TokenScope, digest_of
from annulet.broker.security.web_sessions import (
    SESSION_IDLE_SECONDS,
    SESSION_SECONDS,
    SESSIONS_MAX,
    SESSIONS_PER_USER_MAX,
    WebSession,
    WebSessions,
)
from annulet.testing import VirtualClock, broker

HERE = PeerFacts("127.0.0.1", 1, is_loopback=True)
ELSEWHERE = PeerFacts("192.0.2.7", 1)
HOST = "localhost:8161"
ANN = User("ann", frozenset({"management"}))
GRANTS = TokenGrants(frozenset({"management"}), ())


@dataclass
class Room:
    broker: Broker
    clock: VirtualClock

    @property
    def sessions(self) -> WebSessions:
        return self.broker.web_sessions

    def begin(self, user: User = ANN) -> tuple[str, WebSession]:
        return self.sessions.begin(user, HOST)

    def find(self, text: str, host: str = HOST, peer: PeerFacts = HERE) -> WebSession | None:
        return self.sessions.find(text, host, peer)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    clock = VirtualClock()
    async with broker(clock=clock, http=False) as running:
        running.broker.access_directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
        yield Room(running.broker, clock)


def test_a_cookie_is_found_and_others_are_not(room: Room) -> None:
    text, session = room.begin()
    assert room.find(text) is session
    assert room.find("") is None
    assert room.find(text[:-1]) is None
    assert room.find("\ud800") is None
    assert text not in repr(session)
    assert text != room.begin()[0]


def test_another_name_of_the_broker_gets_nothing(room: Room) -> None:
    text, _ = room.begin()
    assert room.find(text, "rebound.example") is None
    assert room.find(text) is not None


def test_a_user_for_this_machine_uses_no_session_from_elsewhere(room: Room) -> None:
    guest = User("guest", frozenset({"administrator"}))
    text, _ = room.begin(guest)
    assert room.find(text, peer=ELSEWHERE) is None
    assert room.find(text) is not None
    text, _ = room.begin()
    assert room.find(text, peer=ELSEWHERE) is not None


def test_a_session_proves_with_its_own_text_only(room: Room) -> None:
    _, session = room.begin()
    assert session.proves(session.csrf)
    assert not session.proves("")
    assert not session.proves(room.begin()[1].csrf)
    assert not session.proves("\ud800")


def test_an_unused_session_ends(room: Room) -> None:
    text, _ = room.begin()
    room.clock.advance(SESSION_IDLE_SECONDS * 1000)
    assert room.find(text) is not None
    room.clock.advance(SESSION_IDLE_SECONDS * 1000 + 1)
    assert room.find(text) is None
    assert (len(room.sessions), room.sessions.expired) == (0, 1)


def test_a_session_in_use_ends_after_its_longest_life(room: Room) -> None:
    text, _ = room.begin()
    step = SESSION_IDLE_SECONDS * 1000
    for _ in range(SESSION_SECONDS * 1000 // step):
        room.clock.advance(step)
        assert room.find(text) is not None
    room.clock.advance(1)
    assert room.find(text) is None


def test_sessions_that_nobody_asks_for_are_forgotten_at_the_next_sign_in(room: Room) -> None:
    room.begin()
    room.clock.advance(SESSION_SECONDS * 1000 + 1)
    room.begin()
    assert (len(room.sessions), room.sessions.expired) == (1, 1)


def test_a_user_has_so_many_sessions_and_the_longest_unused_one_gives_way(room: Room) -> None:
    texts = [room.begin()[0] for _ in range(SESSIONS_PER_USER_MAX)]
    assert room.find(texts[0]) is not None  # used: the second is the longest unused
    last, _ = room.begin()
    assert [room.find(text) is not None for text in texts] == [True, False, *[True] * (SESSIONS_PER_USER_MAX - 2)]
    assert room.find(last) is not None
    assert room.sessions.displaced == 1


def test_ten_thousand_sign_ins_leave_as_many_sessions_as_the_bound(room: Room) -> None:
    first = ""
    for number in range(10_000):
        text, _ = room.begin(User(f"u{number // SESSIONS_PER_USER_MAX}", frozenset({"management"})))
        first = first or text
    assert len(room.sessions) == SESSIONS_MAX
    assert room.sessions.displaced == 10_000 - SESSIONS_MAX
    assert room.find(first) is None


def test_a_deleted_user_has_no_session(room: Room) -> None:
    text, _ = room.begin()
    room.broker.access_directory.delete_users(["ann"])
    assert (len(room.sessions), room.sessions.revoked) == (0, 1)
    room.broker.access_directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
    assert room.find(text) is None


def test_another_password_ends_sessions(room: Room) -> None:
    text, _ = room.begin()
    room.broker.access_directory.set_user("ann", ["management"])  # the same password
    assert room.find(text) is not None
    room.broker.access_directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))  # with another salt
    assert room.find(text) is None
    assert room.sessions.revoked == 1


@pytest.mark.parametrize("tags", [[], ["monitoring"], ["management", "monitoring"]])
def test_other_tags_end_sessions(room: Room, tags: list[str]) -> None:
    text, session = room.begin()
    room.broker.access_directory.set_user("ann", tags)
    assert not room.sessions.use(session)
    assert room.find(text) is None


def test_a_session_of_a_token_ends_with_it(room: Room) -> None:
    directory = room.broker.access_directory
    until = room.clock() + 1000
    scope = TokenScope(tags=("management",))
    made = [directory.make_token("ann", name, scope, now=room.clock(), expires_at=until) for name in "ab"]
    users = [
        User("ann", frozenset({"management"}), name, digest_of(text), scope)
        for name, text in zip("ab", made, strict=True)
    ]
    texts = [room.begin(user)[0] for user in users]
    assert all(room.find(text) for text in texts)
    directory.delete_token("ann", "a")
    assert [bool(room.find(text)) for text in texts] == [False, True]
    room.clock.advance(1001)
    assert room.find(texts[1]) is None


def test_ending_twice_is_harmless(room: Room) -> None:
    text, session = room.begin()
    room.sessions.end(session)
    room.sessions.end(session)
    room.sessions.end_text(text)
    assert not room.sessions.is_live(session)
    assert room.find(text) is None


async def test_a_session_of_an_access_token_ends_with_it(room: Room) -> None:
    until = room.clock() + 60_000
    user = User("alice", frozenset({"management"}), ACCESS_TOKEN, "digest", None, GRANTS, until)
    text, session = room.begin(user)
    assert room.find(text, peer=ELSEWHERE) is session
    room.clock.advance(60_000)
    assert room.find(text) is None
    assert room.sessions.revoked == 1
