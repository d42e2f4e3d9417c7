"""Actions of the console, each checked through a client or the API and not through the page."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def test_a_queue_is_made_filled_and_consumed_by_hand(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("queues", "Queues")
    chromium.click(role="button", name="Make a queue")
    chromium.fill(selector="dialog input >> nth=0", value="by-hand")
    chromium.fill(label="Keep the last N messages", exact=False, value="5")
    chromium.accessible()
    chromium.click(role="button", name="Make it")
    chromium.wait(role="heading", name="by-hand")
    assert place.api("GET", "queues/%2F/by-hand")["arguments"] == {"x-ring-size": 5}

    chromium.visit("publish?queue=by-hand", "Publish and consume")
    chromium.fill(selector="textarea[name=body]", value='{"hello": "\u202eworld"}')
    chromium.fill(selector="input[name=headers]", value='{"region": "eu"}')
    chromium.click(role="button", name="Publish")
    chromium.told("one queue took it")
    method, properties, body = place.channel.basic_get("by-hand")
    assert (body.decode(), properties.headers) == ('{"hello": "\u202eworld"}', {"region": "eu"})
    place.channel.basic_nack(method.delivery_tag, requeue=True)

    chromium.click(role="button", name="Show the next message")
    chromium.click(role="button", name="Take it")
    chromium.told("taken")
    assert place.depth("by-hand") == 0
    chromium.click(role="button", name="Undo")
    chromium.told("1 message brought back")
    assert place.depth("by-hand") == 1
    chromium.sound()


def test_a_purge_shows_its_count_first_and_is_undone(place: Place, chromium: Browser) -> None:
    place.fill("purged", 7)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/purged", "purged")
    chromium.click(role="button", name="Purge")
    chromium.wait(text="7 messages would be purged", exact=False)
    chromium.accessible()
    assert place.depth("purged") == 7
    chromium.click(role="button", name="Purge 7 messages")
    chromium.wait(text="Finished", exact=False)
    assert place.depth("purged") == 0
    chromium.click(role="button", name="Undo")
    chromium.told("7 messages brought back")
    assert place.depth("purged") == 7


def test_chosen_messages_are_moved(place: Place, chromium: Browser) -> None:
    place.fill("from", 4)
    place.fill("to", 0)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/from?tab=messages", "from")
    chromium.check(label="Choose message 2")
    chromium.check(label="Choose message 3")
    chromium.click(role="button", name="Move")
    chromium.fill(label="To the queue", value="to")
    chromium.click(role="button", name="Preview")
    chromium.click(role="button", name="Move 2 messages")
    chromium.wait(text="Finished", exact=False)
    assert (place.depth("from"), place.depth("to")) == (2, 2)


def test_dead_letters_go_back_to_where_they_died(place: Place, chromium: Browser) -> None:
    before, dead = place.depth("orders"), place.depth("orders.dead")
    assert dead == 4
    chromium.sign_in(place.url)
    chromium.visit("dead-letters", "Dead letters")
    chromium.click(role="button", name="Look and send back")
    chromium.wait(text="rejected by a consumer")
    chromium.click(role="button", name="Send all back to where they died")
    chromium.click(role="button", name="Retry 4 messages")
    chromium.wait(text="Finished", exact=False)
    assert (place.depth("orders"), place.depth("orders.dead")) == (before + 4, 0)
    chromium.click(role="button", name="Undo")
    chromium.told("4 messages brought back")
    assert place.depth("orders.dead") == 4


def test_a_queue_is_paused_resumed_and_deleted(place: Place, chromium: Browser) -> None:
    place.fill("short-lived", 2)
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/short-lived", "short-lived")
    chromium.click(role="button", name="Pause")
    chromium.wait(role="button", name="Resume")
    assert place.api("GET", "queues/%2F/short-lived")["paused"]
    chromium.click(role="button", name="Resume")
    chromium.wait(role="button", name="Pause")
    chromium.click(role="button", name="Delete the queue")
    chromium.wait(text="2 messages would be gone", exact=False)
    chromium.click(role="button", name="Delete it")
    chromium.wait(role="heading", name="Queues")
    assert place.api("GET", "queues?name=short-lived")["items"] == []


def test_a_setting_shows_what_it_would_drop_before_it_is_changed(place: Place, chromium: Browser) -> None:
    place.fill("ring", 9, **{"x-ring-size": 10})
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/ring?tab=settings", "ring")
    chromium.click(role="button", name="Change")
    chromium.fill(selector="input[name=value]", value="4")
    chromium.click(role="button", name="Show what it would do")
    chromium.wait(text="5 messages are beyond the ring", exact=False)
    assert place.api("GET", "queues/%2F/ring")["arguments"] == {"x-ring-size": 10}
    chromium.click(role="button", name="Change it")
    chromium.told("Changed ring-size")
    assert place.api("GET", "queues/%2F/ring")["arguments"] == {"x-ring-size": 4}


def test_a_connection_is_closed_with_a_reason(place: Place, chromium: Browser) -> None:
    victim = pika.BlockingConnection(pika.URLParameters(f"{place.process.amqp_url}?heartbeat=0"))
    name = place.api("GET", "connections?sort=connected_at&sort_reverse=true")["items"][0]["name"]
    chromium.sign_in(place.url)
    chromium.visit("connections", "Connections")
    chromium.click(selector=f'tr:has-text("{name}") button')
    chromium.fill(label="Reason", exact=False, value="maintenance <now>")
    chromium.click(selector="dialog button.danger")
    chromium.told("Close: done")
    with pytest.raises(ConnectionClosedByBroker, match="maintenance <now>"):
        victim.process_data_events(time_limit=30)


def test_users_policies_and_definitions(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("users", "Users and permissions")
    chromium.click(role="button", name="Make a user")
    chromium.fill(selector="dialog input >> nth=0", value="newcomer")
    chromium.fill(label="Password", exact=False, value="secret")
    chromium.check(label="monitoring")
    chromium.click(role="button", name="Save")
    chromium.told("Saved the user newcomer")
    assert place.api("GET", "users/newcomer")["tags"] == ["monitoring"]

    chromium.visit("policies", "Policies")
    chromium.click(role="button", name="Make a policy")
    chromium.fill(selector="dialog input >> nth=0", value="of-the-page")
    chromium.fill(label="Queues", exact=False, value="^board")
    chromium.fill(label="Sets", exact=False, value='{"message-ttl": 5000}')
    chromium.click(role="button", name="Show which queues it matches")
    chromium.wait(text="Matches 1 queues: board", exact=False)
    chromium.click(role="button", name="Save")
    chromium.told("Saved")
    assert place.api("GET", "policies/%2F/of-the-page")["definition"] == {"message-ttl": 5000}
    place.api("DELETE", "policies/%2F/of-the-page")

    chromium.visit("definitions", "Definitions")
    document = '{"queues": [{"vhost": "/", "name": "planned", "durable": true, "arguments": {}}]}'
    chromium.fill(label="Document", value=document)
    chromium.click(role="button", name="Plan")
    chromium.wait(role="cell", name="planned")
    assert place.api("GET", "queues?name=planned")["items"] == []
    chromium.click(role="button", name="Apply 1 steps")
    chromium.click(selector="dialog button.primary")
    chromium.told("Applied: 1 steps")
    assert place.api("GET", "queues/%2F/planned")["durable"]


def test_bindings_are_made_tested_and_undone(place: Place, chromium: Browser) -> None:
    place.fill("bound", 0)
    chromium.sign_in(place.url)
    chromium.visit("routing/%2F/events", "events")
    chromium.fill(label="Named", value="bound")
    chromium.fill(label="With the key", value="a.*")
    chromium.click(role="button", name="Bind")
    chromium.told("Bound")
    place.channel.basic_publish("events", "a.b", b"x")
    chromium.visit("routing?tab=test&exchange=events&host=%2F&key=a.c", "Exchanges and routes")
    chromium.click(role="button", name="Test")
    chromium.wait(selector=".well:has-text('It would go to bound')")
    assert place.depth("bound") == 1
    chromium.visit("routing/%2F/events", "events")
    chromium.click(selector="tr:has-text('a.*') button")
    chromium.click(selector="dialog button.danger")
    chromium.told("Unbound")
    found = place.api("GET", "bindings?source=events&destination=bound")["items"]
    assert found == []
