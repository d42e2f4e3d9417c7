"""``/api/permissions`` and topic permissions."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_users import status_of

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


async def test_permissions_are_put_shown_and_deleted(site: Site) -> None:
    await status_of(site, "PUT", "/api/users/ann", {"tags": "", "password": "secret"})
    assert await status_of(site, "PUT", "/api/permissions/%2F/ann", {**ALL, "vhost": "/", "username": "ann"}) == 201
    assert await status_of(site, "PUT", "/api/permissions/%2F/ann", ALL) == 204
    shown = {"user": "ann", "vhost": "/", **ALL}
    assert (await site.send("GET", "/api/permissions/%2F/ann"))[1] == shown
    assert shown in (await site.send("GET", "/api/permissions"))[1]
    assert (await site.send("GET", "/api/users/ann/permissions"))[1] == [shown]
    assert shown in (await site.send("GET", "/api/vhosts/%2F/permissions"))[1]
    assert await status_of(site, "DELETE", "/api/permissions/%2F/ann") == 204
    assert (await site.refused("GET", "/api/permissions/%2F/ann"))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("none/ann", ALL, 404, "no virtual host 'none'"),
        ("%2F/bob", ALL, 404, "no user 'bob'"),
        ("%2F/ann", {"configure": "", "write": ""}, 400, "field 'read': missing; give a regular expression"),
        ("%2F/ann", {**ALL, "read": "("}, 400, "'read' is not a regular expression"),
        ("%2F/plain", ALL, 400, "is declared in"),
    ],
)
async def test_wrong_requests(site: Site, path: str, body: dict[str, str], status: int, words: str) -> None:
    await status_of(site, "PUT", "/api/users/ann", {"tags": ""})
    answered, reason = await site.refused("PUT", f"/api/permissions/{path}", body)
    assert (answered, words in reason) == (status, True), reason


async def test_topic_permissions_are_none_and_refused_in_words(site: Site) -> None:
    for path in ("topic-permissions", "vhosts/%2F/topic-permissions", "users/guest/topic-permissions"):
        assert await site.send("GET", f"/api/{path}") == (200, [])
    status, reason = await site.refused("PUT", "/api/topic-permissions/%2F/guest", {"exchange": "e"})
    assert (status, reason.startswith("topic permissions are not available")) == (400, True)


async def test_they_are_for_administrators(site: Site) -> None:
    for method, path in (
        ("GET", "/api/permissions"),
        ("GET", "/api/vhosts/other/permissions"),
        ("PUT", "/api/permissions/other/manager"),
        ("DELETE", "/api/permissions/other/manager"),
    ):
        assert await site.refused(method, path, user="manager:pass") == (401, "Not administrator user")
