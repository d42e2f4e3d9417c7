"""Actions of administrators and on many things at once, each checked through a client or the API."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request

import pika
import pytest

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.protocol import ExtendLease, OpenLease
from annulet.bulk.protocol.url import parse_url
from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def test_the_frames_of_a_connection_are_traced(place: Place, chromium: Browser) -> None:
    traced = pika.BlockingConnection(pika.URLParameters(f"{place.process.amqp_url}?heartbeat=0"))
    name = place.api("GET", "connections?sort=connected_at&sort_reverse=true")["items"][0]["name"]
    chromium.sign_in(place.url)
    chromium.visit("connections", "Connections")
    chromium.click(role="link", name=name)
    chromium.check(label="with bodies")
    chromium.click(role="button", name="Trace the frames")
    chromium.wait(role="button", name="End the trace")
    assert place.api("GET", "traces")["items"][0]["bodies"]
    traced.channel().basic_publish("", "nowhere", b"seen in the trace")
    chromium.wait(selector="pre[aria-label=Frames]:has-text('basic.publish')")
    chromium.wait(selector="pre[aria-label=Frames]:has-text('body of 17 octets 73 65 65 6e')")
    chromium.accessible()
    chromium.click(role="button", name="End the trace")
    chromium.told("The trace has ended")
    assert place.api("GET", "traces")["items"] == []
    traced.close()
    chromium.sound()


def test_a_token_logs_in_until_it_is_revoked(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("tokens", "Tokens")
    chromium.click(role="button", name="Make a token")
    chromium.fill(selector="dialog input >> nth=0", value="of-the-page")
    chromium.check(label="administrator")
    chromium.accessible()
    chromium.click(role="button", name="Make it")
    chromium.wait(role="heading", name="The new token")
    token = chromium.read(selector="dialog pre").strip()
    login = base64.b64encode(f"guest:{token}".encode()).decode()
    request = urllib.request.Request(f"{place.url}/api/v1/overview", headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["product"]
    chromium.click(selector="dialog button.primary")
    chromium.click(selector="tr:has-text('of-the-page') button:has-text('Revoke')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Revoked")
    assert place.api("GET", "tokens")["items"] == []
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)


def test_a_virtual_host_is_made_and_deleted(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("hosts", "Virtual hosts")
    chromium.fill(label="Name", value="trial")
    chromium.fill(label="Description", value="for a test")
    chromium.click(role="button", name="Make a virtual host")
    chromium.told("Made the virtual host trial")
    assert place.api("GET", "virtual-hosts/trial")["description"] == "for a test"
    place.api("PUT", "permissions/trial/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    url = place.process.amqp_url + "/trial?heartbeat=0"
    pika.BlockingConnection(pika.URLParameters(url)).close()
    chromium.click(selector="tr:has-text('trial') button.danger")
    chromium.wait(selector="dialog:has-text('0 queues with all messages are gone')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Deleted")
    assert [one["name"] for one in place.api("GET", "virtual-hosts")["items"]] == ["/"]
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(url))


def test_a_lease_of_spark_is_shown_running_and_released(place: Place, chromium: Browser) -> None:
    place.fill("leased", 5)
    client = BulkClient(parse_url(place.process.bulk_url), retry_seconds=0)
    try:
        opened = client.act(OpenLease(queue="leased", lease="nightly", owner="query", fresh=True))
        client.act(ExtendLease(lease="nightly", generation=opened["generation"], start=0, messages_max=3))
        chromium.sign_in(place.url)
        chromium.visit("leases", "Spark leases")
        chromium.wait(selector="tr:has-text('nightly'):has-text('runs'):has-text('guest')")
        place.channel.basic_get("leased")
        assert place.api("GET", "leases")["items"][0]["held"] == 3
        chromium.accessible()
        chromium.click(role="button", name="Release")
        chromium.wait(selector="dialog:has-text('The 3 messages of the lease return')")
        chromium.click(selector="dialog button.danger")
        chromium.told("Released")
        assert place.api("GET", "leases")["items"] == []
        assert place.depth("leased") == 4
    finally:
        client.close()


def test_a_divert_is_made_copies_and_is_deleted(place: Place, chromium: Browser) -> None:
    place.fill("watched", 0)
    place.fill("copies", 0)
    chromium.sign_in(place.url)
    chromium.visit("routing?tab=diverts", "Exchanges and routes")
    chromium.click(role="button", name="Make a divert")
    chromium.fill(selector="dialog input >> nth=0", value="watcher")
    chromium.fill(label="Of the address", value="watched")
    chromium.fill(label="To the addresses", exact=False, value="copies")
    chromium.fill(label="Only with", exact=False, value="region = 'eu'")
    chromium.accessible()
    chromium.click(role="button", name="Make it")
    chromium.told("Made the divert")
    for region in ("eu", "us"):
        place.channel.basic_publish("", "watched", b"x", pika.BasicProperties(headers={"region": region}))
    assert (place.depth("watched"), place.depth("copies")) == (2, 1)

    chromium.visit("routing?tab=test&exchange=amq.default&key=watched", "Exchanges and routes")
    chromium.click(role="button", name="Test")
    chromium.wait(selector="tr:has-text('watcher'):has-text(\"the filter of the divert refuses it: region = 'eu'\")")
    chromium.fill(label="Headers", exact=False, value='{"region": "eu"}')
    chromium.click(role="button", name="Test")
    chromium.wait(selector=".well:has-text('It would go to watched, copies')")
    chromium.accessible()
    assert (place.depth("watched"), place.depth("copies")) == (2, 1)

    chromium.visit("routing?tab=diverts", "Exchanges and routes")
    chromium.click(selector="tr:has-text('watcher') button")
    chromium.click(selector="dialog button.danger")
    chromium.told("Deleted")
    place.channel.basic_publish("", "watched", b"x", pika.BasicProperties(headers={"region": "eu"}))
    assert (place.depth("watched"), place.depth("copies")) == (3, 1)


def test_settings_of_addresses_and_of_the_broker_show_what_they_would_do(place: Place, chromium: Browser) -> None:
    place.fill("limited.here", 0)
    chromium.sign_in(place.url)
    chromium.visit("policies", "Policies")
    chromium.click(role="button", name="Make address settings")
    chromium.fill(label="Pattern of addresses", value="limited.#")
    chromium.fill(label="Sets", exact=False, value='{"max-delivery-attempts": 2}')
    chromium.click(role="button", name="Show which addresses it matches")
    chromium.wait(selector="dialog .warning")
    assert place.api("GET", "address-settings/%2F")["items"] == []
    chromium.click(role="button", name="Save")
    chromium.told("Saved")
    assert place.api("GET", "queues/%2F/limited.here")["settings"]["max_delivery_attempts"] == 2
    chromium.click(selector="tr:has-text('limited.#') button.danger")
    chromium.click(selector="dialog button.danger")
    chromium.told("Taken back")
    assert place.api("GET", "queues/%2F/limited.here")["settings"]["max_delivery_attempts"] != 2

    chromium.visit("settings?name=undo_seconds", "Broker settings")
    before = place.api("GET", "settings/undo_seconds")["value"]
    chromium.click(role="button", name="Change")
    chromium.fill(label="Value", exact=False, value="1200")
    chromium.click(role="button", name="Show what it would do")
    chromium.wait(selector=f"dialog .warning:has-text('It is {before} now and would be 1200')")
    assert place.api("GET", "settings/undo_seconds")["value"] == before
    chromium.click(role="button", name="Change it")
    chromium.told("Changed undo_seconds")
    assert place.api("GET", "settings/undo_seconds")["value"] == 1200
    chromium.click(role="button", name="Change")
    chromium.click(role="button", name="Let the configuration hold")
    chromium.told("The configuration holds again")
    assert place.api("GET", "settings/undo_seconds")["value"] == before


def test_actions_on_many_queues_show_their_sum_first(place: Place, chromium: Browser) -> None:
    names = ["bulk.one", "bulk.two", "bulk.three"]
    for number, name in enumerate(names, 1):
        place.fill(name, number)
    chromium.sign_in(place.url)
    chromium.visit("queues?name=bulk.&sort=name&reverse=", "Queues")
    for action, told in (("Pause", "0 consumers would get nothing"), ("Resume", "Consumers get messages again")):
        _choose(chromium, names)
        chromium.click(selector=f".card button:text-is('{action}')")
        chromium.wait(selector=f"dialog .warning:has-text('{told}')")
        chromium.click(selector="dialog button.primary")
        chromium.told(f"{action}: 3 queues done")
        paused = [place.api("GET", f"queues/%2F/{name}")["paused"] for name in names]
        assert paused == [action == "Pause"] * 3
    _choose(chromium, names[:2])
    chromium.click(selector=".card button:text-is('Purge')")
    chromium.wait(selector="dialog .warning:has-text('3 messages would be removed')")
    chromium.accessible()
    chromium.click(selector="dialog button.danger")
    chromium.told("Purge: 2 queues done")
    assert [place.depth(name) for name in names] == [0, 0, 3]
    _choose(chromium, names[:2])
    chromium.click(selector=".card button:text-is('Delete')")
    chromium.wait(selector="dialog .warning:has-text('2 queues and 0 messages would be gone')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Delete: 2 queues done")
    assert [one["name"] for one in place.api("GET", "queues?name=bulk.")["items"]] == ["bulk.three"]


def _choose(chromium: Browser, names: list[str]) -> None:
    for name in names:
        chromium.check(label=f"Choose {name}")


def test_a_search_of_a_deep_queue_shows_its_progress_and_stops(place: Place, chromium: Browser) -> None:
    place.fill("searched", 3)
    properties = pika.BasicProperties(content_type="text/plain")
    for number in range(40):
        place.channel.basic_publish("", "searched", f"needle {number}".encode(), properties)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/searched?tab=messages", "searched")
    chromium.fill(label="Text in header or body", value="needle 7")
    chromium.click(role="button", name="Find in all")
    chromium.wait(selector="dialog p:has-text('1 found among 43 of 43')")
    chromium.accessible()
    chromium.click(selector="dialog button.link:text-is('11')")
    chromium.wait(role="heading", name="Message 11 of searched")
    chromium.wait(selector="dialog pre:has-text('needle 7')")
    assert place.depth("searched") == 43


def test_a_slow_move_is_watched_stopped_and_undone(place: Place, chromium: Browser) -> None:
    place.fill("slow", 40)
    place.fill("slow.to", 0)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/slow", "slow")
    chromium.choose(role="combobox", name="Operation on messages", value="move")
    chromium.fill(label="To the queue", value="slow.to")
    chromium.fill(label="Rate", exact=False, value="1")
    chromium.click(role="button", name="Preview")
    chromium.click(role="button", name="Move 40 messages")
    chromium.wait(selector="dialog p:has-text('Running')")
    chromium.accessible()
    chromium.click(selector="dialog button:text-is('Stop')")
    chromium.told("Stopped; what was changed stays changed")
    chromium.wait(selector="dialog button:text-is('Undo')")
    moved = place.depth("slow.to")
    assert 1 <= moved < 40
    assert place.depth("slow") == 40 - moved
    chromium.click(selector="dialog button:text-is('Undo')")
    chromium.told(f"{moved} message{'s' if moved > 1 else ''} brought back")
    assert (place.depth("slow"), place.depth("slow.to")) == (40, 0)
    chromium.sound()


def test_a_queue_is_keyed_by_another_property_after_a_preview(place: Place, chromium: Browser) -> None:
    place.channel.queue_declare("prices", durable=True, arguments={"x-last-value-key": "city"})
    for city, region in (("Bonn", "eu"), ("Rome", "eu"), ("Lima", "sa")):
        headers = pika.BasicProperties(headers={"city": city, "region": region})
        place.channel.basic_publish("", "prices", city.encode(), headers)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/prices?tab=keys", "prices")
    chromium.click(role="button", name="Key by another property …")
    chromium.fill(selector="dialog input >> nth=0", value="region")
    chromium.fill(label="New queue", value="prices.by-region")
    chromium.accessible()
    chromium.click(role="button", name="Make it and preview the move")
    chromium.wait(selector="dialog .warning:has-text('3 messages would be moved')")
    assert place.depth("prices") == 3
    chromium.click(role="button", name="Move 3 messages")
    chromium.wait(text="Finished", exact=False)
    assert place.api("GET", "queues/%2F/prices.by-region")["arguments"]["x-last-value-key"] == "region"
    assert (place.depth("prices"), place.depth("prices.by-region")) == (0, 2)
    keys = place.api("GET", "queues/%2F/prices.by-region/keys")["items"]
    assert {key["key"] for key in keys} == {"eu", "sa"}
    chromium.sound()
