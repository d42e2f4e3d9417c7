from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

P = "/api/policies/%2F/p"
POLICY = {"pattern": "^q", "definition": {"max-length": 5}, "priority": "3", "apply-to": "queues"}


async def test_a_policy_is_set_listed_replaced_and_deleted(site: Site) -> None:
    queue = site.queue("q")
    assert (await site.status("PUT", P, POLICY), await site.status("PUT", P, POLICY)) == (201, 204)
    item = {**POLICY, "vhost": "/", "name": "p", "priority": 3}
    assert (await site.get(P)).json() == item
    assert (await site.get("/api/policies")).json() == (await site.get("/api/policies/%2F")).json() == [item]
    assert queue.settings.max_length == 5
    assert await site.status("DELETE", P) == 204
    assert await site.status("DELETE", P) == 404
    assert queue.settings.max_length == -1
    operations = [entry["operation"] for entry in (await site.get("/api/v1/audit")).json()["items"]]
    assert operations == ["delete-policy", "set-policy", "set-policy"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"definition": {"max-length": 5}}, "field 'pattern': missing; give a regular expression"),
        ({"pattern": "x"}, "field 'definition': missing; give an object of settings"),
        ({**POLICY, "pattern": "("}, "'pattern' '(' is no regular expression"),
        ({**POLICY, "priority": "high"}, "field 'priority': value 'high'; give an integer"),
        ({**POLICY, "apply-to": "exchanges"}, "field 'apply-to': value 'exchanges'; give one of queues"),
        ({**POLICY, "definition": {"nonsense": 1}}, "nonsense"),
    ],
)
async def test_a_wrong_policy_is_refused(site: Site, body: dict[str, Any], reason: str) -> None:
    status, answer = await site.send("PUT", P, body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert reason in answer["reason"]
    assert await site.status("GET", P) == 404


async def test_only_policy_makers_set_them(site: Site) -> None:
    for method in ("PUT", "DELETE"):
        status, answer = await site.send(method, P, POLICY, user="shop:pass")
        assert (status, answer["reason"]) == (401, "Not policymaker user")
    assert await site.status("GET", "/api/policies/%2F", user="shop:pass") == 200


async def test_there_are_no_operator_policies(site: Site) -> None:
    path = "/api/operator-policies/%2F"
    assert (await site.get("/api/operator-policies")).json() == (await site.get(path)).json() == []
    status, answer = await site.send("PUT", f"{path}/p", POLICY)
    assert (status, answer["error"]) == (400, "bad_request")
    assert "no operator policies" in answer["reason"]
    assert await site.status("DELETE", f"{path}/p") == 404
