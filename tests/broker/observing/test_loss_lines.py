"""Lines of lost messages: one for each queue and reason now and then, with the counts of the queue."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from annulet.broker.observing.loss_lines import LINES_AT_ONCE_MAX, LINES_INTERVAL_MILLISECONDS, LossLines
from tests.admin.conftest import Site, site  # noqa: F401 - a fixture


class Looked:
    """A broker and the lines of its losses."""

    def __init__(self, place: Site) -> None:
        self.site = place
        self.loss_lines = LossLines()
        self.unroutable = 0
        assert self.look() == []

    def look(self, *, after: int = LINES_INTERVAL_MILLISECONDS) -> list[dict[str, Any]]:
        self.site.clock.advance(after)
        with capture_logs() as lines:
            self.loss_lines.tick(self.site.broker.hosts, self.unroutable, self.site.clock())
        return [dict(line) for line in lines]


@pytest.fixture
def looked(site: Site) -> Looked:  # noqa: F811
    return Looked(site)


async def test_a_queue_that_drops_has_a_line_now_and_then(looked: Looked) -> None:
    ring = looked.site.queue("ring", ring_size=1)
    looked.site.fill(ring, 4)
    assert looked.look(after=LINES_INTERVAL_MILLISECONDS - 1) == []
    (line,) = looked.look(after=1)
    assert line == {
        "event": "queue dropped messages",
        "log_level": "info",
        "vhost": "/",
        "queue": "ring",
        "reason": "replaced-ring",
        "total": 3,
        "messages": 1,
    }
    assert looked.look() == []
    looked.site.fill(ring, 1)
    assert [line["total"] for line in looked.look()] == [4]


async def test_messages_over_a_limit_and_without_a_queue(looked: Looked) -> None:
    queue = looked.site.queue("q", max_length=1, overflow="drop-head")
    looked.site.fill(queue, 2)
    looked.unroutable = 7
    assert [(line["event"], line["messages"]) for line in looked.look()] == [
        ("messages reached no queue", 7),
        ("queue dropped messages", 1),
    ]
    assert looked.look() == []


async def test_dead_letters_with_and_without_a_queue(looked: Looked) -> None:
    looked.site.queue("dead")
    for name, target in (("a", "dead"), ("b", "missing")):
        arguments: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": target, "max_length": 1}
        looked.site.queue(name, **arguments)
        for _ in range(3):
            looked.site.publish(name)
    told = [line for line in looked.look() if "queue" not in line]
    assert [(line["event"], line["log_level"], line["messages"]) for line in told] == [
        ("dead letters reached no queue", "warning", 2),
        ("messages moved to dead-letter targets", "info", 2),
    ]


async def test_lines_at_one_time_are_bounded(looked: Looked) -> None:
    for number in range(LINES_AT_ONCE_MAX + 1):
        looked.site.fill(looked.site.queue(f"q{number}", ring_size=1), 2)
    assert len(looked.look()) == LINES_AT_ONCE_MAX


async def test_a_queue_that_is_gone_has_no_line(looked: Looked) -> None:
    queue = looked.site.queue("gone", ring_size=1)
    looked.site.fill(queue, 2)
    looked.site.broker.hosts["/"].delete_queue(queue, now=looked.site.clock())
    assert looked.look() == []
