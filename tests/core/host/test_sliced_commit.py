"""Very large commits: in slices, with nothing to be seen of them before all is done, and all or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from annulet.core.base.errors import LimitExceeded, TransactionRefused, TransactionTooLarge
from annulet.core.host.sliced_commit import (
    COMMIT_AT_ONCE_MAX,
    SLICE_OPERATIONS,
    CommitWaiter,
    commit_in_turns,
    publish_in_turns,
)
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message
from annulet.core.model.entry import QueueEntry
from annulet.core.model.queue_state import QueueState
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, pending

MANY = COMMIT_AT_ONCE_MAX + 1


class Waiter(CommitWaiter):
    def __init__(self) -> None:
        self.unroutable: list[Message] | None = None
        self.error: Exception | None = None

    def committed(self, unroutable: list[Message]) -> None:
        self.unroutable = unroutable

    def commit_failed(self, error: Exception) -> None:
        self.error = error


class BracketedEffects(SlicingEffects):
    """Notes what is stored within the transaction; refuses to store a message when ``left`` have been."""

    def __init__(self, left: int = -1) -> None:
        super().__init__()
        self.left = left
        self.inside: list[bytes] = []
        self._transaction = 0

    def begin_transaction(self) -> None:
        super().begin_transaction()
        self._transaction = 1

    def end_transaction(self) -> None:
        super().end_transaction()
        self._transaction = 0

    def abort_transaction(self) -> None:
        assert self._transaction, "it was suspended"
        self.calls.append(("abort", None))
        self._transaction = 0

    def bracketed(self) -> bool:
        return self._transaction != 0

    def suspend_transaction(self) -> int:
        transaction, self._transaction = self._transaction, 0
        return transaction

    def resume_transaction(self, transaction: int) -> None:
        assert not self._transaction
        self._transaction = transaction

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        if self.left == 0:
            raise OSError("the disk is full")
        self.left -= 1
        if self._transaction:
            self.inside.append(bytes(message.body))
        super().store(message, entries)


class Scene:
    """A virtual host with one queue, and a transaction."""

    def __init__(self, effects: SlicingEffects | None = None, **arguments: Any) -> None:
        self.effects = SlicingEffects() if effects is None else effects
        self.host = VirtualHost("/", self.effects)
        self.queue = self.declare("q", **arguments)
        self.session = RecordingSession()
        self.transaction = Transaction(self.session)
        self.waiter = Waiter()

    def declare(self, name: str, **arguments: Any) -> Queue:
        return self.host.declare_queue(name, now=NOW, durable=True, **arguments)

    def publish(self, body: str, queue: str = "q") -> int:
        return self.host.publisher.publish(make_message(body, durable=True), self.host.route("", queue), NOW)

    def send(self, count: int, queue: str = "q") -> list[str]:
        bodies = [str(number) for number in range(count)]
        for body in bodies:
            self.transaction.send(make_message(body, durable=True), self.host.route("", queue))
        return bodies

    def hold(self, count: int, session: Session | None = None) -> None:
        """Let the session hold so many deliveries."""
        for number in range(count):
            self.publish(f"held {number}")
        self.session.consume(self.queue, messages=count)
        assert len(self.queue.delivering) == count

    def commit(self, most: int = 0) -> list[Message] | None:
        return commit_in_turns(self.transaction, self.host, NOW, self.waiter, operations_max=most)

    def told(self, *kinds: str) -> list[str]:
        return [kind for kind, _ in self.effects.calls if kind in kinds]


def test_a_commit_at_the_bound_is_done_in_the_call():
    scene = Scene()
    bodies = scene.send(COMMIT_AT_ONCE_MAX)
    assert scene.commit() == []
    assert scene.effects.works == []
    assert pending(scene.queue) == bodies


def test_a_larger_one_is_done_in_slices_and_seen_when_all_is_done():
    scene = Scene()
    reader = RecordingSession()
    reader.consume(scene.queue)
    bodies = scene.send(MANY)
    assert scene.commit() is None
    while scene.waiter.unroutable is None:
        assert reader.received == []
        assert scene.queue.shown_count() == 0
        before = scene.queue.counters.messages_added
        scene.effects.turn()
        assert scene.queue.counters.messages_added - before <= SLICE_OPERATIONS
    assert reader.received == bodies
    assert scene.told("begin", "end", "abort") == ["begin", "end"]
    assert scene.told("store") == ["store"] * MANY
    check_invariants(scene.queue)


def test_settlements_take_effect_with_the_sends():
    scene = Scene()
    scene.hold(4 * MANY)
    dead = scene.declare("dead")
    scene.send(MANY, "dead")
    scene.transaction.acknowledge(MANY, multiple=True)
    scene.transaction.reject(2 * MANY, requeue=True, multiple=True)
    scene.transaction.reject(3 * MANY, requeue=False, multiple=True)
    for tag in range(3 * MANY + 1, 4 * MANY + 1):
        scene.transaction.give_back(tag, counted=False)
    scene.session.detach(next(iter(scene.session.consumers)), NOW)
    assert scene.commit() is None
    scene.effects.turn()
    assert len(scene.queue.delivering) == 4 * MANY
    scene.effects.turns()
    assert scene.waiter.unroutable == []
    assert not scene.queue.delivering
    back = [*range(MANY, 2 * MANY), *range(3 * MANY, 4 * MANY)]
    assert pending(scene.queue) == [f"held {number}" for number in back]
    assert dead.order.count == MANY
    check_invariants(scene.queue)


def test_what_others_publish_meanwhile_stands_behind_and_is_not_of_the_transaction():
    effects = BracketedEffects()
    scene = Scene(effects)
    bodies = scene.send(MANY)
    scene.commit()
    for _ in range(5):
        scene.effects.turn()
    scene.publish("other")
    assert scene.told("begin", "end") == ["begin"]
    scene.effects.turns()
    assert [body for body in pending(scene.queue) if body != "other"] == bodies
    assert effects.inside == [body.encode() for body in bodies]


def test_commits_are_filled_one_after_the_other():
    scene = Scene()
    first = scene.send(MANY)
    scene.commit()
    second, waiter = Transaction(scene.session), Waiter()
    for number in range(MANY):
        second.send(make_message(f"second {number}", durable=True), scene.host.route("", "q"))
    assert commit_in_turns(second, scene.host, NOW, waiter, operations_max=0) is None
    scene.effects.turns()
    assert (scene.waiter.unroutable, waiter.unroutable) == ([], [])
    assert pending(scene.queue) == [*first, *[f"second {number}" for number in range(MANY)]]


def test_a_refusal_of_one_send_leaves_nothing_and_the_deliveries_unsettled():
    scene = Scene(arguments={"x-max-length": MANY - 1, "x-overflow": "reject-publish"})
    scene.hold(1)
    scene.send(MANY)
    scene.transaction.acknowledge(1)
    assert scene.commit() is None
    scene.effects.turns()
    assert isinstance(scene.waiter.error, TransactionRefused)
    assert (scene.queue.order.count, list(scene.session.unacknowledged)) == (0, [1])
    assert scene.told("begin") == []


def test_too_many_operations_are_refused():
    scene = Scene()
    scene.send(MANY)
    with pytest.raises(TransactionTooLarge, match=f"{MANY} sends and settlements"):
        scene.commit(MANY - 1)
    assert scene.effects.works == []
    for number in range(MANY):
        scene.host.bind_queue(scene.declare(f"q{number}"), "amq.fanout", "")
    scene.transaction.send(make_message("x"), scene.host.route("amq.fanout", ""))
    with pytest.raises(TransactionTooLarge):
        scene.commit(MANY - 1)
    assert scene.commit(MANY) == []  # what was refused is forgotten


@pytest.mark.parametrize("closed", [False, True])
def test_a_commit_that_cannot_be_stored_is_taken_back(closed: bool):
    scene = Scene(BracketedEffects(MANY))
    scene.declare("other")
    scene.publish("held")
    scene.session.consume(scene.queue, messages=1)
    scene.send(MANY, "other")
    scene.transaction.acknowledge(1)
    scene.commit()
    scene.effects.turn()
    if closed:
        scene.session.close(NOW)
    scene.effects.turns()
    assert isinstance(scene.waiter.error, OSError)
    assert scene.told("begin", "end", "abort") == ["begin", "abort"]
    assert pending(scene.host.queues["other"]) == []
    if closed:
        assert pending(scene.queue) == ["held"]
    else:
        assert list(scene.session.unacknowledged) == [1]
    check_invariants(scene.host.queues["other"])


def wide(scene: Scene, count: int) -> list[Queue]:
    queues = [scene.declare(f"q{number}") for number in range(count)]
    for queue in queues:
        scene.host.bind_queue(queue, "amq.fanout", "")
    return queues


@pytest.mark.parametrize("duplicate_id", ["", "id"])
def test_one_message_to_very_many_queues_enters_them_in_slices_and_is_stored_once(duplicate_id: str):
    scene = Scene()
    queues = wide(scene, MANY)
    scene.transaction.send(
        make_message("x", durable=True), scene.host.route("amq.fanout", ""), duplicate_id=duplicate_id
    )
    assert publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter) == -1
    while scene.waiter.unroutable is None:
        assert sum(queue.shown_count() for queue in queues) == 0
        before = sum(queue.counters.messages_added for queue in queues)
        scene.effects.turn()
        assert sum(queue.counters.messages_added for queue in queues) - before <= SLICE_OPERATIONS
    scene.effects.turns()
    assert sum(queue.shown_count() for queue in queues) == MANY
    assert scene.told("store") == ["store"]
    if duplicate_id:
        scene.transaction.send(make_message("x"), scene.host.route("amq.fanout", ""), duplicate_id=duplicate_id)
        publish_in_turns(scene.transaction, scene.host, NOW, Waiter())
        scene.effects.turns()
        assert scene.host.publisher.duplicates_dropped == 1


def test_one_message_to_few_is_published_at_once():
    scene = Scene()
    wide(scene, 3)
    scene.transaction.send(make_message("x"), scene.host.route("amq.fanout", ""))
    assert publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter) == 3
    scene.transaction.send(make_message("x"), scene.host.route("", "nowhere"))
    assert publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter) == 0
    full = scene.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    scene.transaction.send(make_message("x"), scene.host.route("", full.name))
    with pytest.raises(LimitExceeded):
        publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter)


def test_a_queue_that_is_deleted_meanwhile_gets_nothing():
    scene = Scene()
    queues = wide(scene, MANY)
    scene.transaction.send(make_message("x", durable=True), scene.host.route("amq.fanout", ""))
    publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter)
    for _ in range(3):
        scene.effects.turn()
    scene.host.delete_queue(queues[0], NOW)
    scene.host.delete_queue(queues[-1], NOW)
    scene.effects.turns()
    assert scene.waiter.unroutable == []
    assert sum(queue.shown_count() for queue in queues) == MANY - 2


def test_an_address_does_not_count_queues_that_are_deleted_before_the_message_reaches_them():
    """Otherwise the message would be counted for good: at last the address would refuse all."""
    scene = Scene()
    scene.host.address_settings.set("amq.fanout", {"max-size-messages": 1, "address-full-policy": "fail"})
    queues = wide(scene, MANY)
    scene.transaction.send(make_message("x", durable=True), scene.host.route("amq.fanout", ""))
    publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter)
    for _ in range(3):
        scene.effects.turn()
    scene.host.delete_queue(queues[0], NOW)
    scene.host.delete_queue(queues[-1], NOW)
    scene.effects.turns()
    account = scene.host.accounts.by_address["amq.fanout"]
    assert account.messages == 1
    for queue in queues[1:-1]:
        queue.purge(NOW)
    scene.effects.turns()
    assert account.messages == 0


def test_a_commit_that_is_taken_back_is_neither_counted_nor_a_duplicate_when_it_is_repeated():
    """The client is told that nothing was done: as duplicates its messages would be lost."""
    effects = BracketedEffects(MANY)
    scene = Scene(effects)
    for address in ("q", "amq.fanout"):
        scene.host.address_settings.set(address, {"max-size-messages": 2 * MANY, "address-full-policy": "fail"})
    queues = wide(scene, MANY)

    def send() -> None:
        for number in range(MANY):
            scene.transaction.send(make_message("x", durable=True), scene.host.route("", "q"), duplicate_id=str(number))
        scene.transaction.send(make_message("y", durable=True), scene.host.route("amq.fanout", ""), duplicate_id="y")
        assert scene.commit() is None
        effects.turns()

    send()
    assert isinstance(scene.waiter.error, OSError)
    assert [account.messages for account in scene.host.accounts.by_address.values()] == [0, 0]
    assert scene.host.publisher.duplicates.count("q") == 0
    effects.left = -1
    send()
    assert scene.waiter.unroutable == []
    assert scene.queue.order.count == MANY
    assert sum(queue.shown_count() for queue in queues) == MANY


def test_a_commit_that_fails_among_the_queues_of_a_message_is_not_counted():
    """The queues which the message did not reach would be counted for good."""
    scene = Scene(BracketedEffects())
    scene.host.address_settings.set("amq.fanout", {"max-size-messages": 9, "address-full-policy": "fail"})
    queues = wide(scene, MANY)
    scene.transaction.send(make_message("x", durable=True), scene.host.route("amq.fanout", ""))
    publish_in_turns(scene.transaction, scene.host, NOW, scene.waiter)
    for _ in range(3):
        scene.effects.turn()
    scene.effects.works.pop().abandon(NOW)
    scene.effects.turns()
    assert isinstance(scene.waiter.error, RuntimeError)
    assert scene.told("begin", "end", "abort") == ["begin", "abort"]
    assert not scene.effects.bracketed()
    assert sum(queue.order.count for queue in queues) == 0
    assert scene.host.accounts.by_address["amq.fanout"].messages == 0


class RefusesTheEnd(BracketedEffects):
    """A log that has no room for the record of the commit, or whose disk fails there."""

    def end_transaction(self) -> None:
        self._transaction = 0  # it is aborted
        raise OSError("input/output error")


def test_a_large_commit_that_the_log_refuses_at_its_end_leaves_nothing() -> None:
    scene = Scene(RefusesTheEnd())
    reader = RecordingSession()
    reader.consume(scene.queue)
    scene.send(MANY)
    assert scene.commit() is None
    scene.effects.turns()
    assert str(scene.waiter.error) == "input/output error"
    assert (reader.received, pending(scene.queue), scene.queue.counters.messages_added) == ([], [], 0)
    scene.publish("next")
    assert reader.received == ["next"]
    check_invariants(scene.queue)


def test_a_small_commit_does_not_wait_for_a_large_one():
    scene = Scene()
    reader = RecordingSession()
    reader.consume(scene.declare("other"))
    scene.send(MANY)
    assert scene.commit() is None
    scene.effects.turn()
    scene.effects.turn()
    second = Transaction(RecordingSession())
    second.send(make_message("small", durable=True), scene.host.route("", "other"))
    assert commit_in_turns(second, scene.host, NOW, Waiter()) == []
    assert (reader.received, scene.waiter.unroutable) == (["small"], None)
    scene.effects.turns()
    assert scene.waiter.unroutable == []


class HasNoRoom(BracketedEffects):
    """A log without room for a transaction, be it that the disk is full or that it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def promise(self, sends: list[tuple[Message, Sequence[QueueState]]], settlements: int) -> None:
        self.asked.append((len(sends), settlements))
        raise OSError("no room")


@pytest.mark.parametrize("count", [3, MANY])
def test_a_commit_for_which_the_log_has_no_room_sends_nothing_and_settles_nothing(count: int) -> None:
    scene = Scene(HasNoRoom())
    reader = RecordingSession()
    scene.hold(2 * count)
    reader.consume(scene.declare("out"))
    scene.send(count, "out")
    scene.transaction.acknowledge(count, multiple=True)
    scene.transaction.reject(2 * count, requeue=False, multiple=True)
    if count == MANY:
        assert scene.commit() is None
        scene.effects.turns()
        assert str(scene.waiter.error) == "no room"
    else:
        with pytest.raises(OSError, match="no room"):
            scene.commit()
    assert (reader.received, scene.host.queues["out"].order.count) == ([], 0)
    assert (len(scene.queue.delivering), len(scene.session.unacknowledged)) == (2 * count, 2 * count)
    scene.publish("next", "out")
    assert reader.received == ["next"]
    for queue in scene.host.queues.values():
        check_invariants(queue)


def test_a_commit_without_anything_stored_asks_for_no_room() -> None:
    scene = Scene(HasNoRoom())
    scene.transaction.send(make_message("x"), scene.host.route("", "q"))
    assert scene.commit() == []
    assert pending(scene.queue) == ["x"]


def test_reasons_of_rejections_are_written_in_their_slice():
    scene = Scene()
    scene.hold(MANY)
    told: list[int] = []
    scene.transaction.reject(0, requeue=False, multiple=True)
    scene.transaction.before_rejections(lambda entry: told.append(entry.sequence))
    assert commit_in_turns(scene.transaction, scene.host, NOW, scene.waiter) is None
    most = 0
    while scene.effects.works:
        before = len(told)
        scene.effects.turn()
        most = max(most, len(told) - before)
    assert (len(told), told == sorted(told), scene.waiter.error) == (MANY, True, None)
    assert 0 < most <= SLICE_OPERATIONS


def test_a_refused_commit_gives_all_deliveries_back():
    scene = Scene()
    scene.hold(MANY)
    held = scene.session.unacknowledged.items()
    scene.transaction.acknowledge(MANY // 2, multiple=True)
    scene.transaction.reject(MANY, requeue=True)
    scene.transaction.reject(0, requeue=False, multiple=True)
    with pytest.raises(TransactionTooLarge):
        commit_in_turns(scene.transaction, scene.host, NOW, scene.waiter, operations_max=MANY - 1)
    assert scene.session.unacknowledged.items() == held
