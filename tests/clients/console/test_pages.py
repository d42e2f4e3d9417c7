"""Every page of the console in a real browser at a real broker: drawn, accessible, within its window."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import pytest

from tests.clients.console.browser import Browser
from tests.clients.console.conftest import HOSTILE, Place

SHOWN: Final = "<img src=x onerror=alert(1)>\\u202egnp.exe"
"""The hostile name as the console writes it."""

PAGES: Final = {
    "overview": "Overview",
    "queues": "Queues",
    "queues/%2F/board": "board",
    "queues/%2F/orders?tab=messages": "orders",
    "queues/%2F/orders?tab=consumers": "orders",
    "queues/%2F/orders?tab=why": "orders",
    "queues/%2F/board?tab=losses": "board",
    "queues/%2F/orders?tab=operations": "orders",
    "queues/%2F/orders?tab=settings": "orders",
    "queues/%2F/groups?tab=groups": "groups",
    "queues/%2F/values?tab=keys": "values",
    f"queues/%2F/{quote(HOSTILE, safe='')}?tab=messages": SHOWN,
    "dead-letters?queue=%2F%2Forders.dead": "Dead letters",
    "publish": "Publish and consume",
    "losses": "Losses",
    "routing": "Exchanges and routes",
    "routing?tab=bindings": "Exchanges and routes",
    "routing?tab=addresses": "Exchanges and routes",
    "routing?tab=diverts": "Exchanges and routes",
    "routing?tab=test": "Exchanges and routes",
    "routing/%2F/events": "events",
    "connections": "Connections",
    "consumers": "Consumers",
    "leases": "Spark leases",
    "leases?tab=archives": "Spark leases",
    "leases?tab=what-if": "Spark leases",
    "policies": "Policies",
    "definitions": "Definitions",
    "users": "Users and permissions",
    "tokens": "Tokens",
    "hosts": "Virtual hosts",
    "audit": "Audit",
    "log": "Log and traces",
    "settings": "Broker settings",
    "nonsense": "No such page",
}


@pytest.mark.timeout(400)  # axe looks at each of 35 pages
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark"), (1280, "dark"), (360, "light")])
def test_each_page_is_drawn_accessible_and_fits(place: Place, chromium: Browser, width: int, theme: str) -> None:
    chromium.sign_in(place.url, width=width, theme=theme)
    for hash_, heading in PAGES.items():
        chromium.visit(hash_, heading)
        chromium.wait(selector=".loading", state="detached")
        chromium.accessible()
        assert chromium.count(selector=".failure") == 0, hash_
    chromium.sound()


def test_a_wrong_password_is_told_and_a_right_one_lets_in(place: Place, chromium: Browser) -> None:
    chromium.open(url=place.url)
    chromium.fill(label="User", value="guest")
    chromium.fill(label="Password", value="wrong")
    chromium.accessible()
    chromium.click(role="button", name="Sign in")
    chromium.wait(selector=".failure:has-text('password is wrong')")
    chromium.fill(label="Password", value="guest")
    chromium.click(role="button", name="Sign in")
    chromium.wait(role="heading", name="Overview")
    chromium.click(role="button", name="Sign out")
    chromium.wait(role="button", name="Sign in")


def test_hostile_names_and_bodies_are_text(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    queue = f"queues/%2F/{quote(HOSTILE, safe='')}?tab=messages"
    chromium.visit(queue, SHOWN)
    chromium.wait(text="<script>alert(1)</script>")
    for number, shown in enumerate(["<script>alert(1)</script>", "\\u202etxt.exe \\u2066<b>", "000000f0", "xxxx"], 1):
        chromium.visit(f"{queue}&message={number}", SHOWN)
        chromium.wait(selector="dialog pre")
        assert shown in chromium.read(selector="dialog pre")
        assert "\\u202e" in chromium.read(selector="dialog")
        chromium.accessible()
        chromium.press(key="Escape")
        chromium.wait(selector="dialog", state="detached")
    assert chromium.count(selector="main img, main b, main i, main script") == 0
    chromium.sound()


def test_a_long_body_is_cut_and_shown_on_request(place: Place, chromium: Browser) -> None:
    chromium.sign_in(place.url)
    chromium.visit(f"queues/%2F/{quote(HOSTILE, safe='')}?tab=messages&message=4", SHOWN)
    chromium.wait(selector="dialog pre")
    before = len(chromium.read(selector="dialog pre"))
    chromium.click(selector="dialog button:has-text('Show more')")
    chromium.until(script=f"document.querySelector('dialog pre').innerText.length > {before * 2}")
    assert before < 10_000


@pytest.mark.parametrize("user", ["reader", "member"])
def test_no_role_sees_a_button_that_is_refused(place: Place, chromium: Browser, user: str) -> None:
    chromium.sign_in(place.url, user=user, password="secret")
    changing = {"Purge", "Pause", "Delete the queue", "Delete", "Change", "Make a policy", "Bind", "Unbind"}
    changing |= {"Close", "End", "Release"}
    if user == "reader":
        changing |= {"Make a queue", "Make an exchange"}
    for hash_, heading in PAGES.items():
        if heading in {"Definitions", "Users and permissions", "Broker settings", SHOWN, "Tokens"}:
            continue
        if user == "member" and "?tab=" in hash_ and "queues/%2F/orders" not in hash_:
            continue
        chromium.visit(hash_, heading)
        chromium.wait(selector=".loading", state="detached")
        assert not changing & set(chromium.buttons()), hash_
    for page in ("definitions", "users", "settings"):
        chromium.visit(page, "No such page")
    chromium.sound()
