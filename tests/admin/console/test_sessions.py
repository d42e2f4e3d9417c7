"""Signing in as a browser does: cookie, proof of changes, origins."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from annulet.admin.application import build_application
from annulet.admin.console.sessions import SIGN_IN_BYTES_MAX
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.web_sessions import SESSION_IDLE_SECONDS, SESSIONS_PER_USER_MAX
from tests.admin.conftest import LOCAL, REMOTE, Site

PATH = "/api/v1/session"
GUEST = {"user": "guest", "password": "guest"}
MANAGER = {"user": "manager", "password": "pass"}
QUEUE = "/api/v1/queues/%2F/q"


def browser(
    site: Site, *, url: str = "http://localhost", peer: tuple[str, int] = LOCAL, **headers: str
) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(build_application(site.broker), client=peer)
    return httpx.AsyncClient(transport=transport, base_url=url, headers=headers)


async def sign_in(client: httpx.AsyncClient, credentials: dict[str, str] = GUEST) -> str:
    answer = await client.post(PATH, json=credentials)
    assert answer.status_code == 200, answer.text
    return answer.json()["csrf"]


async def test_signing_in_gives_a_cookie_in_place_of_credentials(site: Site) -> None:
    async with browser(site) as client:
        answer = await client.post(PATH, json=GUEST)
        described = answer.json()
        assert (described["user"], described["tags"], len(described["csrf"]) > 30) == ("guest", ["administrator"], True)
        assert described["permissions"] == [
            {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*", "browse": "", "manage": ""}
        ]
        assert answer.headers["cache-control"] == "no-store"
        assert (await client.get("/api/v1/overview")).status_code == 200
        assert (await client.get(PATH)).json() == described
    async with browser(site) as other:
        assert (await other.get("/api/v1/overview")).status_code == 401


async def test_flags_of_the_cookie(site: Site) -> None:
    async with browser(site) as client:
        cookie = (await client.post(PATH, json=GUEST)).headers["set-cookie"].lower()
        assert cookie.startswith("annulet_session=")
        assert {part.strip() for part in cookie.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    async with browser(site, url="https://localhost") as client:
        set_cookie = (await client.post(PATH, json=GUEST)).headers["set-cookie"]
        assert set_cookie.startswith("__Host-annulet_session=")
        assert "secure" in set_cookie.lower()
        assert (await client.get("/api/v1/overview")).status_code == 200
        planted = set_cookie.partition(";")[0].removeprefix("__Host-")
        client.cookies.clear()
        assert (await client.get("/api/v1/overview", headers={"Cookie": planted})).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {"user": "guest", "password": "wrong"},
        {"user": "nobody", "password": "guest"},
        {"user": "", "password": ""},
        {"user": "guest", "password": "\x00" * 1025},
    ],
)
async def test_wrong_credentials_begin_no_session(site: Site, body: dict[str, str]) -> None:
    async with browser(site) as client:
        answer = await client.post(PATH, json=body)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert len(site.broker.web_sessions) == 0


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "field 'user' is missing"),
        (b'{"user": "guest"}', 400, "field 'password' is missing"),
        (b'{"user": 1, "password": "guest"}', 400, "field 'user' must be a text"),
        (b'{"user": "guest", "password": "guest", "name": 1}', 400, "unknown field 'name'"),
        (b"[]", 400, "must be a JSON object"),
        (b"{", 400, "not JSON"),
        (b'{"user": "' + b"a" * SIGN_IN_BYTES_MAX + b'"}', 413, f"more than {SIGN_IN_BYTES_MAX} bytes"),
    ],
)
async def test_bodies_that_are_none(site: Site, body: bytes, status: int, reason: str) -> None:
    async with browser(site) as client:
        answer = await client.post(PATH, content=body)
        assert (answer.status_code, reason in answer.json()["reason"]) == (status, True), answer.text


async def test_a_user_without_a_tag_of_the_api_gets_no_session(site: Site) -> None:
    async with browser(site) as client:
        answer = await client.post(PATH, json={"user": "plain", "password": "pass"})
        assert answer.status_code == 403
    assert len(site.broker.web_sessions) == 0


async def test_failures_wait_as_those_of_every_login(site: Site) -> None:
    refused = site.broker.authenticator.statistics().refused
    async with browser(site) as client:
        for _ in range(3):
            await client.post(PATH, json={"user": "guest", "password": "wrong"})
    assert site.broker.authenticator.statistics().refused == refused + 3


async def test_a_change_needs_the_proof_that_no_other_page_has(site: Site) -> None:
    async with browser(site) as client:
        csrf = await sign_in(client)
        for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": csrf[:-1]}, {"X-CSRF-Token": "\xff"}):
            answer = await client.put(QUEUE, json={}, headers={k: v.encode("latin-1") for k, v in headers.items()})
            assert (answer.status_code, "X-CSRF-Token" in answer.json()["reason"]) == (403, True)
        assert "q" not in site.broker.hosts["/"].queues
        answer = await client.put(QUEUE, json={}, headers={"X-CSRF-Token": csrf})
        assert answer.status_code == 201
    assert "q" in site.broker.hosts["/"].queues


async def test_the_proof_of_another_session_is_none(site: Site) -> None:
    async with browser(site) as client, browser(site) as other:
        await sign_in(client)
        csrf = await sign_in(other, MANAGER)
        assert (await client.put(QUEUE, json={}, headers={"X-CSRF-Token": csrf})).status_code == 403


async def test_the_proof_is_asked_for_below_rabbitmqs_paths_too(site: Site) -> None:
    async with browser(site) as client:
        csrf = await sign_in(client)
        assert (await client.put("/api/queues/%2F/q", json={})).status_code == 403
        answer = await client.put("/api/queues/%2F/q", json={}, headers={"X-CSRF-Token": csrf})
        assert answer.status_code == 201
        assert (await client.get("/api/overview")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_pages_of_other_origins_neither_sign_in_nor_use_a_session(site: Site, headers: dict[str, str]) -> None:
    async with browser(site) as client:
        assert (await client.post(PATH, json=GUEST, headers=headers)).status_code == 403
        csrf = await sign_in(client)
        for method, path in (("GET", "/api/v1/overview"), ("GET", PATH), ("DELETE", PATH), ("PUT", QUEUE)):
            answer = await client.request(method, path, headers={**headers, "X-CSRF-Token": csrf})
            assert answer.status_code == 403, (method, path)
        own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
        assert (await client.get("/api/v1/overview", headers=own)).status_code == 200


async def test_a_rebound_name_uses_no_session(site: Site) -> None:
    async with browser(site) as client:
        await sign_in(client)
        answer = await client.get("/api/v1/overview", headers={"Host": "rebound.example"})
        assert answer.status_code == 401


async def test_a_cookie_that_was_planted_is_not_taken(site: Site) -> None:
    """Session fixation: whoever planted a cookie knows nothing of the session that a sign-in begins."""
    async with browser(site) as attacker, browser(site) as victim:
        await sign_in(attacker, MANAGER)
        planted = attacker.cookies["annulet_session"]
        cookie = {"Cookie": f"annulet_session={planted}"}
        answer = await victim.post(PATH, json=GUEST, headers=cookie)
        assert answer.cookies["annulet_session"] != planted
        assert (await victim.get(PATH, headers=cookie)).status_code == 401  # and the planted one has ended
        assert len(site.broker.web_sessions) == 1


async def test_signing_out(site: Site) -> None:
    async with browser(site) as client:
        csrf = await sign_in(client)
        cookie = client.cookies["annulet_session"]
        assert (await client.delete(PATH)).status_code == 403
        answer = await client.delete(PATH, headers={"X-CSRF-Token": csrf})
        assert (answer.status_code, answer.json()["ended"]) == (200, True)
        assert "max-age=0" in answer.headers["set-cookie"].lower()
        again = await client.get("/api/v1/overview", headers={"Cookie": f"annulet_session={cookie}"})
        assert again.status_code == 401
    assert len(site.broker.web_sessions) == 0


async def test_an_expired_session_is_answered_without_a_question_of_the_browser(site: Site) -> None:
    async with browser(site) as client:
        await sign_in(client)
        site.clock.advance(SESSION_IDLE_SECONDS * 1000 + 1)
        answer = await client.get("/api/v1/overview")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Session realm="Annulet"')
    async with browser(site) as client:
        challenge = (await client.get(PATH, headers={"Sec-Fetch-Mode": "cors"})).headers["www-authenticate"]
        assert challenge.startswith("Session ")
        assert (await client.get(PATH)).headers["www-authenticate"].startswith("Basic ")
        navigation = await client.get(PATH, headers={"Sec-Fetch-Mode": "navigate"})
        assert navigation.headers["www-authenticate"].startswith("Basic ")


async def test_credentials_win_over_a_cookie(site: Site) -> None:
    basic = base64.b64encode(b"manager:pass").decode()
    async with browser(site) as client:
        await sign_in(client)
        described = (await client.get(PATH, headers={"Authorization": f"Basic {basic}"})).json()
        assert (described["user"], described["csrf"], described["ends_at"]) == ("manager", "", 0)
        wrong = await client.get(PATH, headers={"Authorization": "Basic !"})
        assert wrong.status_code == 401


async def change(site: Site, name: str, what: str) -> None:
    directory = site.broker.access_directory
    if what == "deleted":
        directory.delete_users([name])
    elif what == "password":
        directory.set_user(name, ["management"], password_hash=HASHER.hash("other"))
    else:
        directory.set_user(name, ["monitoring"])


@pytest.mark.parametrize("what", ["deleted", "password", "tags"])
async def test_a_session_is_worth_what_its_user_is(site: Site, what: str) -> None:
    site.broker.access_directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
    async with browser(site) as client:
        await sign_in(client, {"user": "ann", "password": "a"})
        await change(site, "ann", what)
        assert (await client.get("/api/v1/overview")).status_code == 401


async def test_a_session_has_the_rights_of_its_user_and_no_more(site: Site) -> None:
    async with browser(site) as client:
        csrf = await sign_in(client, {"user": "watcher", "password": "pass"})
        assert (await client.get("/api/v1/overview")).status_code == 200
        assert (await client.get("/api/v1/users")).status_code == 403
        assert (await client.put(QUEUE, json={}, headers={"X-CSRF-Token": csrf})).status_code == 403


async def test_a_user_of_this_machine_signs_in_from_nowhere_else(site: Site) -> None:
    async with browser(site, peer=REMOTE) as client:
        assert (await client.post(PATH, json=GUEST)).status_code == 401
        assert (await client.post(PATH, json=MANAGER)).status_code == 200


async def test_a_token_signs_in_with_what_it_may(site: Site) -> None:
    body = {"tags": ["administrator"], "operations": ["read"]}
    _, made = await site.send("PUT", "/api/v1/tokens/guest/page", body)
    async with browser(site) as client:
        csrf = await sign_in(client, {"user": "guest", "password": made["token"]})
        assert (await client.get(PATH)).json()["token"] == "page"
        assert set((await client.get(PATH)).json()["scope"]) == {"operations", "virtual_hosts"}
        assert (await client.put(QUEUE, json={}, headers={"X-CSRF-Token": csrf})).status_code == 403
        assert (await client.delete(PATH, headers={"X-CSRF-Token": csrf})).status_code == 200


async def test_the_bound_of_a_user_ends_the_longest_unused(site: Site) -> None:
    clients: list[Any] = [browser(site) for _ in range(SESSIONS_PER_USER_MAX + 1)]
    for client in clients:
        await sign_in(client)
    assert [(await client.get(PATH)).status_code for client in clients] == [401, *[200] * SESSIONS_PER_USER_MAX]
    for client in clients:
        await client.aclose()


@pytest.mark.parametrize("path", ["/api/v1/overview", "/api/overview"])
async def test_a_cookie_of_backslashes_costs_a_stranger_more_than_the_broker(site: Site, path: str) -> None:
    # Python's reader of quoted texts takes 1.5 s for 15,000, and the event loop waits
    async with browser(site, cookie='annulet_session="' + "\\" * 60_000 + '"') as client:
        begun = time.perf_counter()
        assert (await client.get(path)).status_code == 401
        assert time.perf_counter() - begun < 0.5


async def test_the_session_is_found_among_other_cookies(site: Site) -> None:
    async with browser(site) as client:
        answer = await client.post(PATH, json=GUEST)
        cookie = answer.headers["set-cookie"].split(";")[0]
    async with browser(site, cookie=f'a="b\\"; theme=dark ;{cookie}; x_annulet_session=no; =; annulet_sessio') as other:
        assert (await other.get("/api/v1/overview")).status_code == 200
    async with browser(site, cookie=f"annulet_session=; {cookie[:-1]}") as other:
        assert (await other.get("/api/v1/overview")).status_code == 401


async def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes(site: Site) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    async with browser(site) as client:
        for length in ("99999999", "9" * 400):
            answer = await client.post(PATH, content=never(), headers={"Content-Length": length})
            assert answer.status_code == 413
