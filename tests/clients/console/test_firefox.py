"""Every page of the console in Firefox: drawn, live, without errors, within its window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.console.browser import FIREFOX, Browser, firefox_missing
from tests.clients.console.conftest import Place
from tests.clients.console.test_pages import PAGES


@pytest.fixture(scope="module")
def firefox() -> Iterator[Browser]:
    if firefox_missing():
        pytest.skip(firefox_missing())
    browser = Browser("firefox_driver.mjs", FIREFOX)
    with browser.driver:
        yield browser


@pytest.mark.parametrize("width", [1280, 360])
def test_each_page_is_drawn_and_fits(place: Place, firefox: Browser, width: int) -> None:
    firefox.sign_in(place.url, width=width)
    for hash_, heading in PAGES.items():
        firefox.visit(hash_, heading)
        firefox.wait(selector="main .loading", state="detached")
        assert firefox.evaluate(script="document.querySelectorAll('main .failure').length") == 0, hash_
        assert firefox.overflow() == [], hash_
    firefox.sound()


def test_figures_are_live_and_a_queue_is_paused(place: Place, firefox: Browser) -> None:
    place.fill("in-firefox", 2)
    firefox.sign_in(place.url)
    firefox.visit("queues/%2F/in-firefox", "in-firefox")
    tile = "(document.querySelector('.tile .value')?.textContent ?? '').trim()"
    firefox.until(script=f"{tile}.startsWith('2')")
    place.fill("in-firefox", 1)
    firefox.until(script=f"{tile}.startsWith('3')")
    firefox.click(role="button", name="Pause")
    firefox.wait(role="button", name="Resume")
    assert place.api("GET", "queues/%2F/in-firefox")["paused"]
    firefox.sound()
