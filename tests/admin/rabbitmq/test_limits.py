"""``/api/vhost-limits`` and ``/api/user-limits``."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_users import status_of


async def test_limits_of_a_virtual_host(site: Site) -> None:
    assert await status_of(site, "PUT", "/api/vhost-limits/%2F/max-queues", {"value": 1}) == 204
    shown = [{"vhost": "/", "value": {"max-queues": 1}}]
    assert (await site.send("GET", "/api/vhost-limits"))[1] == shown
    assert (await site.send("GET", "/api/vhost-limits/%2F"))[1] == shown
    assert (await site.send("GET", "/api/vhost-limits", user="manager:pass"))[1] == []
    assert site.broker.hosts["/"].queues_max == 1
    assert await status_of(site, "DELETE", "/api/vhost-limits/%2F/max-queues") == 204
    assert site.broker.hosts["/"].queues_max == -1


async def test_limits_of_a_user(site: Site) -> None:
    assert await status_of(site, "PUT", "/api/user-limits/plain/max-channels", {"value": 5}) == 204
    shown = [{"user": "plain", "value": {"max-channels": 5}}]
    assert (await site.send("GET", "/api/user-limits"))[1] == shown
    assert (await site.send("GET", "/api/user-limits/plain"))[1] == shown
    assert (await site.send("GET", "/api/user-limits/guest"))[1] == []
    assert await status_of(site, "DELETE", "/api/user-limits/plain/max-channels") == 204
    assert await status_of(site, "DELETE", "/api/user-limits/plain/max-channels") == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("user-limits/plain/max-queues", {"value": 1}, 400, "take one of max-connections, max-channels"),
        ("user-limits/plain/max-channels", {"value": "1"}, 400, "give a whole number"),
        ("user-limits/plain/max-channels", {}, 400, "field 'value': missing"),
        ("user-limits/none/max-channels", {"value": 1}, 404, "no user 'none'"),
        ("vhost-limits/none/max-queues", {"value": 1}, 404, "no virtual host 'none'"),
    ],
)
async def test_wrong_requests(site: Site, path: str, body: dict[str, object], status: int, words: str) -> None:
    answered, reason = await site.refused("PUT", f"/api/{path}", body)
    assert (answered, words in reason) == (status, True), reason


async def test_they_are_for_administrators(site: Site) -> None:
    for method, path in (
        ("GET", "user-limits"),
        ("PUT", "user-limits/plain/max-channels"),
        ("PUT", "vhost-limits/other/max-queues"),
        ("DELETE", "vhost-limits/other/max-queues"),
    ):
        assert await site.refused(method, f"/api/{path}", user="manager:pass") == (401, "Not administrator user")
