"""What moves by itself: losses by reason, lines of the log, the events of the last hour."""

from __future__ import annotations

import contextlib

import pika

from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def test_losses_by_reason_move_on_the_queue_and_on_the_overview(place: Place, chromium: Browser) -> None:
    place.fill("losing", 3, **{"x-ring-size": 2})
    chromium.sign_in(place.url)
    chromium.visit("queues/%2F/losing", "losing")
    chromium.wait(selector="dt:has-text('replaced in a ring') + dd:has-text('1')")
    for _ in range(50):
        place.channel.basic_publish("", "losing", b"x")
    chromium.wait(selector="dt:has-text('replaced in a ring') + dd:has-text('51')")
    chromium.visit("overview", "Overview")
    chromium.wait(selector="dt:has-text('replaced in a ring')")
    for _ in range(50):
        place.channel.basic_publish("", "losing", b"x")
    chromium.wait(selector="dt:has-text('replaced in a ring') + dd strong:has-text('/s')")
    chromium.accessible()
    chromium.sound()


def test_lines_of_the_log_come_by_themselves_and_are_filtered(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url, user="reader", password="secret")
    chromium.visit("log", "Log and traces")
    chromium.wait(selector="bdi:text-is('ready')")
    chromium.fill(label="Text", value="named-in-the-log")
    chromium.wait(text="No line passes the filter.")
    place.channel.queue_declare("named-in-the-log")
    chromium.wait(selector="tr:has-text('queue created'):has-text('named-in-the-log')")
    chromium.accessible()
    chromium.click(role="button", name="Hold still")
    place.channel.queue_delete("named-in-the-log")
    lines = place.api("GET", "log/lines?text=named-in-the-log")["items"]
    assert lines[-1]["event"] == "queue deleted"
    chromium.click(role="button", name="Go on")
    chromium.wait(selector="tr:has-text('queue deleted'):has-text('named-in-the-log')")
    chromium.choose(role="combobox", name="From level", value="error")
    chromium.wait(text="No line passes the filter.")
    chromium.sound()


def test_the_overview_has_the_events_of_the_last_hour(place: Place, chromium: Browser) -> None:
    place.api("PUT", "users/passing", {"password": "secret", "tags": []})
    place.api("DELETE", "users/passing")
    with_wrong_password = place.process.amqp_url.replace("guest:guest", "guest:wrong")
    with contextlib.suppress(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(with_wrong_password))
    chromium.sign_in(place.url)
    chromium.wait(selector="tr:has-text('delete-user'):has-text('passing')")
    warnings = place.api("GET", "log/lines?level=warning&limit=1")["items"]
    assert warnings, "a refused login is a warning"
    chromium.wait(selector=f"tr:has-text('warning'):has-text('{warnings[0]['event']}')")
