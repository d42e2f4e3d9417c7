"""Address settings and policies over HTTP: set, read, explained, removed; in effect at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

SETTINGS = "/api/v1/address-settings/%2F"
POLICIES = "/api/v1/policies/%2F"


async def test_address_settings_hold_at_once_and_say_where_they_come_from(site: Site) -> None:
    queue = site.queue("orders.new")
    body = {"message-ttl": 500, "max-size-messages": 7, "page-limit-messages": 3, "page-full-policy": "drop"}
    assert await site.send("PUT", f"{SETTINGS}/orders.%23", body) == (
        200, {"match": "orders.#", "settings": body, "durable_change": True}
    )  # fmt: skip
    assert queue.settings.message_ttl == 500
    assert (await site.send("PUT", f"{SETTINGS}/%23", {"max-size-messages": 9}))[0] == 200
    listed = (await site.get(SETTINGS)).json()
    assert [item["match"] for item in listed["items"]] == ["orders.#", "#"]
    assert (await site.get(f"{SETTINGS}/orders.%23")).json() == {"match": "orders.#", "settings": body}
    explained = (await site.get(f"{SETTINGS}?address=orders.new")).json()
    assert explained["max-size-messages"] == {"value": 7, "from": "orders.#"}
    assert explained["page-full-policy"] == {"value": "drop", "from": "orders.#"}
    assert explained["page-limit-bytes"] == {"value": -1, "from": "default"}
    assert explained["auto-create-queues"]["from"] == "default"
    assert (await site.send("DELETE", f"{SETTINGS}/orders.%23"))[1] == {"match": "orders.#", "durable_change": True}
    assert queue.settings.message_ttl == -1
    operations = [item["operation"] for item in (await site.get("/api/v1/audit")).json()["items"]]
    assert operations == ["delete-address-settings", "set-address-settings", "set-address-settings"]


async def test_policies_hold_at_once(site: Site) -> None:
    queue = site.queue("orders")
    body = {"pattern": "^ord", "definition": {"max-length": 5}, "priority": 3}
    assert await site.send("PUT", f"{POLICIES}/short", body) == (200, {"name": "short", **body, "durable_change": True})
    assert queue.settings.max_length == 5
    assert (await site.get("/api/v1/queues/%2F/orders")).json()["settings_from"]["max_length"] == "policy 'short'"
    assert (await site.get(POLICIES)).json() == {"items": [{"name": "short", **body}]}
    assert (await site.get(f"{POLICIES}/short")).json() == {"name": "short", **body}
    (entry,) = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"], entry["user"]) == ("set-policy", "short", "guest")
    assert entry["arguments"] == '{"pattern":"^ord","definition":{"max-length":5},"priority":3}'
    assert (await site.send("DELETE", f"{POLICIES}/short"))[0] == 200
    assert queue.settings.max_length == -1


BAD: list[tuple[str, str, Any, int, str]] = [
    ("PUT", f"{SETTINGS}/a.%23", {"mesage-ttl": 1}, 400, "did you mean 'message-ttl'?"),
    ("PUT", f"{SETTINGS}/a.%23", {"message-ttl": "soon"}, 400, "'message-ttl'"),
    ("PUT", f"{SETTINGS}/a.%23", {"message-ttl": None}, 400, "setting 'message-ttl' is null"),
    ("PUT", f"{SETTINGS}/a%23b", {}, 400, "'#' stands for whole words"),
    ("PUT", SETTINGS, {}, 405, "PUT is not for /api/v1/address-settings/{vhost}; use GET"),
    ("DELETE", f"{SETTINGS}/a", None, 404, "no address settings for the pattern 'a'"),
    ("GET", f"{SETTINGS}/a", None, 404, "no address settings for the pattern 'a'"),
    ("GET", f"{SETTINGS}/a/b", None, 404, "known here: address-settings/VHOST/PATTERN"),
    ("GET", f"{SETTINGS}?adress=a", None, 400, "unknown query parameter 'adress'"),
    ("GET", f"{SETTINGS}/a?address=a", None, 400, "unknown query parameter 'address'"),
    ("GET", "/api/v1/address-settings/none", None, 404, "no virtual host 'none'"),
    ("PUT", f"{POLICIES}/p", {"definition": {}}, 400, "field 'pattern' is missing"),
    ("PUT", f"{POLICIES}/p", {"pattern": "a"}, 400, "field 'definition' is missing"),
    ("PUT", f"{POLICIES}/p", {"pattern": "(", "definition": {}}, 400, "is no regular expression"),
    ("PUT", f"{POLICIES}/p", {"pattern": "a", "definition": {"max-lenth": 1}}, 400, "did you mean"),
    ("PUT", f"{POLICIES}/p", {"pattern": "a", "definition": {"selector": "a = "}}, 400, "selector"),
    ("PUT", f"{POLICIES}/p", {"pattern": "a", "definition": {}, "priority": 1.5}, 400, "'priority' must be an integer"),
    ("PUT", f"{POLICIES}/p", {"patern": "a"}, 400, "unknown field 'patern'; did you mean 'pattern'?"),
    ("DELETE", f"{POLICIES}/p", None, 404, "no policy 'p'"),
    ("GET", f"{POLICIES}/p", None, 404, "no policy 'p'"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "words"), BAD)
async def test_what_is_wrong_is_refused_by_name_and_changes_nothing(
    site: Site, method: str, path: str, body: Any, status: int, words: str
) -> None:
    queue = site.queue("a")
    before = queue.settings
    answered, reason = await site.refused(method, path, body)
    assert answered == status
    assert words in reason
    assert queue.settings == before
    assert (await site.get(SETTINGS)).json() == (await site.get(POLICIES)).json() == {"items": []}


async def test_an_administrator_sets_others_with_a_tag_read(site: Site) -> None:
    for path in (f"{SETTINGS}/a", f"{POLICIES}/a"):
        status, reason = await site.refused("PUT", path, {}, user="shop:pass")
        assert status == 403
        assert "needs one of the tags administrator" in reason
    assert (await site.send("GET", SETTINGS, user="shop:pass"))[0] == 200
    assert (await site.send("GET", SETTINGS, user="plain:pass"))[0] == 403
