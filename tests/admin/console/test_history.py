from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.operation.charts.history import ROUND_MILLISECONDS
from tests.admin.conftest import Site

PATH = "/api/v1/history"


def run_round(site: Site) -> None:
    site.clock.advance(ROUND_MILLISECONDS)
    history = site.broker.figure_history
    for _ in range(3):
        history.tick(site.broker.hosts, site.clock())


async def ask(site: Site, query: str = "", user: str = "guest:guest") -> Any:
    answer = await site.get(f"{PATH}{query}", user=user)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def filled(site: Site) -> Site:
    queue = site.queue("q", ring_size=5)
    run_round(site)
    site.fill(queue, 25)
    run_round(site)
    return site


async def test_columns_of_a_queue(filled: Site) -> None:
    answer = await ask(filled, "?queue=q&vhost=/")
    assert (answer["vhost"], answer["queue"], answer["window"]) == ("/", "q", "hour")
    assert answer["times"][-1] == filled.clock() - filled.clock() % ROUND_MILLISECONDS
    last = {name: values[-1] for name, values in answer.items() if isinstance(values, list)}
    assert (last["published"], last["lost"], last["messages"], last["bytes"]) == (2.5, 2, 5, 50)
    assert answer["published"][-2] is None, "the first sample has no rate"
    assert list(answer["reasons"]) == ["replaced-ring"]
    assert {len(values) for values in answer.values() if isinstance(values, list)} == {len(answer["times"])}
    assert (await ask(filled, "?queue=q"))["times"] == answer["times"]
    assert (await ask(filled, "?queue=q&window=day"))["window"] == "day"


async def test_sums_of_virtual_hosts_and_the_broker(filled: Site) -> None:
    assert (await ask(filled, "?vhost=/"))["messages"][-1] == 5
    assert (await ask(filled, "?vhost=other"))["messages"][-1] == 0
    broker = await ask(filled)
    assert (broker["vhost"], broker["messages"][-1]) == (None, 5)
    assert (await ask(filled, user="watcher:pass"))["messages"][-1] == 5


async def test_a_user_gets_nothing_of_virtual_hosts_that_it_does_not_see(filled: Site) -> None:
    for query, status in (("", 403), ("?vhost=/", 404), ("?queue=q", 404), ("?vhost=other", 200)):
        answer = await filled.get(f"{PATH}{query}", user="manager:pass")
        assert answer.status_code == status, query
    assert (await filled.get(PATH, user=None)).status_code == 401


@pytest.mark.parametrize(
    ("query", "status"),
    [("?queue=none", 404), ("?vhost=none", 404), ("?queue=q&window=week", 400), ("?name=q", 400)],
)
async def test_others_are_refused(filled: Site, query: str, status: int) -> None:
    assert (await filled.get(f"{PATH}{query}")).status_code == status


async def test_a_queue_that_is_new_has_no_steps_yet(site: Site) -> None:
    site.queue("q")
    assert (await ask(site, "?queue=q"))["times"] == []


async def test_the_ticks_of_the_broker_sample(site: Site) -> None:
    site.fill(site.queue("q"), 3)
    for _ in range(2):
        site.clock.advance(ROUND_MILLISECONDS)
        site.broker.tick()
        site.broker.tick()
    assert (await ask(site, "?queue=q"))["messages"][-1] == 3
