from __future__ import annotations

import pytest

from annulet.admin.figures.host_figures import HOST_COUNTERS, HOST_GAUGES, host_figures
from annulet.broker.durability.blocked import BlockedTarget
from annulet.core.base.errors import LimitExceeded
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW
from tests.admin.conftest import Site


class Held:
    def released(self, target: BlockedTarget) -> None:
        """A channel in the broker would go on."""


def figures(site: Site) -> dict[str, int]:
    """Return the figures that are not 0."""
    found = host_figures(site.broker.hosts["/"], site.broker.blocked["/"])
    return {name: value for name, value in found.items() if value}


def test_every_figure_has_its_help_once(site: Site) -> None:
    names = [name for name, _ in (*HOST_GAUGES, *HOST_COUNTERS)]
    assert names == list(host_figures(site.broker.hosts["/"], site.broker.blocked["/"]))
    assert figures(site) == {}


def publish(site: Site, name: str, *, duplicate_id: str = "") -> None:
    host = site.broker.hosts["/"]
    message = Message(b"\0\0", b"x", Origin("", name, "guest@test", VIEW), accepted_at=site.clock())
    host.publisher.publish(message, host.route("", name), site.clock(), duplicate_id=duplicate_id)


async def test_who_is_held_back(site: Site) -> None:
    blocked = site.broker.blocked["/"]
    for name in ("a", "b"):
        site.fill(site.queue(name, max_length=1, overflow="block"), 2)
    blocked.address_changed("news", blocked=True)
    held = Held()
    for target in (*blocked.queues.values(), *blocked.addresses.values()):
        target.publishers[held] = None
    assert figures(site) == {"queues_blocked": 2, "addresses_blocked": 1, "publishers_held": 1}
    answer = (await site.get("/api/v1/overview")).json()
    assert (answer["figures"]["queues_blocked"], answer["figures"]["publishers_held"]) == (2, 1)


async def test_where_dead_letters_went(site: Site) -> None:
    site.queue("dead")
    site.queue("q", max_length=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    site.queue("lost", max_length=0, dead_letter_exchange="", dead_letter_routing_key="nowhere")
    site.queue("loop", max_length=0, dead_letter_exchange="", dead_letter_routing_key="loop")
    for name in ("q", "lost", "loop", "loop"):
        publish(site, name)
    assert figures(site) == {"dead_letters_forwarded": 1, "dead_letters_unroutable": 1, "dead_letters_cycles": 2}
    broken = Message(b"\x20", b"x", Origin("", "q", "guest@test", VIEW), accepted_at=site.clock())
    site.broker.hosts["/"].queues["q"].enqueue(broken, site.clock())
    assert figures(site)["dead_letters_failed"] == 1
    answer = (await site.get("/api/v1/overview")).json()
    assert "queue 'q' #2 to dead-letter-exchange ''" in answer["dead_letter_failures"]["/"]
    manager = (await site.get("/api/v1/overview", user="manager:pass")).json()
    assert (manager["figures"]["dead_letters_failed"], manager["dead_letter_failures"]) == (0, {})


def test_duplicate_ids_and_addresses_with_limits(site: Site) -> None:
    host = site.broker.hosts["/"]
    for name in ("a", "b"):
        site.queue(name)
        for duplicate_id in ("1", "2", "1"):
            publish(site, name, duplicate_id=duplicate_id)
    assert figures(site) == {"duplicate_addresses": 2, "duplicate_ids": 4, "duplicates_dropped": 2}
    host.address_settings.set("a", {"max-size-messages": 1})
    for _ in range(3):
        publish(site, "a")
    assert figures(site) == {
        "addresses_limited": 1, "address_messages_paged": 4, "address_bytes_paged": 4, "duplicate_addresses": 2,
        "duplicate_ids": 4, "duplicates_dropped": 2,
    }  # fmt: skip


def test_what_is_paged_has_limits_of_its_own(site: Site) -> None:
    host = site.broker.hosts["/"]
    site.queue("a")
    site.queue("b")
    limits = {"max-size-messages": 1, "page-limit-messages": 2}
    host.address_settings.set("#", {**limits, "page-full-policy": "DROP"})
    for name in ("a", "a", "b", "b", "b", "b", "b"):
        publish(site, name)
    expected = {
        "addresses_limited": 2, "address_messages_paged": 3, "address_bytes_paged": 3, "addresses_page_limited": 2,
        "addresses_page_full": 1, "address_messages_dropped": 2,
    }  # fmt: skip
    assert figures(site) == expected
    host.address_settings.set("#", {**limits, "page-full-policy": "FAIL"})
    with pytest.raises(LimitExceeded):
        publish(site, "b")
    assert figures(site) == {**expected, "address_messages_refused": 1}
    host.address_settings.remove("#")
    assert figures(site) == {"address_messages_dropped": 2, "address_messages_refused": 1}, "counters do not go back"
