from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from annulet.admin.rabbitmq.framework import listing
from annulet.admin.rabbitmq.framework.call import Call
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.query import Query
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError
from annulet.broker.turns.list_turns import TURN_SECONDS, Turns


class FakeCall:
    def __init__(self, **parameters: str) -> None:
        self.query = Query(parameters)


class Counted:
    """Ten thousand items whose parts count how often they were built."""

    def __init__(self, count: int = 10) -> None:
        self.rows = [f"row{(number * 7) % count:05}" for number in range(count)]
        self.built = {"name": 0, "figures": 0}
        self.parts: list[bytes] = []
        self.listing = Listing(
            (
                Part(frozenset({"name"}), self.build("name", lambda row: {"name": row})),
                Part(
                    frozenset({"size", "rates"}),
                    self.build("figures", lambda row: {"size": int(row[3:]) % 3, "rates": {"rate": int(row[3:])}}),
                    statistic=True,
                ),
            ),
            str,
        )

    def build(self, name: str, make: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
        def counted(row: str) -> dict[str, Any]:
            self.built[name] += 1
            return make(row)

        return counted

    async def ask(self, **parameters: str) -> Any:
        response = await self.listing.answer(cast("Call", FakeCall(**parameters)), self.rows)
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await response({"type": "http"}, cast("Any", None), send)
        start, *parts = sent
        self.parts = [part["body"] for part in parts if part["body"]]
        assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
        body = b"".join(self.parts)
        assert dict(start["headers"])[b"content-length"] == str(len(body)).encode()
        return json.loads(body)


async def test_without_a_page_the_list_is_bare() -> None:
    site = Counted(3)
    assert await site.ask() == [
        {"name": "row00000", "size": 0, "rates": {"rate": 0}},
        {"name": "row00001", "size": 1, "rates": {"rate": 1}},
        {"name": "row00002", "size": 2, "rates": {"rate": 2}},
    ]
    assert await site.ask(disable_stats="true", columns="name") == [{"name": row} for row in site.rows]


async def test_a_page_has_rabbitmqs_envelope() -> None:
    site = Counted(10)
    answer = await site.ask(page="2", page_size="3", name="ROW", columns="name")
    assert answer == {
        "filtered_count": 10,
        "item_count": 3,
        "items": [{"name": row} for row in site.rows[3:6]],
        "page": 2,
        "page_count": 4,
        "page_size": 3,
        "total_count": 10,
    }
    with pytest.raises(ResourceError, match="from 1 to 4"):
        await site.ask(page="5", page_size="3")
    assert (await site.ask(page="1", name="nothing"))["page_count"] == 1


async def test_a_list_is_sorted_by_a_column_with_dots_both_ways() -> None:
    site = Counted(10)
    upwards = [item["name"] for item in await site.ask(sort="rates.rate", columns="name")]
    assert upwards == sorted(site.rows)
    downwards = await site.ask(sort="rates.rate", sort_reverse="true", columns="rates.rate")
    assert downwards == [{"rates": {"rate": number}} for number in range(9, -1, -1)]
    ties = [item["name"] for item in await site.ask(sort="size", columns="name")]
    assert ties == sorted(site.rows, key=lambda row: int(row[3:]) % 3)  # a stable sort


async def test_only_what_was_asked_for_is_built() -> None:
    site = Counted(2500)
    page = await site.ask(page="2", page_size="100", sort="size", columns="name")
    assert len(page["items"]) == 100
    assert site.built == {"name": 100, "figures": 2500}
    site.built = {"name": 0, "figures": 0}
    await site.ask(page="1", page_size="50", disable_stats="true")
    assert site.built == {"name": 50, "figures": 0}


async def test_a_long_answer_leaves_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "ANSWER_BYTES_AT_ONCE", 1000)
    site = Counted(500)
    assert len(await site.ask()) == 500
    assert len(site.parts) > 20
    assert max(map(len, site.parts)) < 1100


def test_the_first_long_answer_imports_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, sys\n"
        "from annulet.admin.rabbitmq.framework.listing import ANSWER_BYTES_AT_ONCE, respond\n"
        "async def send(message): pass\n"
        "before = set(sys.modules)\n"
        "asyncio.run(respond(b'[', [b'1' * ANSWER_BYTES_AT_ONCE] * 2, b']')({'type': 'http'}, None, send))\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    assert subprocess.check_output([sys.executable, str(program)], text=True) == "[]\n"


def names(*columns: str) -> str:
    return ",".join(columns)


async def test_columns_are_bounded_and_named_in_errors() -> None:
    site = Counted(2)
    assert await site.ask(columns=names("name", "rates.rate", "rates")) == await site.ask(columns="name,rates")
    for wrong in (".", "a..b", "a.b.c.d.e.f"):
        with pytest.raises(ResourceError, match="field 'columns'"):
            await site.ask(columns=wrong)
    with pytest.raises(ResourceError, match="field 'sort'"):
        await site.ask(sort="..")
    with pytest.raises(ResourceError, match="field 'columns'"):
        await site.ask(columns=names(*map(str, range(101))))


async def test_a_long_list_gives_turns_while_it_is_filtered_sorted_and_built(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:  # each look at it takes 100 µs of this time: twenty items a turn
        nonlocal now
        now += TURN_SECONDS / 20
        return now

    monkeypatch.setattr(listing, "Turns", lambda: Turns(clock))
    site = Counted(2000)
    most = last = 0

    async def watch() -> None:
        nonlocal most, last
        while True:
            most, last = max(most, sum(site.built.values()) - last), sum(site.built.values())
            await asyncio.sleep(0)

    watching = asyncio.get_running_loop().create_task(watch())
    await asyncio.sleep(0)
    await site.ask(sort="size")
    watching.cancel()
    assert site.built == {"name": 2000, "figures": 4000}
    assert most <= 2 * 21, "items built without a turn for others"


async def test_one_item_with_many_details() -> None:
    site = Counted(2)

    async def ask(**parameters: str) -> Any:
        call = cast("Call", FakeCall(**parameters))
        response = await site.listing.one_with(call, "row00001", "details", ({"n": n} for n in range(3)))
        return json.loads(bytes(response.body))

    details = [{"n": 0}, {"n": 1}, {"n": 2}]
    assert await ask(columns="details") == {"details": details}
    assert await ask(columns="name,details") == {"name": "row00001", "details": details}
    assert await ask(columns="name") == {"name": "row00001"}
    assert await ask() == {"name": "row00001", "size": 1, "rates": {"rate": 1}, "details": details}
