"""The shell of the console: links, keys, themes, long lists, and a broker that goes away."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place

QUEUES = 10_000


def test_the_palette_and_keys_lead_to_pages(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.press(key="Control+k")
    chromium.wait(role="combobox", name="Page, command or queue")
    chromium.accessible()
    chromium.type(text="orders.de")
    chromium.wait(role="option", name="Queue orders.dead (/)")
    chromium.press(key="Enter")
    chromium.wait(role="heading", name="orders.dead")
    for keys, heading in (("gq", "Queues"), ("gc", "Connections"), ("go", "Overview")):
        chromium.type(text=keys)
        chromium.wait(role="heading", name=heading)
    chromium.press(key="?")
    chromium.wait(role="heading", name="Shortcuts")
    chromium.press(key="Escape")


def test_a_link_restores_the_view_and_choices_are_remembered(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit("queues", "Queues")
    chromium.fill(label="Name has", value="orders")
    chromium.choose(role="combobox", name="Kind", value="fifo")
    chromium.click(role="button", name="Columns")
    chromium.check(label="Expired")
    chromium.click(role="button", name="Close", nth=1)
    chromium.until(script="document.querySelectorAll('.virtual tbody tr').length === 2")
    where = chromium.evaluate(script="location.hash")
    chromium.visit("overview", "Overview")
    chromium.visit(where.removeprefix("#/"), "Queues")
    chromium.until(script="document.querySelectorAll('.virtual tbody tr').length === 2")
    chromium.wait(role="columnheader", name="Expired")
    assert chromium.evaluate(script="document.querySelector('main input[type=search]').value") == "orders"


def test_themes_and_zones_are_chosen(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    look = "getComputedStyle(document.body).backgroundColor"
    light = chromium.evaluate(script=look)
    chromium.choose(role="combobox", name="Theme", value="dark")
    chromium.until(script=f"{look} !== '{light}'")
    chromium.click(role="button", name="Times: local")
    chromium.wait(role="button", name="Times: UTC")
    chromium.wait(selector="main time:has-text('Z')")
    assert "UTC" in chromium.evaluate(script="document.querySelector('main time').title")


def test_a_narrow_page_has_its_menu_and_the_keyboard_skips_it(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url, width=360)
    chromium.click(role="button", name="☰ Pages")
    chromium.accessible()
    chromium.click(role="link", name="Dead letters")
    chromium.wait(role="heading", name="Dead letters")
    chromium.wait(selector="nav.side", state="hidden")
    chromium.evaluate(script="document.querySelector('a.skip').focus()")
    chromium.press(key="Enter")
    chromium.until(script="document.activeElement === document.querySelector('main h1')")


def test_a_virtual_host_and_filters_narrow_lists(place: Place, chromium: Browser) -> None:
    place.api("PUT", "virtual-hosts/narrow", {})
    place.api("PUT", "permissions/narrow/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    place.api("PUT", "queues/narrow/only-here", {"durable": True})
    place.fill("narrow.ring", 5, **{"x-ring-size": 2})
    chromium.sign_in(place.url)
    chromium.visit("queues", "Queues")
    chromium.choose(role="combobox", name="Virtual host", value="narrow")
    chromium.until(script="document.querySelectorAll('.virtual tbody tr').length === 1")
    chromium.wait(selector=".virtual tr:has-text('only-here')")
    chromium.choose(role="combobox", name="Virtual host", value="")
    place.api("DELETE", "virtual-hosts/narrow")
    chromium.visit("audit?operation=delete-virtual-host", "Audit")
    chromium.wait(selector="tbody tr:has-text('narrow')")
    assert chromium.count(selector="tbody tr:has-text('put-user')") == 0
    chromium.visit("losses?queue=narrow.ring", "Losses")
    chromium.click(selector="tbody button.link:has-text('replaced in a ring')")
    chromium.until(script="location.hash.includes('reason=replaced-ring')")
    chromium.until(script="document.querySelectorAll('[aria-label=Losses] tbody tr').length === 3")
    chromium.visit("queues/%2F/narrow.ring?tab=settings", "narrow.ring")
    chromium.check(label="Show defaults too")
    chromium.wait(selector="tr:has-text('message-ttl'):has-text('default')")
    chromium.click(role="button", name="Change a setting")
    chromium.choose(role="combobox", name="Setting", value="max_length")
    chromium.fill(selector="input[name=value]", value="1")
    chromium.click(role="button", name="Show what it would do")
    chromium.wait(selector="dialog .warning:has-text('1 message is beyond the limit')")
    chromium.sound()


def test_routes_are_followed_as_the_broker_does(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    cases = {
        ("a.*", "a.b"): True,
        ("a.*", "a.b.c"): False,
        ("a.#", "a"): True,
        ("#.c", "a.b.c"): True,
        ("#", ""): True,
        ("*", ""): False,
        ("a.#.#.b", "a.x.b"): True,
    }
    for (pattern, key), fits in cases.items():
        script = f"import('/console/js/routes.js').then((m) => m.topicMatches('{pattern}', '{key}'))"
        assert chromium.evaluate(script=script) == fits, (pattern, key)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, place: Place) -> Iterator[Place]:
    with BrokerProcess(tmp_path_factory.mktemp("crowded") / "data") as process:
        crowd = Place(process, place.channel)
        names = [f"q{number:05}" for number in range(QUEUES)]
        queues = [{"vhost": "/", "name": name, "durable": False, "arguments": {}} for name in names]
        crowd.api("POST", "definitions", {"queues": queues})
        yield crowd


def test_ten_thousand_queues_are_a_list_to_scroll_and_a_lost_broker_comes_back(
    crowded: Place, chromium: Browser
) -> None:
    chromium.sign_in(crowded.url)
    chromium.visit("queues?sort=name&reverse=", "Queues")
    chromium.wait(text="10,000 queues")
    chromium.wait(text="q00000")
    asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/v1/queues?'))"
    first = chromium.evaluate(script=f"{asked}.map((one) => [one.name, one.transferSize])")
    assert len(first) <= 3, "the first view takes a page of the list, and at most one for the rows that are shown"
    assert sum(size for _, size in first) < 60_000
    connection = pika.BlockingConnection(pika.URLParameters(f"{crowded.process.amqp_url}?heartbeat=0"))
    for _ in range(3):
        connection.channel().basic_publish("", "q00002", b"x")
    chromium.wait(selector="tr:has-text('q00002') td:has-text('3')")
    connection.close()
    assert chromium.evaluate(script=f"{asked}.filter((one) => one.name.includes('only=')).length")
    chromium.scroll(selector=".virtual", top=38 * 5000)
    chromium.wait(text="q05000")
    assert chromium.count(selector=".virtual tbody tr") < 100
    chromium.scroll(selector=".virtual", top=38 * QUEUES)
    chromium.wait(text="q09999")
    chromium.fill(label="Name has", value="q0123")
    chromium.wait(text="q01239")
    chromium.until(script="document.querySelectorAll('.virtual tbody tr').length === 10")
    chromium.accessible()

    crowded.process.kill()
    chromium.wait(selector=".banner:has-text('does not answer')")
    chromium.accessible()
    crowded.process.start()
    chromium.wait(selector=".banner", state="detached")
    chromium.wait(role="button", name="Sign in")  # sessions end with the broker
    chromium.fill(label="User", value="guest")
    chromium.fill(label="Password", value="guest")
    chromium.click(role="button", name="Sign in")
    chromium.wait(role="heading", name="Queues")
    chromium.sound()
