"""What a listener hears of a queue, in which order, and that it adds up to the queue's counters."""

from __future__ import annotations

from collections import Counter

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import QueueEntry
from annulet.core.model.events import QueueEvents
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.core.paging.test_paged_fifo import ALL
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


class Listener(QueueEvents):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def accepted(self, entry: QueueEntry, now: int) -> None:
        self.heard.append(("accepted", entry.sequence))

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        self.heard.append(("delivered" if consumer is None else f"delivered to {consumer.tag}", entry.sequence))

    def returned(self, entry: QueueEntry, now: int) -> None:
        self.heard.append(("returned", entry.sequence))

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        self.heard.append((reason.value, entry.sequence))

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        self.heard.append((f"{reason.value} at once", count))


class Listening(NodeEffects):
    """Listens to every queue but ``quiet``."""

    def events_of(self, queue: Queue) -> QueueEvents | None:
        return None if queue.name == "quiet" else Listener()


def queue_of(name: str = "q", **arguments: object) -> Queue:
    known = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return VirtualHost("/", Listening()).declare_queue(name, now=NOW, arguments=known)  # type: ignore[arg-type]


def heard(queue: Queue) -> list[tuple[str, int]]:
    """What was heard since the last call."""
    assert isinstance(queue.events, Listener)
    found, queue.events.heard = queue.events.heard, []
    return found


def publish(queue: Queue, *bodies: str) -> None:
    for body in bodies:
        queue.enqueue(make_message(body), NOW)


def test_a_life_from_acceptance_to_acknowledgement() -> None:
    queue, session = queue_of(), RecordingSession()
    publish(queue, "a")
    session.consume(queue, messages=1)
    session.acknowledge(1, NOW)
    assert heard(queue) == [("accepted", 1), ("delivered to c", 1), ("acknowledged", 1)]


def test_a_delivery_that_needs_no_acknowledgement_is_a_delivery() -> None:
    queue, session = queue_of(), RecordingSession()
    session.consume(queue, auto_acknowledge=True)
    publish(queue, "a")
    assert heard(queue)[:2] == [("accepted", 1), ("delivered to c", 1)]


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}, {"ring_size": 9}, {"max_delivery_attempts": 5}])
def test_what_comes_back_is_delivered_again(arguments: dict[str, object]) -> None:
    queue, session = queue_of(**arguments), RecordingSession()
    publish(queue, "a", "b")
    session.consume(queue, messages=1)
    session.reject(1, NOW, requeue=True)
    assert heard(queue)[2:] == [("delivered to c", 1), ("returned", 1), ("delivered to c", 1)]
    session.close(NOW)
    assert heard(queue) == [("returned", 1)]


def test_a_return_that_goes_for_good_is_both() -> None:
    queue, session = queue_of(max_delivery_attempts=1), RecordingSession()
    publish(queue, "a")
    session.consume(queue, messages=1)
    session.reject(1, NOW, requeue=True)
    assert [event for event, _ in heard(queue)] == ["accepted", "delivered to c", "returned", "rejected"]


def test_what_is_fetched_has_no_consumer() -> None:
    queue = queue_of()
    publish(queue, "a")
    (entry,) = queue.acquire(1, -1, NOW)
    queue.acknowledge(entry)
    assert heard(queue) == [("accepted", 1), ("delivered", 1), ("acknowledged", 1)]


def test_losses_have_their_reasons() -> None:
    ring = queue_of(ring_size=1)
    publish(ring, "a", "b")
    assert heard(ring) == [("accepted", 1), ("accepted", 2), ("replaced-ring", 1)]
    timed = queue_of(message_ttl=10)
    publish(timed, "a")
    timed.tick(NOW + 11)
    assert heard(timed) == [("accepted", 1), ("expired", 1)]


def test_a_purge_of_few_names_them_and_one_of_many_counts_them() -> None:
    queue = queue_of()
    publish(queue, "a", "b")
    queue.purge(NOW)
    assert heard(queue)[2:] == [("purged", 1), ("purged", 2)]
    publish(queue, *["c"] * (AT_ONCE_MAX + 1))
    heard(queue)
    queue.purge(NOW)
    assert heard(queue) == [("purged at once", AT_ONCE_MAX + 1)]


def test_copies_are_deliveries_and_browsing_is_none() -> None:
    queue = queue_of(non_destructive=True)
    publish(queue, "a")
    reader, browser = RecordingSession(), RecordingSession()
    reader.consume(queue, messages=5)
    browser.consume(queue, "b", messages=5, browse="snapshot")
    queue.acquire(1, -1, NOW)
    assert heard(queue)[1:] == [("delivered to c", 1), ("delivered", 1)]


def test_damage_is_heard_of_one_by_one_or_as_a_number() -> None:
    queue, disk = durable_queue(), Disk()
    queue.events = listener = Listener()
    for entry in stored_entries(queue, disk, 9):
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    order.page_out(ALL, ALL)
    disk.damaged.update((5, 6, 9))
    queue.pass_over(queue.order.entries()[0])
    assert sorted(listener.heard) == [("unreadable", 1), ("unreadable at once", 3)]
    assert queue.counters.removed[RemovalReason.UNREADABLE] == 4


def test_it_adds_up_to_the_counters() -> None:
    queue, session = queue_of(ring_size=3, last_value_key="k"), RecordingSession()
    session.consume(queue, messages=2)
    for number in range(20):
        queue.enqueue(make_message(str(number), k=number % 5), NOW)
        if number % 3 == 0 and session.unacknowledged:
            session.reject(min(session.unacknowledged), NOW, requeue=True)
        elif session.unacknowledged:
            session.acknowledge(min(session.unacknowledged), NOW)
    found = Counter(event.partition(" ")[0] for event, _ in heard(queue))
    counters = queue.counters
    assert found.pop("accepted") == counters.messages_added == 20
    assert found.pop("delivered") == counters.messages_delivered
    assert found.pop("returned") == counters.messages_returned > 0
    assert found == {reason.value: count for reason, count in counters.removed.items() if count}


def test_nobody_hears_of_a_queue_that_was_not_chosen() -> None:
    queue = queue_of("quiet")
    publish(queue, "a")
    assert queue.events is None
