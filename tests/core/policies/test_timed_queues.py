"""Which queues ticks visit."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.host.virtual_host import VirtualHost
from annulet.core.policies.timed_queues import TimedQueues
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message

LATER = NOW + 10


class Stage:
    """A virtual host, and the names of its queues that register."""

    def __init__(self) -> None:
        self.host = VirtualHost("/", RecordingEffects())
        self.timed = TimedQueues()

    def declare(self, name: str, arguments: dict[str, Any] | None = None) -> Queue:
        queue = self.host.declare_queue(name, now=NOW, arguments=arguments)
        queue.use_timed(self.timed)
        return queue

    def publish(self, name: str, **properties: Any) -> None:
        self.host.publisher.publish(make_message("m", **properties), self.host.route("", name), NOW)

    def names(self) -> list[str]:
        return [queue.name for queue in self.timed.queues]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_messages_without_a_time_register_nothing(stage: Stage) -> None:
    queue = stage.declare("plain")
    stage.publish("plain")
    session = RecordingSession()
    session.consume(queue)
    assert stage.names() == []
    assert not queue.is_timed()


@pytest.mark.parametrize("properties", [{"expires_at": LATER}, {"deliver_at": LATER}])
def test_a_message_with_a_time_registers_its_queue(stage: Stage, properties: dict[str, int]) -> None:
    stage.declare("plain")
    stage.declare("timed")
    stage.publish("timed", **properties)
    assert stage.names() == ["timed"]


@pytest.mark.parametrize(
    "arguments", [{"x-expires": 1000}, {"consumers-before-dispatch": 2}, {"x-message-ttl": 10}, {"group-buckets": 4}]
)
def test_settings_register_a_queue(stage: Stage, arguments: dict[str, Any]) -> None:
    queue = stage.declare("set", arguments)
    stage.publish("set")
    assert stage.names() == (["set"] if queue.is_timed() else [])
    assert queue.is_timed() or "group-buckets" in arguments


def test_a_selector_registers_a_queue(stage: Stage) -> None:
    RecordingSession().consume(stage.declare("selected"), selector="a = 1")
    assert stage.names() == ["selected"]


def test_a_changed_setting_registers_a_queue(stage: Stage) -> None:
    queue = stage.declare("changed")
    queue.update(stage.declare("like this", {"x-expires": 1000}).settings, NOW)
    assert stage.names() == ["like this", "changed"]


def test_a_tick_takes_out_what_has_nothing_due_any_more() -> None:
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW)
    host.publisher.publish(make_message("m", deliver_at=LATER), host.route("", "q"), NOW)
    assert queue in queue.timed.queues
    assert host.tick(NOW) == LATER
    assert host.tick(LATER) == 0
    host.tick(LATER)
    assert queue not in queue.timed.queues
    assert queue.order.count == 1
    host.publisher.publish(make_message("m", deliver_at=LATER + 5), host.route("", "q"), LATER)
    assert host.tick(LATER) == LATER + 5


def test_a_deleted_queue_is_not_kept() -> None:
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW, arguments={"x-expires": 1000})
    timed = queue.timed
    assert queue in timed.queues
    host.delete_queue(queue, NOW)
    assert not timed.queues
