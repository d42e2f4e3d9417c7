from __future__ import annotations

import random

from annulet.admin.figures.busiest_queues import BusiestQueues, activity
from tests.admin.conftest import Site


async def test_the_busiest_are_chosen_in_their_order(site: Site) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    sizes = [choose.randrange(5) for _ in range(60)]
    busiest = BusiestQueues(20)
    for number, size in enumerate(sizes):
        queue = site.queue(f"q{number}")
        site.fill(queue, size)
        busiest.show("/", queue.statistics())
    assert busiest.shown == 60
    expected = sorted(sorted(range(60), key=lambda number: (-sizes[number], number))[:20])
    assert [statistics.name for _, statistics in busiest.chosen()] == [f"q{number}" for number in expected]


async def test_deliveries_count_and_waiting_messages_decide_between_equals(site: Site) -> None:
    delivered, waiting = site.queue("delivered"), site.queue("waiting")
    site.fill(delivered, 2)
    site.fill(waiting, 3)
    assert activity(waiting.statistics()) == (3, 3)
    delivered.acquire(1, -1, site.clock())
    assert activity(delivered.statistics()) == (3, 1)
