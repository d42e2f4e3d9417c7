"""Messages of a queue: a search that is stopped, forms of a body, operations on chosen ones and on all."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest

from tests.clients.amqp10 import Client, rhea_missing, rhea_process, value
from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def _done(place: Place, queue: str, operation: str, **fields: Any) -> dict[str, Any]:
    """Do an operation over the API and wait for its end."""
    where = f"queues/%2F/{queue}/operations"
    state: dict[str, Any] = place.api("POST", where, {"operation": operation, **fields})
    while state["state"] == "running":
        time.sleep(0.02)
        state = place.api("GET", f"{where}/{state['id']}?page_size=1")
    return state


def test_a_search_shows_its_progress_and_is_stopped(place: Place, chromium: Browser) -> None:
    place.channel.queue_declare("haystack")
    place.channel.queue_declare("haystack.copies")
    # one long body in many copies, which share it: a text is searched in each
    place.channel.basic_publish(
        "", "haystack", ("ä" * 500_000).encode(), pika.BasicProperties(content_type="text/plain")
    )
    for number in range(15):
        pair = ["haystack", "haystack.copies"]
        origin, target = pair if number % 2 == 0 else reversed(pair)
        _done(place, origin, "copy", destination=target, everything=True, undo=False)
    depth = place.depth("haystack.copies")
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/haystack.copies?tab=messages", "haystack.copies")
    chromium.fill(label="Text in header or body", value="needle")
    chromium.click(role="button", name="Find in all")
    chromium.wait(selector="dialog p:has-text('Searching')")
    chromium.click(selector="dialog button:text-is('Stop')")
    chromium.wait(selector="dialog p:has-text('cancelled')")
    chromium.accessible()
    found = place.api("GET", "queues/%2F/haystack.copies/operations")["items"]
    (search,) = (one for one in found if one["operation"] == "find")
    assert (search["state"], search["done"]) == ("cancelled", 0)
    assert search["seen"] < depth
    assert place.depth("haystack.copies") == depth
    for queue in ("haystack", "haystack.copies"):
        place.channel.queue_delete(queue)
    chromium.sound()


@pytest.mark.skipif(bool(rhea_missing()), reason=rhea_missing() or "rhea")
def test_a_map_of_amqp_1_0_is_a_tree(place: Place, chromium: Browser) -> None:
    place.channel.queue_declare("shapes", durable=True)
    driver = rhea_process()
    with driver:
        client = Client(driver, place.process.amqp_url)
        sender = client.connect().sender("shapes")
        sender.send(value({"city": "Bonn\u202e", "rooms": [{"beds": 2}, {"beds": 3}], "open": True}))
        sender.send(value(["first", 2]))
        client.close()
    place.channel.basic_publish("", "shapes", b'{"a": 1}', pika.BasicProperties(content_type="application/json"))
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/shapes?tab=messages&message=1", "shapes")
    chromium.wait(selector="dialog details.tree summary:has-text('map of 3')")
    chromium.wait(selector="dialog .tree li:has-text('city') code:has-text('\"Bonn\\\\u202e\"')")
    chromium.click(selector="dialog .tree summary:has-text('rooms: list of 2')")
    chromium.wait(selector="dialog .tree li:has-text('beds') bdi:text-is('3')", state="hidden")
    chromium.click(selector="dialog .tree summary:has-text('rooms: list of 2')")
    chromium.wait(selector="dialog .tree li:has-text('beds') bdi:text-is('3')")
    chromium.accessible()
    chromium.click(role="button", name="Hex")
    chromium.wait(selector="dialog pre:has-text('00000000')")
    chromium.visit("queues/%2F/shapes?tab=messages&message=2", "shapes")
    chromium.wait(selector="dialog details.tree summary:has-text('list of 2')")
    chromium.visit("queues/%2F/shapes?tab=messages&message=3", "shapes")
    chromium.wait(selector="dialog pre:has-text('\"a\": 1')")
    chromium.click(role="button", name="Text")
    chromium.wait(selector="dialog pre bdi:text-is('{\"a\": 1}')")
    chromium.sound()
