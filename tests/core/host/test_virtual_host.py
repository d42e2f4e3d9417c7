"""Queues of one virtual host: declarations, consumers and lifetimes."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import AccessRefused, PreconditionFailed, ResourceLocked
from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def declare(host, *names, **options):
    return [host.declare_queue(name, now=NOW, **options) for name in names]


def publish(host, exchange, key, body="m", **properties):
    return host.publisher.publish(make_message(body, **properties), host.route(exchange, key), NOW)


def reached(host, exchange, key, **properties):
    return {queue.name for queue in host.targets(make_message(**properties), host.route(exchange, key))}


def test_inequivalent_declarations_are_refused_by_name(host):
    declare(host, "q", arguments={"x-ring-size": 3})
    with pytest.raises(
        PreconditionFailed, match="inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true'"
    ):
        declare(host, "q", durable=True, arguments={"x-ring-size": 3})
    with pytest.raises(PreconditionFailed, match=r"arg 'x-ring-size' .* received none but current is '3'"):
        declare(host, "q")
    assert declare(host, "q", arguments={"ring-size": 3}) == [host.queues["q"]]
    host.declare_exchange("e", "direct")
    with pytest.raises(PreconditionFailed, match="arg 'type' for exchange 'e'"):
        host.declare_exchange("e", "fanout")


def test_exclusive_queue_is_locked_to_its_owner_and_goes_with_it(host):
    owner, stranger = object(), object()
    (queue,) = declare(host, "q", owner=owner)
    assert host.queue_for("q", owner) is queue
    with pytest.raises(ResourceLocked, match="locked queue 'q'"):
        host.queue_for("q", stranger)
    with pytest.raises(ResourceLocked):
        declare(host, "q")
    assert host.connection_closed(owner, NOW) == [queue]
    assert host.effects.deleted_queues == ["q"]


def test_if_unused_and_if_empty(host):
    (queue,) = declare(host, "q")
    consumer = RecordingSession()
    consumer.consume(queue, messages=0)
    publish(host, "", "q")
    with pytest.raises(PreconditionFailed, match="in use"):
        host.delete_queue(queue, NOW, if_unused=True)
    with pytest.raises(PreconditionFailed, match="not empty"):
        host.delete_queue(queue, NOW, if_empty=True)
    assert host.delete_queue(queue, NOW) == 1
    assert host.delete_queue(queue, NOW) == 0


def test_a_tick_in_parts_does_what_a_whole_one_does(host):
    for number in range(5):
        declare(host, f"ttl{number}", arguments={"x-message-ttl": 5 + number})
        publish(host, "", f"ttl{number}")
    declare(host, "unused", arguments={"x-expires": 10})
    assert host.tick_some(NOW + 5, 2) is None
    assert [host.queues[f"ttl{number}"].order.count for number in range(5)] == [0, 1, 1, 1, 1]
    host.delete_queue(host.queues["ttl3"], NOW)
    assert host.tick_some(NOW + 7, 2) is None
    assert [host.queues[name].order.count for name in ("ttl1", "ttl2", "ttl4")] == [1, 0, 1], "the first had its turn"
    assert host.tick_some(NOW + 7, 2) == NOW + 6, "what it is due for since then"
    assert host.tick_some(NOW + 7, 2) is None
    assert host.tick(NOW + 8) == NOW + 9, "a whole one begins anew"
    assert host.tick_some(NOW + 10, 100) == 0
    assert "unused" not in host.queues


def test_auto_delete_waits_for_the_last_consumer(host):
    (queue,) = declare(host, "q", auto_delete=True)
    session = RecordingSession()
    assert not host.consumer_removed(queue, NOW)
    session.consume(queue, "1")
    session.consume(queue, "2")
    session.detach("1", NOW)
    assert not host.consumer_removed(queue, NOW)
    session.detach("2", NOW)
    assert host.consumer_removed(queue, NOW)
    assert "q" not in host.queues


def test_tick_expires_messages_and_unused_queues(host):
    declare(host, "ttl", arguments={"x-message-ttl": 5})
    declare(host, "unused", arguments={"x-expires": 10})
    assert host.tick(NOW) == NOW + 10
    publish(host, "", "ttl")
    assert host.tick(NOW) == NOW + 5
    assert host.tick(NOW + 9) == NOW + 10
    assert host.queues["ttl"].order.count == 0
    assert host.tick(NOW + 10) == 0
    assert host.effects.deleted_queues == ["unused"]


def test_exclusive_consumers(host):
    (queue,) = declare(host, "q")
    RecordingSession().consume(queue, "1")
    with pytest.raises(AccessRefused, match="1 consumers"):
        host.check_consumer(queue, exclusive=True)
    (other,) = declare(host, "other")
    RecordingSession().consume(other, "1", exclusive=True)
    with pytest.raises(AccessRefused, match="exclusive use"):
        host.check_consumer(other, exclusive=False)


def test_a_lease_uses_its_queue_like_a_consumer(host):
    (queue,) = declare(host, "leased", arguments={"x-expires": 10}, auto_delete=True)
    queue.leases.add(("/", "report"))
    with pytest.raises(PreconditionFailed, match="0 consumers and 1 leases"):
        host.delete_queue(queue, NOW, if_unused=True)
    with pytest.raises(AccessRefused, match="1 leases; exclusive use"):
        host.check_consumer(queue, exclusive=True)
    queue.had_consumer = True
    assert not host.consumer_removed(queue, NOW)
    host.tick(NOW + 100)
    assert not queue.deleted
    queue.leases.clear()
    host.tick(NOW + 100)
    assert queue.deleted


def test_each_virtual_host_brings_its_forwarder_and_settings():
    host, other = VirtualHost("/", RecordingEffects()), VirtualHost("other", RecordingEffects())
    (queue,) = declare(host, "q")
    assert queue.forwarder is host.dead_letters
    host.address_settings.set("q", {"message-ttl": 5})
    assert queue.settings.message_ttl == 5
    assert other.address_settings.resolve("q").queue == {}


def test_tick_does_what_queues_have_waiting(host):
    (queue,) = declare(host, "q")
    message = make_message("later")
    message.deliver_at = NOW + 50
    host.publisher.publish(message, host.route("", "q"), NOW)
    assert queue.order.count == 0
    assert host.tick(NOW) == NOW + 50
    host.tick(NOW + 50)
    assert queue.order.count == 1


def test_a_queue_that_another_one_takes_along_is_passed_over(host):
    declare(host, "a", "b", arguments={"x-expires": 10})
    deleted = host.effects.queue_deleted

    def take_along(queue):
        deleted(queue)
        other = host.queues.get("b" if queue.name == "a" else "a")
        if other is not None:
            host.delete_queue(other, NOW)

    host.effects.queue_deleted = take_along
    host.tick(NOW + 10)
    assert sorted(host.effects.deleted_queues) == ["a", "b"]
