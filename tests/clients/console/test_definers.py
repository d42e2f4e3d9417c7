"""What administrators define and end: users, permissions, policies, exchanges, consumers, traces, the log's level."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request

import pika
import pytest

from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def _signs_in(place: Place, user: str, password: str) -> bool:
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(f"{place.url}/api/v1/session", headers={"Authorization": f"Basic {login}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return bool(json.load(answer)["user"] == user)
    except urllib.error.HTTPError as refused:
        if refused.code != 401:
            raise
        return False


def test_users_and_permissions_are_changed_and_taken_away(place: Place, chromium: Browser) -> None:
    place.api("PUT", "users/clerk", {"password": "first", "tags": []})
    chromium.sign_in(place.url)
    chromium.visit("users", "Users and permissions")
    chromium.click(selector="tr:has-text('clerk') button:text-is('Change')")
    chromium.fill(label="Password", exact=False, value="second")
    chromium.check(label="management")
    chromium.click(role="button", name="Save")
    chromium.told("Saved the user clerk")
    assert place.api("GET", "users/clerk")["tags"] == ["management"]
    assert (_signs_in(place, "clerk", "first"), _signs_in(place, "clerk", "second")) == (False, True)

    chromium.click(role="button", name="Give permissions")
    chromium.fill(selector="dialog input >> nth=0", value="clerk")
    chromium.fill(label="configure", value="^desk")
    chromium.accessible()
    chromium.click(role="button", name="Give them")
    chromium.told("Permissions given")
    assert place.api("GET", "permissions/%2F/clerk")["configure"] == "^desk"
    permissions = "[aria-label=Permissions] tr:has-text('clerk')"
    chromium.click(selector=f"{permissions} button:text-is('Change')")
    chromium.fill(label="write", value="^desk")
    chromium.click(role="button", name="Give them")
    chromium.wait(selector=f"{permissions} td:nth-child(4):has-text('^desk')")
    assert place.api("GET", "permissions/%2F/clerk")["write"] == "^desk"
    chromium.click(selector=f"{permissions} button:text-is('Take away')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Taken away")
    assert [one for one in place.api("GET", "permissions")["items"] if one["user"] == "clerk"] == []
    chromium.click(selector="[aria-label=Users] tr:has-text('clerk') button:text-is('Delete')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Deleted")
    assert not _signs_in(place, "clerk", "second")
    chromium.sound()


def test_policies_and_address_settings_are_changed_and_deleted(place: Place, chromium: Browser) -> None:
    place.fill("ruled", 0)
    place.api("PUT", "policies/%2F/ruling", {"pattern": "^ruled", "definition": {"message-ttl": 1000}})
    place.api("PUT", "address-settings/%2F/ruled.%23", {"max-delivery-attempts": 3})
    chromium.sign_in(place.url)
    chromium.visit("policies", "Policies")
    chromium.click(selector="tr:has-text('ruling') button:text-is('Change')")
    chromium.fill(label="Sets", exact=False, value='{"message-ttl": 2000}')
    chromium.click(role="button", name="Show which queues it matches")
    chromium.click(role="button", name="Save")
    chromium.told("Saved")
    assert place.api("GET", "queues/%2F/ruled")["settings"]["message_ttl"] == 2000
    chromium.click(selector="tr:has-text('ruling') button:text-is('Delete')")
    chromium.click(selector="dialog button.danger")
    chromium.told("Deleted")
    assert place.api("GET", "queues/%2F/ruled")["settings"]["message_ttl"] != 2000
    chromium.click(selector="tr:has-text('ruled.#') button:text-is('Change')")
    chromium.fill(label="Sets", exact=False, value='{"max-delivery-attempts": 4}')
    chromium.click(role="button", name="Show which addresses it matches")
    chromium.click(role="button", name="Save")
    chromium.wait(selector="tr:has-text('ruled.#'):has-text('4')")
    assert place.api("GET", "queues/%2F/ruled")["settings"]["max_delivery_attempts"] == 4
    place.api("DELETE", "address-settings/%2F/ruled.%23")


def test_definitions_are_filled_read_from_a_file_pruned_and_downloaded(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("definitions", "Definitions")
    chromium.click(role="button", name="Fill in the present ones")
    chromium.until(script="document.querySelector('main textarea').value.includes('orders.dead')")
    chromium.click(role="button", name="Plan")
    chromium.wait(text="Nothing to do: the broker is as the document says.")
    downloaded = json.loads(chromium.download(role="button", name="Download all"))
    assert "orders" in {queue["name"] for queue in downloaded["queues"]}
    downloaded["queues"] = [queue for queue in downloaded["queues"] if queue["name"] != "groups"]
    chromium.upload(label="Read a file", name="less.json", content=json.dumps(downloaded))
    chromium.check(label="Delete what the document does not name")
    chromium.click(role="button", name="Plan")
    chromium.wait(selector="tr:has-text('delete'):has-text('groups')")
    chromium.accessible()
    assert place.depth("groups") == 3, "a plan changes nothing"
    chromium.upload(label="Read a file", name="wrong.json", content="{")
    chromium.click(role="button", name="Plan")
    chromium.wait(selector="main .failure")
    chromium.sound()


def test_an_exchange_is_made_bound_walked_and_deleted(place: Place, chromium: Browser) -> None:
    place.fill("terminus", 0)
    place.channel.exchange_declare("second-stop", "topic", durable=True)
    place.channel.queue_bind("terminus", "second-stop", "order.#")
    chromium.sign_in(place.url)
    chromium.visit("routing", "Exchanges and routes")
    chromium.click(role="button", name="Make an exchange")
    chromium.fill(selector="dialog input >> nth=0", value="first-stop")
    chromium.choose(role="combobox", name="Type", value="fanout")
    chromium.click(role="button", name="Make it")
    chromium.told("Made the exchange first-stop")
    assert place.api("GET", "exchanges/%2F/first-stop")["type"] == "fanout"
    chromium.visit("routing/%2F/first-stop", "first-stop")
    chromium.choose(role="combobox", name="To a", value="exchange")
    chromium.fill(label="Named", value="second-stop")
    chromium.click(role="button", name="Bind")
    chromium.told("Bound")
    place.channel.basic_publish("first-stop", "order.new", b"through both")
    assert place.depth("terminus") == 1
    chromium.click(role="link", name="exchange second-stop")
    chromium.wait(role="heading", name="second-stop")
    chromium.click(role="link", name="queue terminus")
    chromium.wait(role="heading", name="terminus")
    chromium.visit("routing/%2F/first-stop", "first-stop")
    chromium.click(role="button", name="Delete the exchange")
    chromium.click(selector="dialog button.danger")
    chromium.told("Deleted")
    assert "first-stop" not in {one["name"] for one in place.api("GET", "exchanges?page_size=500")["items"]}


def test_a_consumer_is_ended_with_a_reason_and_its_session_shows_what_it_holds(place: Place, chromium: Browser) -> None:
    place.fill("held", 2)
    connection = pika.BlockingConnection(pika.URLParameters(f"{place.process.amqp_url}?heartbeat=0"))
    consuming = connection.channel()
    consuming.basic_qos(prefetch_count=1)
    consuming.basic_consume("held", lambda *_: None, consumer_tag="holder")
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/held?tab=consumers", "held")
    chromium.click(selector="tr:has-text('holder') td:nth-child(3) a")
    chromium.wait(role="heading", name="Session 1")
    chromium.wait(selector="[aria-label='Unsettled deliveries'] tr:has-text('held')")
    chromium.accessible()
    chromium.visit("consumers?name=held", "Consumers")
    cancelled: list[object] = []
    consuming.add_on_cancel_callback(cancelled.append)
    chromium.click(selector="tr:has-text('holder') button:text-is('End')")
    chromium.fill(label="Reason", exact=False, value="make room")
    chromium.click(selector="dialog button.danger")
    chromium.told("End: done")
    while not cancelled:
        connection.process_data_events(time_limit=1)
    assert place.api("GET", "consumers?queue=held")["items"] == []
    connection.close()
    chromium.sound()


def test_the_level_of_the_log_and_traces_are_ended(place: Place, chromium: Browser) -> None:
    traced = place.api("GET", "connections?sort=connected_at")["items"][0]["name"]
    place.api("PUT", f"traces/{urllib.request.quote(traced, safe='')}", {"seconds": 300})
    chromium.sign_in(place.url)
    chromium.visit("log", "Log and traces")
    before = place.api("GET", "log")["level"]
    chromium.choose(role="combobox", name="Level", value="error")
    chromium.told("The log has the level error")
    assert place.api("GET", "log")["level"] == "error"
    chromium.choose(role="combobox", name="Level", value=before)
    chromium.told(f"The log has the level {before}")
    chromium.click(role="button", name="Drop")
    chromium.told("Dropped")
    assert place.api("GET", "traces")["items"] == []
    chromium.sound()


@pytest.mark.parametrize(("user", "shown"), [("reader", False), ("member", True)])
def test_a_queue_is_keyed_anew_by_those_who_may(place: Place, chromium: Browser, user: str, shown: bool) -> None:
    queue = f"mine.{user}"
    place.channel.queue_declare(queue, durable=True, arguments={"x-last-value-key": "city"})
    place.channel.basic_publish("", queue, b"x", pika.BasicProperties(headers={"city": "Bonn", "region": "eu"}))
    chromium.sign_in(place.url, user=user, password="secret")
    chromium.visit(f"queues/%2F/{queue}?tab=keys", queue)
    chromium.wait(selector="td:has-text('Bonn')")
    button = "Key by another property …"
    assert (button in chromium.buttons()) == shown
    if not shown:
        return
    chromium.click(role="button", name=button)
    chromium.fill(selector="dialog input >> nth=0", value="region")
    chromium.fill(label="New queue", value="theirs")
    chromium.wait(selector="dialog button.primary:disabled")
    chromium.fill(label="New queue", value="mine.by-region")
    chromium.click(role="button", name="Make it and preview the move")
    chromium.click(role="button", name="Move 1 message")
    chromium.wait(selector="dialog p:has-text('Finished')")
    assert place.api("GET", "queues/%2F/mine.by-region")["arguments"]["x-last-value-key"] == "region"
    assert (place.depth(queue), place.depth("mine.by-region")) == (0, 1)
    chromium.sound()
