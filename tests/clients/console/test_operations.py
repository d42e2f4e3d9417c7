"""Every operation on messages that a page offers, checked through a client or the API."""

from __future__ import annotations

import pika
import pytest

from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def _messages(place: Place, queue: str, state: str = "") -> list[dict[str, object]]:
    found = place.api("GET", f"queues/%2F/{queue}/messages?limit=100&state={state}")["items"]
    return list(found)


def _choose(chromium: Browser, operation: str) -> None:
    chromium.choose(role="combobox", name="Operation on messages", value=operation)


def _finish(chromium: Browser, button: str, *, preview: bool = False) -> None:
    """Preview if asked, press the button, and close the dialog behind it."""
    if preview:
        chromium.click(selector="dialog form button:has-text('Preview')")
    chromium.click(role="button", name=button)
    chromium.wait(selector="dialog p:has-text('Finished')")
    chromium.click(selector="dialog .dialog-body button:text-is('Close')")
    chromium.wait(selector="dialog", state="detached")


@pytest.fixture(scope="module")
def worked(place: Place) -> str:
    """A queue with levels and dead letters: ten waiting messages of which one is of eu, and two scheduled ones."""
    place.fill("worked.dead", 0)
    place.fill("worked.to", 0)
    settings = {"x-max-priority": 9, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "worked.dead"}
    place.channel.queue_declare("worked", durable=True, arguments=settings)
    for number in range(10):
        headers = {"region": "eu" if number == 0 else "us", "secret": "s"}
        place.channel.basic_publish("", "worked", b"x", pika.BasicProperties(headers=headers, priority=1))
    for _ in range(2):
        place.channel.basic_publish("", "worked", b"later", pika.BasicProperties(headers={"x-delay": 3_600_000}))
    return "worked"


def test_operations_on_all_messages_of_a_part(place: Place, chromium: Browser, worked: str) -> None:
    assert len(_messages(place, worked, "scheduled")) == 2
    chromium.sign_in(place.url)
    chromium.visit(f"queues/%2F/{worked}", worked)
    _choose(chromium, "change-priority")
    chromium.fill(label="Priority", value="7")
    chromium.fill(label="Only messages with", exact=False, value="region = 'eu'")
    chromium.click(role="button", name="Preview")
    _finish(chromium, "Change the priority of 1 message")
    assert [one["priority"] for one in _messages(place, worked, "pending")] == [7] + [1] * 9

    _choose(chromium, "copy")
    chromium.fill(label="To the queue", value="worked.to")
    chromium.fill(label="At most", exact=False, value="3")
    chromium.click(role="button", name="Preview")
    _finish(chromium, "Copy 3 messages")
    assert (place.depth(worked), place.depth("worked.to")) == (10, 3)

    _choose(chromium, "deliver-now")
    chromium.fill(label="At most", exact=False, value="1")
    _finish(chromium, "Deliver now 1 message", preview=True)
    assert (place.depth(worked), len(_messages(place, worked, "scheduled"))) == (11, 1)

    _choose(chromium, "cancel-scheduled")
    _finish(chromium, "Cancel 1 message")
    assert _messages(place, worked, "scheduled") == []

    for operation, button, left in (("expire", "Expire 2 messages", 9), ("delete", "Delete 2 messages", 7)):
        _choose(chromium, operation)
        chromium.fill(label="At most", exact=False, value="2")
        _finish(chromium, button, preview=True)
        assert place.depth(worked) == left

    _choose(chromium, "dead-letter")
    _finish(chromium, "Send to dead letters 7 messages")
    assert place.depth(worked) == 0
    dead = place.depth("worked.dead")
    assert dead >= 7
    chromium.visit("queues/%2F/worked.dead", "worked.dead")
    _choose(chromium, "retry")
    chromium.fill(label="Headers to leave out", exact=False, value="secret")
    _finish(chromium, f"Retry {dead} messages", preview=True)
    assert (place.depth(worked), place.depth("worked.dead")) == (dead, 0)
    chromium.sound()


def test_operations_are_listed_watched_stopped_and_undone(place: Place, chromium: Browser) -> None:
    place.fill("listed", 30)
    place.api("POST", "queues/%2F/listed/operations", {"operation": "delete", "everything": True, "rate": 1})
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/listed?tab=operations", "listed")
    chromium.click(role="button", name="Watch")
    chromium.click(selector="dialog button:text-is('Stop')")
    chromium.told("Stopped; what was changed stays changed")
    chromium.click(selector="dialog .dialog-body button:text-is('Close')")
    deleted = 30 - place.depth("listed")
    assert 1 <= deleted < 30
    chromium.click(selector="tr button:text-is('Undo')")
    chromium.told(f"{deleted} message{'s' if deleted > 1 else ''} brought back")
    assert place.depth("listed") == 30
    chromium.accessible()
    chromium.sound()


def test_one_message_is_looked_up_and_sent_to_dead_letters(place: Place, chromium: Browser) -> None:
    place.fill("single.dead", 0)
    place.fill("single", 6, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "single.dead"})
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/single?tab=messages", "single")
    chromium.check(label="Choose message 1")
    chromium.click(role="button", name="Choose none")
    chromium.fill(label="Selector", value="n = 4")
    chromium.click(role="button", name="Look")
    chromium.until(script="document.querySelectorAll('main tbody tr').length === 1")
    chromium.click(selector="main td button.link:text-is('5')")
    chromium.wait(selector="dialog pre:has-text('\"number\": 4')")
    chromium.click(selector="dialog button:text-is('Send to dead letters')")
    chromium.click(role="button", name="Send to dead letters 1 message")
    chromium.wait(selector="dialog p:has-text('Finished')")
    assert (place.depth("single"), place.depth("single.dead")) == (5, 1)

    chromium.visit("dead-letters?queue=%2F%2Fsingle.dead", "Dead letters")
    chromium.click(role="button", name="Send back")
    chromium.click(role="button", name="Retry 1 message")
    chromium.wait(selector="dialog p:has-text('Finished')")
    assert (place.depth("single"), place.depth("single.dead")) == (6, 0)


def test_dead_letters_are_moved_and_deleted(place: Place, chromium: Browser) -> None:
    place.fill("wrong.kept", 0)
    place.fill("wrong.dead", 0)
    place.fill("wrong", 5, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wrong.dead"})
    for _ in range(5):
        method, _, _ = place.channel.basic_get("wrong")
        place.channel.basic_nack(method.delivery_tag, requeue=False)
    assert place.depth("wrong.dead") == 5
    chromium.sign_in(place.url)
    chromium.visit("dead-letters?queue=%2F%2Fwrong.dead&selector=n+%3C+2", "Dead letters")
    chromium.click(role="button", name="Move …")
    chromium.fill(label="To the queue", value="wrong.kept")
    chromium.click(role="button", name="Preview")
    _finish(chromium, "Move 2 messages")
    assert (place.depth("wrong.dead"), place.depth("wrong.kept")) == (3, 2)
    chromium.visit("dead-letters?queue=%2F%2Fwrong.dead&selector=", "Dead letters")
    chromium.click(role="button", name="Delete …")
    _finish(chromium, "Delete 3 messages")
    assert (place.depth("wrong.dead"), place.depth("wrong.kept"), place.depth("wrong")) == (0, 2, 0)


def test_messages_are_published_with_properties_and_rejected_by_hand(place: Place, chromium: Browser) -> None:
    place.fill("hand.dead", 0)
    place.fill("hand", 0, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "hand.dead"})
    chromium.sign_in(place.url)
    chromium.visit("publish?queue=hand", "Publish and consume")
    chromium.fill(selector="textarea[name=body]", value="aGFsbG8=")
    chromium.choose(role="combobox", name="Body is", value="base64")
    chromium.fill(label="Content type", value="text/special")
    chromium.fill(label="Priority", value="3")
    chromium.fill(label="Copies", value="2")
    chromium.click(selector="summary:has-text('Further properties')")
    chromium.fill(label="correlation id", exact=False, value="c-1")
    chromium.click(role="button", name="Publish")
    chromium.told("one queue took it")
    method, properties, body = place.channel.basic_get("hand")
    assert (body, properties.content_type, properties.priority) == (b"hallo", "text/special", 3)
    assert (properties.correlation_id, place.depth("hand")) == ("c-1", 1)
    place.channel.basic_nack(method.delivery_tag, requeue=True)

    chromium.click(role="button", name="Show the next message")
    chromium.click(role="button", name="Leave it")
    chromium.wait(selector="dialog", state="detached")
    assert place.depth("hand") == 2
    chromium.click(role="button", name="Show it")
    chromium.click(role="button", name="Reject it to dead letters")
    chromium.told("sent to dead letters")
    assert (place.depth("hand"), place.depth("hand.dead")) == (1, 1)
    chromium.sound()


def test_groups_get_new_owners(place: Place, chromium: Browser) -> None:
    place.channel.queue_declare("teams", durable=True, arguments={"x-group-mode": "sticky"})
    connection = pika.BlockingConnection(pika.URLParameters(f"{place.process.amqp_url}?heartbeat=0"))
    consuming = connection.channel()
    consuming.basic_consume("teams", lambda *_: None, auto_ack=True, consumer_tag="owner")
    place.channel.basic_publish("", "teams", b"x", pika.BasicProperties(headers={"JMSXGroupID": "red"}))
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/teams?tab=groups", "teams")
    chromium.wait(selector="tr:has-text('red'):has-text('owner')")
    chromium.click(role="button", name="End all assignments")
    chromium.click(selector="dialog button:text-is('End all assignments')")
    chromium.told("Assignments ended")
    groups = place.api("GET", "queues/%2F/teams/groups")["items"]
    assert all(not group["owner"] for group in groups)
    connection.close()
