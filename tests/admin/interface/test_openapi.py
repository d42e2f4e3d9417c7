"""The description in OpenAPI says what the table says."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.admin.interface.openapi import GROUPS, NAME, describe, permission_text
from annulet.admin.interface.operations import Fields
from annulet.admin.resources.routes import TABLE
from tests.admin.conftest import Site

DOCUMENT = describe(TABLE.resources)
CASES = [
    pytest.param(resource, operation, id=operation.name)
    for resource in TABLE.resources
    for operation in resource.operations
]


@pytest.mark.parametrize(("resource", "operation"), CASES)
def test_each_operation_is_described(resource: Any, operation: Any) -> None:
    described = DOCUMENT["paths"][f"/api/v1/{resource.path}"][operation.method.lower()]
    assert described["operationId"] == operation.name
    assert described["x-permissions"]["tags"] == sorted(operation.allowed_tags)
    assert permission_text(resource, operation) in described["description"]
    assert resource.group in GROUPS
    given = {(parameter["name"], parameter["in"]) for parameter in described["parameters"]}
    assert given >= {(name, "path") for name in NAME.findall(resource.path)}
    assert given >= {(value.name, "query") for value in operation.parameters}
    assert {int(status) for status in described["responses"]} >= {*operation.answers, 400, 401, 403, 404}
    if isinstance(operation.body, Fields):
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        assert set(schema["properties"]) == {value.name for value in operation.body.values}
    assert ("requestBody" in described) == (operation.body is not None)


async def test_a_body_that_may_be_missing_is_described_so(site: Site) -> None:
    described = DOCUMENT["paths"]["/api/v1/exchanges/{vhost}/{exchange}/publish"]["post"]["requestBody"]
    assert described["required"] is False
    assert await site.send("POST", "/api/v1/exchanges/%2F/amq.direct/publish") == (200, {"queues": 0})


def test_changes_of_what_has_entity_tags_take_if_match() -> None:
    for resource in TABLE.resources:
        for operation in resource.operations:
            described = DOCUMENT["paths"][f"/api/v1/{resource.path}"][operation.method.lower()]
            headers = {parameter["name"] for parameter in described["parameters"] if parameter["in"] == "header"}
            tagged = resource.revision is not None
            assert ("If-Match" in headers) == (tagged and operation.changes)
            assert ("412" in described["responses"]) == (tagged and operation.changes)
            assert ("304" in described["responses"]) == (tagged and not operation.changes)


async def test_it_is_served_to_users(site: Site) -> None:
    answer = await site.get("/api/v1/openapi.json", user="watcher:pass")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DOCUMENT | {"paths": answer.json()["paths"]}
    assert len(answer.json()["paths"]) == len(TABLE.resources)
    assert (await site.get("/api/v1/openapi.json", user=None)).status_code == 401
