"""Looking into a queue over HTTP: in order, bounded, without taking anything."""

from __future__ import annotations

import asyncio
import base64

import pytest

from annulet.broker.operation.looking import LOOKS_MAX, SLICE, Sample
from annulet.core.management import select
from annulet.core.message.message import ContentView, Message, Origin, PropertyValue
from annulet.core.message.neutral_content import BODY_TEXT, MessageContent
from annulet.store.database.definitions import PermissionRecord
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from tests.admin.conftest import ORIGIN, PASSWORD_HASH, Site

PATH = "/api/v1/queues/%2F/shop/messages"


async def test_pending_in_order_of_dispatch_then_scheduled_then_in_delivery(site: Site) -> None:
    queue = site.queue("shop", priorities=10, last_value_key="item")
    site.publish("shop", b"held", item="a")
    queue.acquire(1, -1, site.clock())
    site.publish("shop", b"low", priority=1, item="b")
    site.publish("shop", b"later", delay=500)
    site.publish("shop", b"high", priority=7)
    answer = (await site.get(PATH)).json()
    assert [(item["id"], item["state"]) for item in answer["items"]] == [
        (4, "pending"), (2, "pending"), (3, "scheduled"), (1, "delivering")
    ]  # fmt: skip
    assert (answer["looked"], answer["complete"], answer["unreadable"]) == (4, True, 0)
    high, low, later, _ = answer["items"]
    assert (high["size"], high["priority"], high["key"], low["key"]) == (4, 7, "", "b")
    assert later["deliver_at"] == site.clock() + 500
    assert (low["routing_key"], low["publisher"], low["durable"], low["delivery_count"]) == (
        "shop", "guest@test", False, 0
    )  # fmt: skip
    assert "body" not in high
    assert queue.order.count == 2


async def test_selector_state_and_limit(site: Site) -> None:
    site.queue("shop")
    for number in range(3 * SLICE):
        site.publish("shop", number=number)
    site.publish("shop", delay=5, number=-1)

    async def ids(query: str) -> tuple[list[int], bool]:
        answer = (await site.get(f"{PATH}?{query}")).json()
        return [item["id"] for item in answer["items"]], answer["complete"]

    assert await ids("limit=2") == ([1, 2], False)
    assert await ids(f"selector=number%20%3E%20{3 * SLICE - 2}") == ([3 * SLICE], True)
    assert await ids("state=scheduled") == ([3 * SLICE + 1], True)
    assert await ids("state=delivering") == ([], True)


async def test_a_body_that_is_no_octets_is_shown_as_its_payload_with_its_protocol(site: Site) -> None:
    queue = site.queue("shop")
    content = MessageContent()
    content.body_kind, content.body = BODY_TEXT, "text"
    queue.enqueue(Message(*from_content(content), Origin("", "shop", "", AMQP_1_0), accepted_at=1), site.clock())
    site.publish("shop", b"octets")
    items = (await site.get(f"{PATH}?body_bytes=4")).json()["items"]
    assert [(item["protocol"], base64.b64decode(item["body"]), item["body_complete"]) for item in items] == [
        ("amqp-1.0", b"text", True), ("amqp-0-9-1", b"octe", False)
    ]  # fmt: skip


async def test_bodies_up_to_a_bound(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"0123456789")
    (item,) = (await site.get(f"{PATH}?body_bytes=4")).json()["items"]
    assert (base64.b64decode(item["body"]), item["body_complete"], item["size"]) == (b"0123", False, 10)
    (item,) = (await site.get(f"{PATH}?body_bytes=10")).json()["items"]
    assert item["body_complete"]


class UnreadableView(ContentView):
    """Of a protocol whose content may be malformed."""

    def application_property(self, message: Message, name: str) -> PropertyValue:
        raise ValueError(name)


async def test_expired_messages_are_not_there_and_unreadable_ones_are_counted(site: Site) -> None:
    queue = site.queue("shop")
    queue.enqueue(Message(b"", b"", ORIGIN, accepted_at=site.clock(), expires_at=site.clock() + 5), site.clock())
    unreadable = Message(
        b"", b"", Origin("", "shop", "guest@test", UnreadableView("unreadable")), accepted_at=site.clock()
    )
    queue.enqueue(unreadable, site.clock())
    site.clock.advance(5)
    answer = (await site.get(f"{PATH}?selector=colour%20IS%20NULL")).json()
    assert (answer["items"], answer["unreadable"], answer["looked"]) == ([], 1, 2)


async def test_it_gives_up_after_so_many(site: Site) -> None:
    queue = site.queue("shop")
    site.fill(queue, 2)
    sample = Sample(queue, select(everything=True), None, 5)
    sample.looked = LOOKS_MAX - 1
    assert sample.step(site.clock())
    assert (len(sample.items), sample.complete) == (1, False)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "limit='0' is not an integer from 1 to 500"),
        ("body_bytes=5000", "body_bytes='5000' is not an integer from 0 to 4096"),
        ("state=pendin", "state='pendin' is unknown; did you mean 'pending'?"),
        ("selector=a%20%3D", "invalid selector: character"),
        ("selectr=a", "unknown query parameter 'selectr'; did you mean 'selector'?"),
    ],
)
async def test_bad_parameters(site: Site, query: str, words: str) -> None:
    site.queue("shop")
    status, reason = await site.refused("GET", f"{PATH}?{query}")
    assert status == 400
    assert words in reason


async def test_who_may_read(site: Site) -> None:
    for name in ("shop", "till"):
        site.queue(name)
    for user, name, status in (("shop:pass", "shop", 200), ("shop:pass", "till", 403), ("watcher:pass", "till", 200)):
        assert (await site.send("GET", f"/api/v1/queues/%2F/{name}/messages", user=user))[0] == status


async def test_a_look_that_is_given_up_half_way_holds_nothing(site: Site) -> None:
    queue = site.queue("shop")
    for number in range(8 * SLICE):
        site.publish("shop", number=number)
    look = asyncio.create_task(site.get(f"{PATH}?selector=number%20%3C%200"))
    for _ in range(1_000_000):  # turns; the request has its way to go
        if queue.pinned_upto:
            break
        await asyncio.sleep(0)
    assert queue.pinned_upto == 8 * SLICE
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert queue.pinned_upto == 0


async def test_a_whole_message(site: Site) -> None:
    queue = site.queue("shop")
    site.publish("shop", b'{"a": 1}', colour="red")
    status, shown = await site.send("GET", f"{PATH}/1?body=json")
    assert (status, shown["body"], shown["headers"], shown["id"]) == (200, {"a": 1}, {"colour": "red"}, 1)
    status, shown = await site.send("GET", f"{PATH}/1?offset=2&length=3")
    assert (status, shown["body"], shown["body_complete"]) == (200, 'a":', False)
    assert queue.order.count == 1


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/2", 404, "no message 2 in queue 'shop'"),
        ("/0", 404, "messages have whole numbers from 1"),
        ("/x", 404, "no message 'x'"),
        ("/1?body=jsn", 400, "body='jsn' is unknown; did you mean 'json'?"),
        ("/1?length=0", 400, "length='0' is not an integer from 1 to 1048576"),
        ("/1?ofset=0", 400, "unknown query parameter 'ofset'; did you mean 'offset'?"),
        ("/1?body=json", 400, "the body of message 1 is no JSON"),
        ("?skip=100001", 400, "skip='100001' is not an integer from 0 to 100000"),
        ("?since=a", 400, "since='a' is not an integer"),
    ],
)
async def test_bad_requests_for_one(site: Site, path: str, status: int, words: str) -> None:
    site.queue("shop")
    site.publish("shop", b"{")
    found, reason = await site.refused("GET", f"{PATH}{path}")
    assert found == status
    assert words in reason


async def test_conditions_and_position(site: Site) -> None:
    site.queue("shop", last_value_key="item")
    begun = site.clock()
    for item in ("a", "b"):
        site.publish("shop", f"body of {item}".encode(), item=item)
    site.clock.advance(5)
    site.publish("shop", b"body of c", item="c")

    async def ids(query: str) -> list[int]:
        return [item["id"] for item in (await site.get(f"{PATH}?{query}")).json()["items"]]

    assert await ids("key=b") == [2]
    assert await ids(f"since={begun + 5}") == [3]
    assert await ids(f"until={begun + 5}") == [1, 2]
    assert await ids("skip=1&limit=1") == [2]
    assert await ids("text=of%20c") == [3]
    assert await ids("first_id=2&last_id=2") == [2]


async def test_permission_to_browse_is_enough_and_is_taken_back(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"x")
    directory = site.broker.access_directory
    directory.set_user("looker", ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord("looker", "/", "", "", "", browse="^shop$"))
    for path in (PATH, f"{PATH}/1"):
        assert await site.status("GET", path, user="looker:pass") == 200
    assert await site.status("POST", "/api/v1/queues/%2F/shop/pause", user="looker:pass") == 403
    directory.set_permission(PermissionRecord("looker", "/", "", "", ""))
    for path in (PATH, f"{PATH}/1"):
        assert await site.status("GET", path, user="looker:pass") == 403


async def test_deaths_are_there_when_they_are_asked_for(site: Site) -> None:
    site.queue("shop")
    origin = site.queue("origin", dead_letter_exchange="", dead_letter_routing_key="shop")
    for _ in range(60):
        site.publish("origin", b"x")
    while delivery := origin.acquire(1, -1, site.clock()):
        for entry in delivery:
            origin.reject(entry, site.clock())
    items = (await site.get(f"{PATH}?deaths=true&limit=500")).json()["items"]
    assert len(items) == 60
    assert {(item["deaths"][0]["queue"], item["deaths"][0]["reason"]) for item in items} == {("origin", "rejected")}
    assert "deaths" not in (await site.get(PATH)).json()["items"][0]
