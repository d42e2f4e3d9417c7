"""``/api/users`` and ``/api/whoami``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


async def status_of(site: Site, method: str, path: str, body: Any = None, user: str = "guest:guest") -> int:
    async with site.client(user=user) as client:
        return (await client.request(method, path, json=body)).status_code


async def test_a_user_is_put_shown_and_deleted(site: Site) -> None:
    assert await status_of(site, "PUT", "/api/users/ann", {"password": "secret", "tags": "monitoring,  x"}) == 201
    assert await status_of(site, "PUT", "/api/users/ann", {"password": "secret", "tags": ["monitoring"]}) == 204
    shown = (await site.send("GET", "/api/users/ann"))[1]
    assert shown.pop("password_hash").startswith("$argon2")
    assert shown == {"name": "ann", "hashing_algorithm": "argon2id", "tags": ["monitoring"], "limits": {}}
    assert (await site.send("GET", "/api/whoami", user="ann:secret"))[1] == {"name": "ann", "tags": ["monitoring"]}
    assert await status_of(site, "DELETE", "/api/users/ann") == 204
    assert await status_of(site, "DELETE", "/api/users/ann") == 404


async def test_a_hash_of_rabbitmq_is_taken_and_given_back(site: Site) -> None:
    body = {"password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["management"]}
    assert await status_of(site, "PUT", "/api/users/ann", body) == 201
    assert (await site.send("GET", "/api/users/ann"))[1] == {"name": "ann", "limits": {}, **body}
    assert await status_of(site, "GET", "/api/whoami", user="ann:test12") == 200
    assert await status_of(site, "GET", "/api/whoami", user="ann:test13") == 401


async def test_without_a_password_none_lets_in(site: Site) -> None:
    assert await status_of(site, "PUT", "/api/users/ann", {"tags": "management"}) == 201
    assert await status_of(site, "GET", "/api/whoami", user="ann:") == 401
    assert (await site.send("GET", "/api/users/ann"))[1]["password_hash"] == ""


async def test_lists(site: Site) -> None:
    names = [user["name"] for user in (await site.send("GET", "/api/users"))[1]]
    assert names == ["guest", "manager", "plain", "shop", "watcher"]
    assert (await site.send("GET", "/api/users/without-permissions"))[1] == []
    await site.send("GET", "/api/users?columns=name&sort=name&sort_reverse=true")
    assert await status_of(site, "PUT", "/api/users/ann", {"tags": ""}) == 201
    assert [user["name"] for user in (await site.send("GET", "/api/users/without-permissions"))[1]] == ["ann"]


async def test_several_are_deleted_together(site: Site) -> None:
    for name in ("a", "b"):
        await status_of(site, "PUT", f"/api/users/{name}", {"tags": ""})
    assert await status_of(site, "POST", "/api/users/bulk-delete", {"users": ["a", "plain"]}) == 400
    assert await status_of(site, "GET", "/api/users/a") == 200, "all or none"
    assert await status_of(site, "POST", "/api/users/bulk-delete", {"users": ["a", "b", "none"]}) == 204
    assert [await status_of(site, "GET", f"/api/users/{name}") for name in ("a", "b")] == [404, 404]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"password": "x"}, "field 'tags': missing"),
        ({"tags": 5}, "field 'tags': value 5"),
        ({"tags": "", "password": 5}, "field 'password'"),
        ({"tags": "", "pasword": "x"}, "did you mean 'password'"),
        ({"tags": "", "password_hash": HASH, "hashing_algorithm": "md5"}, "'hashing_algorithm' 'md5' is not available"),
        ({"tags": "", "limits": {"max-queues": 1}, "password": "x"}, "limit 'max-queues' is unknown"),
    ],
)
async def test_wrong_bodies_are_refused_by_field(site: Site, body: dict[str, Any], words: str) -> None:
    status, reason = await site.refused("PUT", "/api/users/ann", body)
    assert (status, words in reason) == (400, True), reason


async def test_wrong_bulk_deletions(site: Site) -> None:
    for body in ({}, {"users": "a"}, {"users": [1]}, {"users": ["a"] * 1001}):
        assert "field 'users'" in (await site.refused("POST", "/api/users/bulk-delete", body))[1]


async def test_the_last_administrator_goes_by_force_only(site: Site) -> None:
    await status_of(site, "PUT", "/api/users/ann", {"tags": "administrator", "password": "secret"})
    site.broker.access_directory.reload_file({})
    status, reason = await site.refused("DELETE", "/api/users/ann", user="ann:secret")
    assert (status, "force" in reason) == (400, True)
    assert await status_of(site, "DELETE", "/api/users/ann?force=true", user="ann:secret") == 204


async def test_they_are_for_administrators(site: Site) -> None:
    for method, path in (
        ("GET", "/api/users"),
        ("GET", "/api/users/guest"),
        ("PUT", "/api/users/x"),
        ("DELETE", "/api/users/plain"),
        ("POST", "/api/users/bulk-delete"),
    ):
        assert await site.refused(method, path, user="watcher:pass") == (401, "Not administrator user")
