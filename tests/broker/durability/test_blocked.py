from __future__ import annotations

from annulet.broker.durability.blocked import BlockedTarget, BlockedTargets
from annulet.core.base.settings import QueueSettings
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.core.routing.routes import Route


class Publisher:
    def __init__(self) -> None:
        self.freed_by: list[str] = []

    def released(self, target: BlockedTarget) -> None:
        self.freed_by.append(target.name)


def queue_named(name: str, *, blocked: bool = True) -> Queue:
    queue = Queue(name, QueueSettings(), NodeEffects())
    queue.blocked = blocked
    return queue


def test_nothing_is_blocked_at_first() -> None:
    table = BlockedTargets()
    assert (table.any, table.marks(), table.entered({})) == (False, {}, [])


def test_a_publisher_is_released_when_the_queue_drained() -> None:
    table, queue, publisher = BlockedTargets(), queue_named("q"), Publisher()
    table.queue_changed(queue)
    assert table.any
    table.queues[queue].publishers[publisher] = None
    queue.blocked = False
    table.queue_changed(queue)
    assert (table.any, publisher.freed_by) == (False, ["queue 'q'"])
    table.queue_changed(queue)  # once more is fine
    assert publisher.freed_by == ["queue 'q'"]


def test_marks_tell_which_queue_a_publish_went_into() -> None:
    table, first, second = BlockedTargets(), queue_named("1"), queue_named("2")
    table.queue_changed(first)
    table.queue_changed(second)
    marks = table.marks()
    second.counters.messages_added += 1
    third = queue_named("3")  # blocked by the publish itself
    table.queue_changed(third)
    assert [target.name for target in table.entered(marks)] == ["queue '2'", "queue '3'"]


def test_a_fixed_route_names_its_blocked_queues_and_address() -> None:
    table, blocked, free = BlockedTargets(), queue_named("full"), queue_named("free", blocked=False)
    table.queue_changed(blocked)
    table.address_changed("news", blocked=True)
    names = [target.name for target in table.on_way(Route("news", "k", [blocked, free], 1))]
    assert names == ["queue 'full'", "address 'news'"]
    assert table.on_way(Route("other", "k", [free], 1)) == []
    table.address_changed("news", blocked=False)
    assert (table.at(["news"]), table.any) == ([], True)


def test_each_blocked_address_is_named_once() -> None:
    table = BlockedTargets()
    table.address_changed("news", blocked=True)
    assert [target.name for target in table.at(["free", "news", "news"])] == ["address 'news'"]
