"""Pages, cursors, columns and orders of a list, with the queues as its items."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote

import pytest
from starlette.requests import Request

from annulet.admin.interface.call import Call
from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.requests.columns import Part
from annulet.admin.resources.queues import LISTING
from annulet.broker.broker import Broker
from annulet.broker.security.authentication import User
from annulet.broker.turns.list_turns import TURN_SECONDS, Turns
from tests.admin.conftest import Site

PATH = "/api/v1/queues?columns=name,messages"


async def page(site: Site, query: str) -> dict[str, Any]:
    answer = await site.get(f"{PATH}&{query}")
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def names(answer: dict[str, Any]) -> list[str]:
    return [item["name"] for item in answer["items"]]


async def walk(site: Site, query: str) -> list[str]:
    """Follow the cursors to the end."""
    answer = await page(site, query)
    found = names(answer)
    while "next" in answer:
        answer = await page(site, f"{query}&cursor={quote(answer['next'])}")
        found += names(answer)
    return found


@pytest.mark.parametrize("order", ["", "&sort_reverse=true", "&sort=messages", "&sort=messages&sort_reverse=true"])
async def test_cursors_cover_everything_once_in_the_order(site: Site, order: str) -> None:
    for number in range(23):
        site.fill(site.queue(f"q{number:02}"), number % 3)
    whole = names(await page(site, f"page_size=500{order}"))
    assert await walk(site, f"page_size=4{order}") == whole
    assert sorted(whole) == [f"q{number:02}" for number in range(23)]
    if "messages" in order:
        counts = [int(name[1:]) % 3 for name in whole]
        assert counts == sorted(counts, reverse="reverse" in order)


async def test_items_that_come_and_go_move_no_others(site: Site) -> None:
    for number in range(6):
        site.queue(f"q{number}")
    first = await page(site, "page_size=3")
    host = site.broker.hosts["/"]
    host.delete_queue(host.queues["q0"], site.clock())
    host.delete_queue(host.queues["q2"], site.clock())
    site.queue("a")
    second = await page(site, f"page_size=3&cursor={first['next']}")
    assert (names(first), names(second), "next" in second) == (["q0", "q1", "q2"], ["q3", "q4", "q5"], False)


async def test_only_the_wanted_columns(site: Site) -> None:
    site.queue("q")
    assert (await page(site, ""))["items"] == [{"name": "q", "messages": 0}]
    (item,) = (await site.get("/api/v1/queues")).json()["items"]
    known = {name for part in LISTING.parts for name in part.names}
    assert set(item) == known


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sort=mesages", "sort='mesages' is no column; did you mean 'messages'?"),
        ("columns=name,mesages", "columns: 'mesages' is no column; did you mean 'messages'?"),
        ("sort=a..b", "field 'sort': value 'a..b'"),
        ("page=1&cursor=x", "'page' and 'cursor' are given; give one of them"),
        ("cursor=x", "cursor='x' is none"),
        ("sort_reverse=1", "sort_reverse='1' is not true or false"),
    ],
)
async def test_wrong_queries_are_refused_by_name(site: Site, query: str, words: str) -> None:
    status, reason = await site.refused("GET", f"/api/v1/queues?{query}")
    assert (status, words in reason) == (400, True), reason


async def test_a_cursor_belongs_to_its_order(site: Site) -> None:
    for number in range(3):
        site.queue(f"q{number}")
    cursor = (await page(site, "page_size=1"))["next"]
    _, reason = await site.refused("GET", f"/api/v1/queues?page_size=1&sort=name&cursor={cursor}")
    assert "is of another list or order" in reason


async def test_long_lists_are_sorted_in_runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.admin.interface.listing.SORTED_AT_ONCE", 4)
    for number in range(19):
        site.queue(f"q{(number * 7) % 19:02}")
    assert await walk(site, "page_size=5") == [f"q{number:02}" for number in range(19)]


class Counted:
    """Items whose parts count how often they were built."""

    def __init__(self, count: int) -> None:
        self.rows = [f"row{(number * 7) % count:05}" for number in range(count)]
        self.built = {"name": 0, "size": 0}
        self.listing: Listing[str] = Listing(
            (
                Part(frozenset({"name"}), self.build("name", lambda row: row)),
                Part(frozenset({"size"}), self.build("size", lambda row: int(row[3:]) % 100)),
            ),
            lambda row: (row,),
            (str,),
            lambda row: row,
        )

    def build(self, name: str, value: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
        def built(row: str) -> dict[str, Any]:
            self.built[name] += 1
            return {name: value(row)}

        return built

    async def ask(self, **given: Any) -> dict[str, Any]:
        """Ask for a list, as a request whose parameters the table has read."""
        request = Request({"type": "http", "query_string": b"", "headers": []})
        defaults = {value.name: value.default for value in LIST_PARAMETERS if value.default is not None}
        call = Call(request, cast("Broker", None), cast("User", None), {}, {**defaults, **given})
        answer = await self.listing.answer(call, self.rows)
        content: dict[str, Any] = json.loads(bytes(answer.body))
        return content


async def test_a_page_of_ten_thousand_builds_the_wanted_parts_of_its_items_only() -> None:
    site = Counted(10_000)
    answer = await site.ask(page_size=100, columns="name")
    assert (answer["item_count"], answer["total_count"], site.built) == (100, 10_000, {"name": 100, "size": 0})


async def test_sorting_ten_thousand_builds_the_sorted_part_once_for_each() -> None:
    site = Counted(10_000)
    answer = await site.ask(page_size=100, columns="name", sort="size", sort_reverse=True)
    assert site.built == {"name": 100, "size": 10_000}
    assert {int(item["name"][3:]) % 100 for item in answer["items"]} == {99}


async def test_a_long_list_gives_turns_while_it_is_filtered_sorted_and_built(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:  # each look at it takes 50 µs of this time: twenty items a turn
        nonlocal now
        now += TURN_SECONDS / 20
        return now

    monkeypatch.setattr("annulet.admin.interface.listing.Turns", lambda: Turns(clock))
    site = Counted(2000)
    most = last = 0

    async def watch() -> None:
        nonlocal most, last
        while True:
            most, last = max(most, sum(site.built.values()) - last), sum(site.built.values())
            await asyncio.sleep(0)

    watching = asyncio.get_running_loop().create_task(watch())
    await asyncio.sleep(0)
    await site.ask(sort="size", page_size=500)
    watching.cancel()
    assert site.built == {"name": 500, "size": 2500}
    assert most <= 2 * 21, "items built without a turn for others"
