"""Why a consumer gets nothing: every obstacle named with its values, and never at odds with dispatch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.management.why_not import LOOKS_MAX, Obstacle, WhyNot, why_not
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from annulet.core.queue.returning import return_many
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, queue_of, send
from tests.residency.doubles import Disk, durable_queue, pages_of


def ask(queue: Queue, session: RecordingSession, tag: str = "c", now: int = NOW) -> WhyNot:
    return why_not(queue, session.consumers[tag], now)


def put(queue: Queue, body: str = "m", now: int = NOW, **properties: Any) -> int:
    return queue.enqueue(make_message(body, **properties), now).sequence


@pytest.fixture
def session():
    return RecordingSession("s")


# ------------------------------------------------------------------ nothing to have


def test_nothing_pending_says_what_is_elsewhere(session):
    queue, other = queue_of(), RecordingSession()
    session.consume(queue, messages=0)
    assert ask(queue, session).text == "nothing is pending in queue 'q'"
    other.consume(queue)
    put(queue)
    put(queue, deliver_at=NOW + 70)
    answer = ask(queue, session)
    assert [finding.obstacle for finding in answer.findings] == [Obstacle.NOTHING_PENDING, Obstacle.NO_CREDIT]
    assert answer.text == (
        "nothing is pending in queue 'q'; 1 messages are in delivery; 1 are scheduled, "
        f"the next for {NOW + 70} (ms since 1970)"
    )
    assert (answer.sequence, answer.pending) == (0, 0)


def test_a_disk_that_refuses_is_named_and_not_an_empty_queue(session):
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    for number in range(20):
        message = make_message(f"{number}")
        disk.store(queue, message, queue.next_sequence)
        queue.enqueue(message, NOW)
    order = paged_order_of(queue, pages)
    order.keep_messages = 0
    assert order.page_out(1 << 60, 100) == 20
    disk.failing = True
    session.consume(queue, messages=1)
    answer = ask(queue, session)
    assert (answer.obstacle, answer.deliverable) == (Obstacle.UNREADABLE, False)
    assert "next of 20 messages of queue 'q'" in answer.text
    disk.failing = False
    pages.retry()
    queue.wake(NOW)
    assert session.received == ["0"]
    assert ask(queue, session).obstacle is Obstacle.NO_CREDIT


def test_what_has_expired_is_as_good_as_gone(session):
    queue = queue_of()
    queue.pause(NOW)
    session.consume(queue)
    put(queue, expires_at=NOW + 5)
    assert ask(queue, session).obstacle is Obstacle.PAUSED
    assert ask(queue, session, now=NOW + 5).obstacle is Obstacle.NOTHING_PENDING


def test_a_browser_has_seen_everything(session):
    queue = queue_of()
    put(queue)
    session.consume(queue, browse="follow")
    assert ask(queue, session).obstacle is Obstacle.EVERYTHING_SEEN
    assert "has seen all 1 messages" in ask(queue, session).text


def test_who_is_gone_gets_nothing(session):
    queue = queue_of()
    consumer = session.consume(queue)
    session.detach("c", NOW)
    assert why_not(queue, consumer, NOW).text == "consumer 'c' of session 's' was cancelled"
    consumer = session.consume(queue)
    queue.delete(NOW)
    assert why_not(queue, consumer, NOW).obstacle is Obstacle.NOT_ATTACHED


def test_a_consumer_of_another_queue_is_a_mistake(session):
    consumer = session.consume(queue_of())
    with pytest.raises(InvalidArgument, match="consumes from queue 'q', not from 'q'"):
        why_not(queue_of(), consumer, NOW)


# ------------------------------------------------------------------ the queue


def test_a_paused_queue_serves_browsers_only(session):
    queue = queue_of()
    queue.pause(NOW)
    session.consume(queue)
    session.consume(queue, "b", browse="follow", messages=0)
    first = put(queue)
    answer = ask(queue, session)
    assert (answer.obstacle, answer.sequence, answer.deliverable) == (Obstacle.PAUSED, first, False)
    assert ask(queue, session, "b").obstacle is Obstacle.NO_CREDIT


def test_a_gate_waits_for_consumers_or_its_time(session):
    queue = queue_of(consumers_before_dispatch=3, delay_before_dispatch=50)
    put(queue)
    session.consume(queue)
    assert ask(queue, session).text == (
        f"1 of 3 consumers are there (consumers-before-dispatch); dispatch begins at {NOW + 50} (ms since 1970) "
        "in any case"
    )
    assert ask(queue, session, now=NOW + 50).deliverable
    queue.tick(NOW + 50)
    assert session.received == ["m"]


def test_a_gate_without_a_time(session):
    queue = queue_of(consumers_before_dispatch=2)
    put(queue)
    session.consume(queue)
    assert ask(queue, session).text == "1 of 2 consumers are there (consumers-before-dispatch); attach more"


def test_a_gate_does_not_open_again_while_messages_are_in_delivery(session):
    queue, other = queue_of(consumers_before_dispatch=1), RecordingSession()
    put(queue)
    other.get(queue, NOW, auto_acknowledge=False)
    queue = queue_of(consumers_before_dispatch=2)
    for tag in "ab":
        other.consume(queue, tag, messages=1)
    put(queue)
    other.detach("a", NOW)
    other.detach("b", NOW)
    session.consume(queue)
    session.consume(queue, "d")
    put(queue)
    assert ask(queue, session).text == "dispatch begins again when the 1 messages in delivery are settled or back"
    assert ask(queue, session).obstacle is Obstacle.GATE_SHUT


def test_a_rebalance_waits_for_what_is_in_delivery(session):
    queue = queue_of(group_mode="sticky", group_key="g", group_rebalance=True, group_rebalance_pause=True)
    other = RecordingSession()
    other.consume(queue, messages=1)
    put(queue, g="a")
    session.consume(queue)
    put(queue, g="b")
    answer = ask(queue, session)
    assert answer.obstacle is Obstacle.REBALANCING
    assert "the 1 messages in delivery" in answer.text


@pytest.mark.parametrize("expires", [False, True])
def test_very_many_on_their_way_come_first(session, expires):
    effects = SlicingEffects()
    queue = queue_of(effects)
    session.consume(queue, messages=0)
    put(queue)
    if expires:
        queue.expire_later(NOW)
    else:
        return_many(queue, [*queue.acquire(1, -1, NOW), *send(queue, "other")], NOW, 1, counted=True)
    answer = ask(queue, session)
    assert answer.obstacle is Obstacle.IN_SLICES
    assert ("expired are removed" if expires else "come back from delivery") in answer.text
    effects.turns()
    assert ask(queue, session).obstacle is Obstacle.NO_CREDIT


def test_a_cap_of_the_queue(session):
    queue = queue_of(in_flight_max=1)
    session.consume(queue)
    put(queue)
    put(queue)
    assert ask(queue, session).text == "1 messages are in delivery and in-flight-max is 1"
    assert ask(queue, session).obstacle is Obstacle.QUEUE_CAPPED


# ------------------------------------------------------------------ the consumer


def test_not_the_active_consumer(session):
    queue, other = queue_of(single_active_consumer=True), RecordingSession("o")
    other.consume(queue, "first", messages=1)
    session.consume(queue)
    put(queue)
    put(queue)
    assert ask(queue, session).text == "only 1 is served at a time, now consumer 'first' of session 'o'"
    other.detach("first", NOW)
    assert ask(queue, session).obstacle is Obstacle.FORMER_HOLDS
    assert "consumer 'first' of session 'o' is gone but holds 1 deliveries" in ask(queue, session).text
    queue.acknowledge(other.unacknowledged.pop(1))
    assert ask(queue, session).deliverable
    queue.wake(NOW)
    assert session.received == ["m"]


def test_credit_in_messages(session):
    queue = queue_of()
    session.consume(queue, messages=1)
    session.window.messages_max = 1
    session.writable = True
    put(queue)
    second = put(queue)
    answer = ask(queue, session)
    assert [finding.obstacle for finding in answer.findings] == [Obstacle.NO_CREDIT, Obstacle.NO_SESSION_CREDIT]
    assert str(answer).splitlines() == [
        "consumer 'c' of session 's' holds 1 messages and may hold 1", "session 's' holds 1 messages and may hold 1"
    ]  # fmt: skip
    assert answer.sequence == second


def test_a_connection_without_room(session):
    queue = queue_of()
    session.writable = False
    session.consume(queue, auto_acknowledge=True)
    put(queue)
    assert ask(queue, session).obstacle is Obstacle.NOT_WRITABLE


@pytest.mark.parametrize(("shared", "owner"), [(False, "consumer 'c' of session 's'"), (True, "session 's'")])
def test_credit_in_bytes(session, shared, owner):
    queue = queue_of()
    session.consume(queue, octets=-1 if shared else 5)
    session.window.bytes_max = 5 if shared else -1
    put(queue, "aaaa")
    put(queue, "bb")
    put(queue, "c")
    answer = ask(queue, session)
    assert (answer.obstacle, answer.sequence) == (Obstacle.TOO_LARGE, 2)
    assert answer.text == f"message 2 has 2 bytes; {owner} holds 4 bytes and may hold 5"


# ------------------------------------------------------------------ the message


def test_a_selector_is_explained(session):
    queue = queue_of()
    session.consume(queue, selector="n > 5 AND color = 'red'")
    put(queue, n=7, color="blue")
    put(queue, n=1)
    answer = ask(queue, session)
    assert (answer.obstacle, answer.sequence, answer.looked) == (Obstacle.SELECTOR, 1, 2)
    assert answer.text == "message 1 does not match the selector n > 5 AND color = 'red'"
    assert "  n > 5: true" in answer.findings[0].details
    assert "\n    color = 'red': false" in str(answer)
    assert queue.matchers.evaluations == 2  # it remembers and asks nothing on the queue's account


def test_no_local_replay_and_refusal(session):
    queue, mine = queue_of(), object()
    session.connection_identity = mine
    session.consume(queue, no_local=True)
    put(queue, connection=mine)
    assert ask(queue, session).obstacle is Obstacle.NO_LOCAL
    late = RecordingSession()
    late.consume(queue, replay_period=0)
    assert ask(queue, late).text == f"message 1 was accepted at {NOW}, before the replay period"
    assert ask(queue, late).obstacle is Obstacle.REPLAY
    queue, other = queue_of(), RecordingSession("o")
    consumer = other.consume(queue)
    put(queue)
    queue.return_entries([other.unacknowledged.pop(1)], NOW, exclude=consumer)
    assert ask(queue, other).text == "consumer 'c' of session 'o' refused message 1 for itself"


def test_a_candidate_counts_for_more_than_what_the_consumer_does_not_want(session):
    queue, other = queue_of(group_mode="sticky", group_key="g"), RecordingSession("o")
    other.consume(queue, messages=1)
    put(queue, g="a", k=1)
    put(queue, g="b", k=2)
    session.consume(queue, selector="k = 1", messages=0)
    put(queue, g="a", k=1)
    session.consumers["c"].window.messages_max = 5
    queue.wake(NOW)
    answer = ask(queue, session)
    assert (answer.obstacle, answer.sequence) == (Obstacle.GROUP_OWNED, 3)
    assert answer.text == "message 3 is of group 'a', which consumer 'c' of session 'o' has"


def test_a_parked_group_waits_for_the_deliveries_of_who_left(session):
    queue, other = queue_of(group_mode="sticky", group_key="g"), RecordingSession("o")
    other.consume(queue, "gone")
    put(queue, g="a")
    other.detach("gone", NOW)
    session.consume(queue)
    put(queue, g="a")
    answer = ask(queue, session)
    assert answer.obstacle is Obstacle.GROUP_PARKED
    assert answer.text == (
        "message 2 is of group 'a', of which 1 are in delivery with consumer 'gone' of session 'o', which is gone"
    )
    pulled = queue_of(group_mode="shared", group_key="g")
    put(pulled, g="a")
    other.get(pulled, NOW, auto_acknowledge=False)
    session.consume(pulled, "p")
    put(pulled, g="a")
    assert ask(pulled, session, "p").text.endswith("of which 1 are in delivery with who pulled them")


def test_a_cap_of_a_key(session):
    queue = queue_of(fair_key="k", in_flight_per_key=1)
    session.consume(queue)
    put(queue, k="a")
    put(queue, k="a")
    put(queue)
    put(queue)
    answer = ask(queue, session)
    assert answer.obstacle is Obstacle.KEY_CAPPED
    assert answer.text.startswith("message 2 is of key 'a', of which 1 are in delivery and in-flight-per-key is 1")
    queue.acknowledge(session.unacknowledged.pop(1))
    queue.wake(NOW)
    assert ask(queue, session).text.startswith("message 4 is of no key, of which 1")


def test_what_a_consumer_waits_for_is_named_behind_what_it_cannot_have(session):
    queue, other = queue_of(group_mode="sticky", group_key="g"), RecordingSession("o")
    other.consume(queue, messages=1)
    put(queue, g="a")
    session.consume(queue, octets=5)
    put(queue, "xxxx")
    put(queue, g="a")
    put(queue, "yy")
    answer = ask(queue, session)
    assert [(finding.obstacle, finding.sequence) for finding in answer.findings] == [
        (Obstacle.GROUP_OWNED, 3), (Obstacle.TOO_LARGE, 4)
    ]  # fmt: skip


def test_a_look_is_bounded(session):
    queue = queue_of()
    session.consume(queue, selector="n = 1")
    for _ in range(LOOKS_MAX + 1):
        put(queue)
    answer = ask(queue, session)
    assert (answer.looked, answer.pending) == (LOOKS_MAX, LOOKS_MAX + 1)
    assert answer.text.endswith(f"; {LOOKS_MAX} of {LOOKS_MAX + 1} messages were looked at")


def test_deliverable_before_the_settlements_of_a_turn_are_in(session):
    queue = queue_of()
    session.consume(queue, messages=1)
    send(queue, "a", "b")
    queue.acknowledge(session.unacknowledged.pop(1))
    assert ask(queue, session).text == "message 2 can be delivered now"
    queue.wake(NOW)
    assert session.received == ["a", "b"]


# ------------------------------------------------------------------ agreement with dispatch

COMPOSITIONS: list[dict[str, Any]] = [
    {},
    {"priorities": 3},
    {"sort_key": "n"},
    {"ring_size": 3},
    {"in_flight_max": 2},
    {"single_active_consumer": True},
    {"live_consumers_max": 2},
    {"consumers_before_dispatch": 2, "delay_before_dispatch": 3},
    {"group_mode": "sticky", "group_key": "g"},
    {"group_mode": "sticky", "group_key": "g", "group_rebalance": True, "group_rebalance_pause": True},
    {"group_mode": "shared", "group_key": "g", "in_flight_max": 3},
    {"group_mode": "sticky", "group_key": "g", "single_active_consumer": True},
    {"fair_key": "g"},
    {"fair_key": "g", "in_flight_per_key": 1},
    {"fair_key": "g", "fair_quantum": 4, "in_flight_max": 3, "priorities": 3},
    {"non_destructive": True},
    {"non_destructive": True, "single_active_consumer": True},
    {"redelivery_delay": 2, "max_delivery_attempts": 2},
    {"message_ttl": 3},
    {"no_local": True, "last_value_key": "g"},
    {"fair_key": "g", "in_flight_per_key": 2, "sort_key": "n"},
    {"group_mode": "sticky", "group_key": "g", "in_flight_max": 2, "ring_size": 4},
]

CONSUMERS: list[dict[str, Any]] = [
    {"messages": 1},
    {"messages": 2, "selector": "n > 1"},
    {"octets": 4},
    {"octets": 4, "selector": "n < 3"},
    {"messages": 1, "priority": 1},
    {"auto_acknowledge": True, "selector": "n = 2"},
    {"messages": 2, "browse": "follow"},
    {"octets": 3, "browse": "snapshot", "selector": "n > 0"},
]

COMMANDS = (
    *("send",) * 6, "attach", "attach", "detach", "ack", "ack", "requeue", "refuse", "drop", "close", "get", "time",
    "pause", "resume", "writable", "reset",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(COMMANDS), st.integers(0, 1000)), max_size=25)


class Play:
    """A queue and two sessions that do as they are told, asked after each step."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.queue = queue_of(**settings)
        self.sessions = [RecordingSession("0"), RecordingSession("1")]
        self.sessions[0].connection_identity = self
        self.now = NOW
        self.tags = 0

    def step(self, command: str, number: int) -> None:
        queue, now = self.queue, self.now
        session = self.sessions[number % 2]
        number //= 2
        held = list(session.unacknowledged)
        tags = list(session.consumers)
        if command == "send":
            body, group = "m" * (number % 5), "abc"[number % 3]
            origin = self if number % 4 == 0 else None
            deliver_at = now + 2 if number % 7 == 0 else 0
            message = make_message(
                body,
                accepted_at=now,
                deliver_at=deliver_at,
                priority=number % 9,
                connection=origin,
                n=number % 4,
                g=group,
            )
            queue.enqueue(message, now)
        elif command == "attach" and len(tags) < 3:
            self.tags += 1
            session.consume(queue, f"c{self.tags}", now=now, **CONSUMERS[number % len(CONSUMERS)])
        elif command == "detach" and tags:
            session.detach(tags[number % len(tags)], now)
        elif command == "close":
            for tag in tags[:1]:
                session.close_consumer(tag, now)
        elif command == "get":
            session.get(queue, now, auto_acknowledge=number % 2 == 0)
        elif command in ("ack", "requeue", "drop", "refuse") and held:
            self.settle(command, session, held[number % len(held)])
        elif command == "time":
            self.now += 1 + number % 3
            queue.tick(self.now)
        elif command in ("pause", "resume"):
            (queue.pause if command == "pause" else queue.resume)(now)
        elif command == "writable":
            session.writable = not session.writable
            session.wake(now)
        elif command == "reset":
            queue.reset_groups(now)

    def settle(self, command: str, session: RecordingSession, tag: int) -> None:
        if command == "ack":
            session.acknowledge(tag, self.now)
        elif command == "refuse":
            entry = session.unacknowledged[tag]
            consumer = entry.consumer
            (taken,) = session.take(tag, multiple=False)
            self.queue.return_entries([taken], self.now, exclude=consumer)
            session.wake(self.now)
        else:
            session.reject(tag, self.now, requeue=command == "requeue")

    def answers(self) -> list[WhyNot]:
        return [why_not(self.queue, consumer, self.now) for consumer in self.queue.consumers]

    def delivered(self) -> int:
        return sum(len(session.received) for session in self.sessions)


@pytest.mark.parametrize("settings", COMPOSITIONS, ids=lambda settings: "-".join(settings) or "fifo")
@given(steps=STEPS)
def test_after_every_call_nothing_deliverable_waits(settings, steps):
    play = Play(settings)
    for command, number in steps:
        play.step(command, number)
        for answer in play.answers():
            assert not answer.deliverable, (command, number, str(answer))
        before = play.delivered()
        play.queue.wake(play.now)
        assert play.delivered() == before, "dispatch agrees that nothing can be delivered"


@pytest.mark.parametrize("settings", COMPOSITIONS, ids=lambda settings: "-".join(settings) or "fifo")
@given(steps=STEPS)
def test_what_is_called_deliverable_is_delivered(settings, steps):
    """Settlements are given to the queue without the call that serves: then it may have something to deliver."""
    play = Play(settings)
    for command, number in steps:
        play.step(command, number)
        session = play.sessions[number % 2]
        for tag in list(session.unacknowledged)[: number % 3]:
            play.queue.acknowledge(session.unacknowledged.pop(tag))
        deliverable = any(answer.deliverable for answer in play.answers())
        before = play.delivered()
        play.queue.wake(play.now)
        assert (play.delivered() > before) is deliverable
