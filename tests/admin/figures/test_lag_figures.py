from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.admin.figures.lag_figures import LagFigures, lag_families, lag_figures
from annulet.broker.durability.leased import LeaseSum
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.testing import VirtualClock
from tests.admin.conftest import Site
from tests.admin.resources.test_metrics import key, scrape
from tests.bulk.helpers import bench

if TYPE_CHECKING:
    from pathlib import Path

AGE = "annulet_queue_oldest_message_age_seconds"


def samples(figures: LagFigures, listed_max: int = 1000) -> dict[tuple[str, ...], float]:
    """Return the values by name and labels."""
    families = lag_families(figures, listed_max)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


async def test_the_age_of_the_oldest_message(site: Site) -> None:
    queue = site.queue()
    assert (await scrape(site))[key(AGE, vhost="/", queue="q")] == 0
    site.fill(queue, 1)
    site.clock.advance(1_500)
    site.fill(queue, 1)
    assert (await scrape(site))[key(AGE, vhost="/", queue="q")] == 1.5
    queue.acquire(1, -1, site.clock())
    assert (await scrape(site))[key(AGE, vhost="/", queue="q")] == 0, "what is in delivery does not wait"
    site.clock.advance(250)
    assert (await scrape(site))[key(AGE, vhost="/", queue="q")] == 0.25


async def test_what_starves_on_the_least_important_level_is_the_oldest(site: Site) -> None:
    queue = site.queue(max_priority=9)
    site.publish("q", priority=0)
    site.clock.advance(60_000)
    site.publish("q", priority=9)
    assert queue.order.count == 2
    assert (await scrape(site))[key(AGE, vhost="/", queue="q")] == 60


async def test_queues_that_are_gone_are_left_out(site: Site) -> None:
    site.queue()
    figures = await lag_figures(site.broker, [("/", "gone"), ("nowhere", "q"), ("/", "q")])
    assert figures.ages == {("/", "q"): 0}


async def test_what_leases_hold(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with bench(tmp_path, clock=clock) as here:
        here.declare("q")
        await here.publish("q", [b"12345"] * 3)
        site = Site(here.broker, clock)
        assert key("annulet_queue_leases", vhost="/", queue="q") not in await scrape(site)
        leases = here.service.leases
        for name in ("one", "two"):
            await leases.open(LeaseRequest("/", name, "q", "owner", fresh=True))
            clock.advance(2_000)
        generation = int(str(leases.status("/", "two")["generation"]))
        assert await leases.extend("/", "two", generation, 0, messages_max=2) == 2

        found = await scrape(site)
        assert found[key("annulet_queue_leases", vhost="/", queue="q")] == 2
        assert found[key("annulet_queue_messages_leased", vhost="/", queue="q")] == 2
        assert found[key("annulet_queue_oldest_lease_age_seconds", vhost="/", queue="q")] == 4
        assert (
            found[key("annulet_vhost_leases", vhost="/")],
            found[key("annulet_vhost_messages_leased", vhost="/")],
        ) == (
            2,
            2,
        )
        assert found[key(AGE, vhost="/", queue="q")] == 4, "one waits"
        await leases.release("/", "one")
        found = await scrape(site)
        assert found[key("annulet_queue_leases", vhost="/", queue="q")] == 1
        assert found[key("annulet_queue_oldest_lease_age_seconds", vhost="/", queue="q")] == 2


def test_the_sums_are_of_all_queues_and_the_series_of_so_many() -> None:
    sums = {("/", f"q{number}"): LeaseSum(1, 10, number) for number in range(4)}
    for listed_max in (3, 4, 5):
        found = samples(LagFigures(1000, leases=sums), listed_max)
        assert len([name for name in found if name[0] == "annulet_queue_leases"]) == min(4, listed_max)
        assert (found["annulet_vhost_leases", "/"], found["annulet_vhost_messages_leased", "/"]) == (4, 40)
    assert found["annulet_queue_oldest_lease_age_seconds", "/", "q3"] == 0.997


def test_an_age_that_is_not_known_has_no_sample() -> None:
    assert samples(LagFigures(1000, {("/", "q"): 0.5})) == {(AGE, "/", "q"): 0.5}
