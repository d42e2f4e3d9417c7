"""What moves by itself: losses by reason, lines of the log, the events of the last hour."""

from __future__ import annotations

import contextlib
import re
import time

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


def test_a_hidden_page_asks_nothing_and_goes_on_when_it_is_shown(place: Place, chromium: Browser) -> None:
    def streams(count: int) -> None:
        while not re.search(rf"^annulet_console_streams {count}(\.0)?$", place.metrics(), re.MULTILINE):
            time.sleep(0.05)

    chromium.sign_in(place.url)
    streams(1)
    hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s})"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    chromium.evaluate(script=f"{hide % 'true'}; {changed}")
    streams(0)
    chromium.evaluate(script=f"{hide % 'false'}; {changed}")
    streams(1)


def test_lists_are_read_less_often_the_more_they_cost(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    pause = "import('/console/js/api.js').then((api) => api.pauseAfter({}, %s, %s))"
    assert chromium.evaluate(script=pause % (60_000, 10_000)) == 60_000
    assert 1_200 <= chromium.evaluate(script=pause % (0, 10_000)) <= 10_000
    assert chromium.evaluate(script=pause % (0, 500)) == 500
    dear = "import('/console/js/api.js').then(async (api) => api.pauseAfter(await api.get('queues'), 0, 1e9))"
    assert chromium.evaluate(script=dear) > chromium.evaluate(script=pause % (0, 10**9))


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


def test_dead_letters_are_paged_filtered_and_sent_back(place: Place, chromium: Browser) -> None:
    place.fill("mill.dead", 0)
    place.fill("mill", 0, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mill.dead"})
    process, channel = place.process, place.channel
    connection = pika.BlockingConnection(pika.URLParameters(f"{process.amqp_url}?heartbeat=0"))
    fast = connection.channel()
    for number in range(510):
        grade = pika.BasicProperties(headers={"grade": "a" if number < 5 else "b"})
        fast.basic_publish("", "mill", f"grain {number}".encode(), grade)
    for _ in range(510):
        method, _, _ = fast.basic_get("mill")
        fast.basic_nack(method.delivery_tag, requeue=False)
    assert channel.queue_declare("mill.dead", passive=True).method.message_count == 510
    chromium.sign_in(place.url)
    chromium.visit("dead-letters?queue=%2F%2Fmill.dead", "Dead letters")
    chromium.wait(selector="tr:has-text('rejected by a consumer'):has-text('500')")
    chromium.click(role="button", name="Next")
    chromium.wait(selector="tr:has-text('rejected by a consumer'):has-text('10')")
    chromium.accessible()
    chromium.fill(label="Selector", value="grade = 'a'")
    chromium.click(role="button", name="Filter")
    chromium.wait(role="button", name="Send all that pass the filter back to where they died")
    chromium.click(role="button", name="Send all that pass the filter back to where they died")
    chromium.click(role="button", name="Retry 5 messages")
    chromium.wait(text="Finished", exact=False)
    assert (place.depth("mill"), place.depth("mill.dead")) == (5, 505)
    connection.close()
    place.channel.queue_delete("mill")
    place.channel.queue_delete("mill.dead")
