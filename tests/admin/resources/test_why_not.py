"""Why not, over HTTP: all consumers or one, in words, with the selector's values."""

from __future__ import annotations

from annulet.core.base.settings import ConsumerSettings
from annulet.core.model.consumer import Consumer
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session
from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/shop/why-not"


def consume(site: Site, queue: Queue, tag: str, selector: str = "") -> None:
    session = Session("anna")
    session.attach(Consumer(session, queue, tag, settings=ConsumerSettings(selector=selector)), site.clock())


async def test_each_consumer_with_its_findings(site: Site) -> None:
    queue = site.queue("shop")
    consume(site, queue, "red", "colour = 'red'")
    consume(site, queue, "green", "colour = 'green'")
    site.publish("shop", colour="blue")
    queue.pause(site.clock())
    answer = (await site.get(PATH)).json()
    assert (answer["total_count"], [item["consumer"] for item in answer["items"]]) == (2, ["red", "green"])
    one = (await site.get(f"{PATH}?consumer=red")).json()
    (item,) = one["items"]
    assert one["filtered_count"] == 1
    assert (item["session"], item["deliverable"], item["message"], item["pending"]) == ("anna", False, 1, 1)
    assert [finding["obstacle"] for finding in item["findings"]] == ["queue paused", "selector does not match"]
    assert item["findings"][1]["text"] == "message 1 does not match the selector colour = 'red'"
    assert item["findings"][1]["details"] == ["colour = 'red': false", "  colour: 'blue'"]


async def test_unknown_consumers_and_who_may_ask(site: Site) -> None:
    queue = site.queue("shop")
    site.queue("till")
    assert await site.refused("GET", f"{PATH}?consumer=red") == (
        404, "no consumer 'red' of queue 'shop' in virtual host '/'; it has none"
    )  # fmt: skip
    consume(site, queue, "red")
    assert (await site.refused("GET", f"{PATH}?consumer=rad"))[1].endswith("did you mean 'red'?")
    status, reason = await site.refused("GET", "/api/v1/queues/%2F/till/why-not", user="shop:pass")
    assert status == 403
    assert "read access to 'till'" in reason
