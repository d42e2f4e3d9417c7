"""``/api/v1/permissions``."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Site

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


async def test_permissions_are_given_listed_and_taken(site: Site) -> None:
    await site.send("PUT", "/api/v1/users/ann", {"password": "secret"})
    status, made = await site.send("PUT", "/api/v1/permissions/%2F/ann", ALL)
    assert (status, made) == (201, {"user": "ann", "vhost": "/", **ALL})
    assert (await site.send("PUT", "/api/v1/permissions/%2F/ann", ALL))[0] == 200
    assert (await site.send("GET", "/api/v1/permissions?user=ann&vhost=%2F"))[1]["items"] == [made]
    assert (await site.send("GET", "/api/v1/permissions/%2F/ann"))[1] == made
    assert site.broker.authenticator.allowed("ann", "/", "read", "q")
    assert (await site.send("DELETE", "/api/v1/permissions/%2F/ann"))[0] == 200
    assert not site.broker.authenticator.allowed("ann", "/", "read", "q")
    assert (await site.refused("DELETE", "/api/v1/permissions/%2F/ann"))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("none/ann", ALL, 404, "no virtual host 'none'"),
        ("%2F/bob", ALL, 404, "no user 'bob'"),
        ("%2F/ann", {"configure": ".*"}, 400, "field 'write' is missing; give a regular expression"),
        ("%2F/ann", {**ALL, "read": "("}, 400, "'read' is not a regular expression"),
        ("%2F/ann", {**ALL, "reed": ""}, 400, "did you mean 'read'"),
        ("%2F/plain", ALL, 409, "is declared in"),
        ("ann", ALL, 404, "no resource at this path; known here: permissions/VHOST/USER"),
    ],
)
async def test_wrong_requests(site: Site, path: str, body: dict[str, str], status: int, words: str) -> None:
    await site.send("PUT", "/api/v1/users/ann", {"password": "secret"})
    answered, reason = await site.refused("PUT", f"/api/v1/permissions/{path}", body)
    assert (answered, words in reason) == (status, True), reason


async def test_they_are_for_administrators(site: Site) -> None:
    assert (await site.refused("GET", "/api/v1/permissions", user="watcher:pass"))[0] == 403
    assert (await site.refused("PUT", "/api/v1/permissions/%2F/plain", ALL, user="manager:pass"))[0] == 403
    assert (await site.refused("DELETE", "/api/v1/permissions/%2F/plain", user="manager:pass"))[0] == 403
