from __future__ import annotations

from annulet import __version__
from annulet.admin.resources.overview import build_mode
from tests.admin.conftest import Site


async def test_overview_names_what_runs_and_sums_up(site: Site) -> None:
    site.fill(site.queue("a"), 3)
    ring = site.queue("b", "other", ring_size=1)
    site.fill(ring, 3)
    ring.acquire(1, -1, site.clock())
    site.clock.advance(1500)
    answer = (await site.get("/api/v1/overview")).json()
    assert (answer["product"], answer["version"], answer["build"]) == ("Annulet", __version__, build_mode())
    assert answer["uptime"] == 1500
    assert answer["durable"] is False
    assert answer["listeners"]["amqp"].startswith("127.0.0.1:")
    assert answer["object_totals"]["queues"] == 2
    assert answer["totals"] == {
        "messages": 4,
        "messages_ready": 3,
        "messages_unacknowledged": 1,
        "messages_added": 6,
        "removed": {"replaced-ring": 2},
    }


def test_build_mode_is_one_of_two() -> None:
    assert build_mode() in {"compiled", "pure"}
