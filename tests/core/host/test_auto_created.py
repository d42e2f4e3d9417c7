"""What comes by itself goes by itself, when nobody uses it."""

from __future__ import annotations

import pytest

from annulet.core.host.auto_created import sooner
from tests.core.helpers import NOW, RecordingSession
from tests.core.node_helpers import address, declare, make_host, send


def automatic(settings=None):
    host = make_host({"q": settings or {}})
    return host, host.nodes.resolve_node("q", NOW).queue


def use(queue, *, now=NOW):
    """Let a consumer come and go."""
    session = RecordingSession()
    session.consume(queue, now=now)
    session.close(now)


def test_an_automatic_queue_goes_with_its_last_consumer():
    host, queue = automatic()
    host.tick(NOW + 1_000_000)
    assert "q" in host.queues  # never used
    use(queue)
    assert host.consumer_removed(queue, NOW)
    assert host.effects.deleted_queues == ["q"]


@pytest.mark.parametrize(
    ("settings", "goes"),
    [
        ({}, False),
        ({"auto-delete-queues-message-count": 1}, True),
        ({"auto-delete-queues-message-count": -1}, True),
        ({"auto-delete-queues": False, "auto-delete-queues-message-count": -1}, False),
    ],
)
def test_messages_keep_it_as_far_as_the_settings_say(settings, goes):
    host, queue = automatic(settings)
    send(host, "q")
    use(queue)
    assert host.consumer_removed(queue, NOW) is goes


def test_messages_in_delivery_and_scheduled_ones_count():
    host, queue = automatic()
    send(host, "q")
    queue.acquire(1, -1, NOW)
    host.tick(NOW)
    assert "q" in host.queues
    queue.acknowledge(queue.unsettled()[0])
    host.tick(NOW)
    assert "q" not in host.queues


def test_it_waits_for_its_delay():
    host, queue = automatic({"auto-delete-queues-delay": 100})
    use(queue, now=NOW + 50)
    assert not host.consumer_removed(queue, NOW + 50)
    assert host.tick(NOW + 149) == NOW + 150
    host.tick(NOW + 150)
    assert "q" not in host.queues


def test_without_the_usage_check_it_goes_unused():
    host, _ = automatic({"auto-delete-queues-skip-usage-check": True, "auto-delete-queues-delay": 10})
    assert host.tick(NOW + 9) == NOW + 10
    host.tick(NOW + 10)
    assert "q" not in host.queues


@pytest.mark.parametrize("wanted", [False, True])
def test_declared_queues_go_only_where_the_settings_say(wanted):
    host = make_host({"#": {"auto-delete-created-queues": wanted}})
    (queue,) = declare(host, "declared")
    (kept,) = declare(host, "configured", configured=True)
    (owned,) = declare(host, "owned", owner=host)
    for each in (queue, kept, owned):
        use(each)
    host.tick(NOW)
    assert sorted(host.queues) == (["configured", "owned"] if wanted else ["configured", "declared", "owned"])


def test_a_lease_uses_it():
    host, queue = automatic()
    use(queue)
    queue.leases.add(("/", "report"))
    assert not host.consumer_removed(queue, NOW)
    host.tick(NOW + 1000)
    assert not queue.deleted


def test_an_automatic_address_goes_after_its_last_queue():
    host = make_host({"news": {"auto-delete-addresses-delay": 100}})
    host.nodes.resolve_node("topic://news", NOW)
    host.tick(NOW + 1000)
    assert "news" in host.addresses  # never had a queue
    (queue,) = address(host, "news", "q")
    host.tick(NOW + 2000)
    host.delete_queue(queue, NOW + 3000)
    assert host.tick(NOW + 3000) == NOW + 3100
    (queue,) = address(host, "news", "q")
    host.tick(NOW + 3100)
    host.delete_queue(queue, NOW + 4000)
    host.tick(NOW + 4000)
    host.tick(NOW + 4099)
    assert "news" in host.addresses
    host.tick(NOW + 4100)
    assert "news" not in host.addresses
    assert host.effects.deleted_exchanges == ["news"]


@pytest.mark.parametrize("settings", [{"auto-delete-addresses": False}, {}])
def test_declared_addresses_and_those_to_be_kept_stay(settings):
    host = make_host({"#": settings})
    if settings:
        host.nodes.resolve_node("topic://news", NOW)
    (queue,) = address(host, "news", "q")
    host.delete_queue(queue, NOW)
    host.tick(NOW)
    host.tick(NOW + 1_000_000)
    assert "news" in host.addresses


def test_an_address_nobody_used_goes_without_the_usage_check():
    host = make_host({"#": {"auto-delete-addresses-skip-usage-check": True}})
    host.nodes.resolve_node("topic://news", NOW)
    host.tick(NOW)
    assert "news" not in host.addresses


@pytest.mark.parametrize(("first", "second", "result"), [(0, 0, 0), (0, 5, 5), (5, 0, 5), (3, 5, 3), (5, 3, 3)])
def test_never_is_later_than_everything(first, second, result):
    assert sooner(first, second) == result
