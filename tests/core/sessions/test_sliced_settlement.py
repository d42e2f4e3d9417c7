"""Very many deliveries that one command settles: in slices, with nothing lost and nothing settled twice."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import COUNT_ALL, OVERFLOW_REJECT, OVERFLOW_RING
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.configuration.address_limits import DROP, FAIL
from annulet.core.configuration.address_settings.repository import AddressSettingsRepository
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import REJECTED_AT_ONCE_MAX, end_together
from annulet.core.sessions.sliced_settlement import SLICE_REJECTED
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, pending, queue_of
from tests.core.host.test_dead_letters import Bench, letter

MANY = AT_ONCE_MAX + 1


def publish(queue: Queue, count: int) -> None:
    for number in range(count):
        queue.enqueue(make_message(str(number), accepted_at=NOW), NOW)


def holding(count: int, waiting: int = 0, **settings: Any) -> tuple[SlicingEffects, Queue, RecordingSession]:
    """A queue, and a session that holds so many of it, with credit for no more, while some wait."""
    effects = SlicingEffects()
    queue, session = queue_of(effects, **settings), RecordingSession()
    session.consume(queue, messages=count)
    publish(queue, count + waiting)
    assert len(queue.delivering) == count
    return effects, queue, session


@pytest.mark.parametrize(
    ("rejected", "most", "each"),
    [(False, AT_ONCE_MAX, SLICE_MESSAGES), (True, REJECTED_AT_ONCE_MAX, SLICE_REJECTED)],
)
@pytest.mark.parametrize("more", [0, 1])
def test_very_many_are_settled_in_slices(rejected: bool, most: int, each: int, more: int):
    count = most + more
    effects, queue, session = holding(count)
    if rejected:
        session.reject(count, NOW, requeue=False, multiple=True)
    else:
        session.acknowledge(count, NOW, multiple=True)
    assert not session.unacknowledged
    assert len(queue.delivering) == (count if more else 0)
    assert effects.turns() == (-(-count // each) if more else 0)
    reason = RemovalReason.REJECTED if rejected else RemovalReason.ACKNOWLEDGED
    assert queue.counters.removed[reason] == count
    assert not queue.delivering
    assert (session.settling, queue.ledger.total) == ([], count if rejected else 0)
    check_invariants(queue)


def test_credit_comes_back_with_each_slice_and_messages_in_their_order():
    effects, queue, session = holding(MANY, waiting=MANY)
    session.acknowledge(0, NOW, multiple=True)
    effects.turn()
    assert len(session.received) == MANY + SLICE_MESSAGES
    effects.turns()
    assert session.received == [str(number) for number in range(2 * MANY)]
    session.acknowledge(session.last_tag, NOW, multiple=True)
    effects.turns()
    assert (queue.delivering_bytes, queue.counters.removed[RemovalReason.ACKNOWLEDGED]) == (0, 2 * MANY)


@pytest.mark.parametrize("turns", [0, 1])
def test_a_session_that_ends_gives_back_what_it_did_not_settle_and_nothing_else(turns: int):
    """Its neighbour ends as well: what sessions that ended held may go back together."""
    effects = SlicingEffects()
    queue, session, neighbour = queue_of(effects), RecordingSession(), RecordingSession()
    publish(queue, 3 * MANY)
    session.consume(queue, messages=2 * MANY)
    neighbour.consume(queue, messages=MANY)
    assert len(queue.delivering) == 3 * MANY
    session.acknowledge(MANY, NOW, multiple=True)
    for _ in range(turns):
        effects.turn()
    held = len(session.unacknowledged) + len(neighbour.unacknowledged)
    end_together([session, neighbour])
    session.close(NOW)
    neighbour.close(NOW)
    effects.turns()
    assert queue.counters.removed[RemovalReason.ACKNOWLEDGED] == MANY
    assert (queue.order.count, queue.counters.messages_returned) == (held, held)
    assert pending(queue) == [str(number) for number in range(MANY, 3 * MANY)]
    check_invariants(queue)


class FailingEffects(SlicingEffects):
    """Has a defect when the last message of the second slice is settled."""

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        super().settle(queue, entry)
        if len(self.settled) == 2 * SLICE_MESSAGES:
            raise RuntimeError("defect")


@pytest.mark.parametrize("rejected", [False, True])
def test_what_a_defect_left_goes_back(rejected: bool):
    effects, session = FailingEffects(), RecordingSession()
    queue = queue_of(effects)
    session.consume(queue, messages=MANY)
    publish(queue, MANY)
    for entry in queue.delivering:
        entry.message.record = entry.sequence
    if rejected:
        session.reject(0, NOW, requeue=False, multiple=True)
    else:
        session.acknowledge(0, NOW, multiple=True)
    work = effects.works[0]
    with pytest.raises(RuntimeError, match="defect"):
        effects.turns()
    session.close(NOW)
    assert pending(queue) == []
    work.abandon(NOW)
    assert pending(queue) == [str(number) for number in range(2 * SLICE_MESSAGES, MANY)]
    assert (len(queue.delivering), session.settling) == (0, [])
    check_invariants(queue)


def test_a_queue_that_is_deleted_meanwhile_counts_each_once_and_as_acknowledged():
    effects, queue, session = holding(MANY)
    session.acknowledge(MANY, NOW, multiple=True)
    effects.turn()
    queue.delete(NOW)
    effects.turns()
    removed = queue.counters.removed
    assert (removed[RemovalReason.ACKNOWLEDGED], sum(removed.values())) == (MANY, MANY)
    assert (session.settling, queue.ledger.total) == ([], 0), "nobody lost what was acknowledged"


def test_a_message_that_one_settles_is_nobody_elses():
    effects, queue, session = holding(MANY)
    session.acknowledge(MANY, NOW, multiple=True)
    other = RecordingSession()
    other.consume(queue)
    assert queue.acquire(1, -1, NOW) == []
    assert queue.purge(NOW) == 0
    effects.turns()
    assert other.received == []


def test_a_defect_in_a_slice_keeps_nobody_from_going_back():
    effects, _, session = holding(MANY)
    session.acknowledge(MANY, NOW, multiple=True)
    effects.works[0].abandon(NOW)
    assert session.settling == []


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("overflow", [OVERFLOW_REJECT, OVERFLOW_RING])
def test_where_deliveries_count_for_a_limit_only_as_many_are_settled_as_make_room(rejected: bool, overflow: str):
    """Nothing is refused or dropped because a delivery is settled a little later than it was told."""
    effects, queue, session = holding(MANY, max_length=MANY, overflow=overflow, limit_counts=COUNT_ALL)
    if rejected:
        session.reject(0, NOW, requeue=False, multiple=True)
    else:
        session.acknowledge(0, NOW, multiple=True)
    assert len(queue.delivering) == MANY
    message = make_message("more", accepted_at=NOW)
    assert queue.refusal(message) == ""
    queue.enqueue(message, NOW)
    settled = MANY + 1 - len(queue.delivering) - queue.order.count
    assert settled == (SLICE_REJECTED if rejected else SLICE_MESSAGES)
    effects.turns()
    assert session.received[-1] == "more", "credit came back for what was settled in between"
    assert (queue.settling, queue.counters.removed[RemovalReason.OVERFLOW]) == ([], 0)
    check_invariants(queue)


@pytest.mark.parametrize("policy", [DROP, FAIL])
def test_where_deliveries_count_for_an_address_only_as_many_are_settled_as_make_room(policy: str):
    effects = SlicingEffects()
    settings = AddressSettingsRepository()
    settings.set("q", {"max-size-messages": MANY, "address-full-policy": policy})
    host = VirtualHost("/", effects, address_settings=settings)
    queue = host.declare_queue("q", now=NOW, durable=False, auto_delete=False, arguments={})
    route, session = host.route("", "q"), RecordingSession()
    session.consume(queue, messages=MANY)
    for number in range(MANY):
        assert host.publisher.publish(make_message(str(number), accepted_at=NOW), route, NOW) == 1
    session.acknowledge(0, NOW, multiple=True)
    assert len(queue.delivering) == MANY
    host.publisher.publish(make_message("more", accepted_at=NOW), route, NOW)
    assert MANY + 1 - len(queue.delivering) - queue.order.count == SLICE_MESSAGES
    effects.turns()
    assert session.received[-1] == "more"
    assert (host.accounts.settling, host.accounts.dropped, host.accounts.refused) == ([], 0, 0)


def test_a_session_that_pulled_settles_in_slices_too():
    """Its deliveries say whose they are, as its consumers do not."""
    effects, queue, session = holding(MANY, waiting=1)
    assert session.get(queue, NOW, auto_acknowledge=False) is not None
    session.acknowledge(0, NOW, multiple=True)
    assert len(queue.delivering) == MANY + 1
    effects.turns()
    assert (len(queue.delivering), queue.settling) == (0, [])


def test_what_a_command_wants_done_before_and_behind_its_deliveries_is_done_in_its_place():
    effects, _, session = holding(MANY)
    prepared: list[QueueEntry] = []
    done: list[int] = []
    taken = session.take(0, multiple=True)
    assert session.settle_taken(
        taken, NOW, rejected=True, before=prepared.append, done=lambda: done.append(len(prepared))
    )
    effects.turn()
    assert (len(prepared), done) == (SLICE_REJECTED, [])
    effects.turns()
    assert (prepared, done) == (taken, [MANY])


def rejecting(count: int) -> tuple[SlicingEffects, Queue, Queue, RecordingSession]:
    """A queue of which a session holds so many, and the one that gets what it refuses."""
    effects = SlicingEffects()
    bench, session = Bench(effects), RecordingSession()
    dead, queue = bench.target("dead"), bench.source(dead_letter_address="dead")
    session.consume(queue, messages=count)
    for number in range(count):
        queue.enqueue(letter(str(number)), NOW)
    assert len(queue.delivering) == count
    return effects, dead, queue, session


def test_what_is_refused_before_its_queue_is_deleted_is_sent_on():
    """An exclusive queue goes with the connection that refused."""
    effects, dead, queue, session = rejecting(MANY)
    session.reject(MANY, NOW, requeue=False, multiple=True)
    effects.turn()
    session.close(NOW)
    queue.delete(NOW)
    effects.turns()
    assert pending(dead) == [str(number) for number in range(MANY)]
    assert (queue.counters.removed[RemovalReason.DEAD_LETTERED], session.settling) == (MANY, [])


def test_a_deletion_waits_for_nothing_that_was_settled_before():
    effects, dead, queue, session = rejecting(MANY)
    session.reject(MANY, NOW, requeue=False, multiple=True)
    queue.delete(NOW)
    assert (len(queue.delivering), dead.order.count) == (MANY, 0)
    effects.turn()
    assert MANY - len(queue.delivering) <= 3 * SLICE_REJECTED
    effects.turns()
    assert (len(queue.delivering), dead.order.count) == (0, MANY)


def test_what_is_refused_after_its_queue_was_deleted_is_deleted():
    effects, dead, queue, session = rejecting(2 * MANY)
    session.reject(MANY, NOW, requeue=False, multiple=True)
    queue.delete(NOW)
    session.reject(2 * MANY, NOW, requeue=False, multiple=True)
    effects.turns()
    assert pending(dead) == [str(number) for number in range(MANY)]
    assert queue.counters.removed[RemovalReason.DELETED] == MANY
    assert session.settling == []


def test_dead_letters_come_in_the_order_in_which_they_were_refused():
    effects, dead, _, session = rejecting(2 * MANY + 2)
    session.reject(MANY, NOW, requeue=False, multiple=True)
    session.reject(MANY + 1, NOW, requeue=False)
    effects.turn()
    session.reject(2 * MANY + 1, NOW, requeue=False, multiple=True)
    session.reject(2 * MANY + 2, NOW, requeue=False)
    effects.turns()
    assert pending(dead) == [str(number) for number in range(2 * MANY + 2)]
    assert session.settling == []
