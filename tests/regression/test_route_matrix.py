"""Every operation of ``/api/v1`` as every role: the route table says who may, and the broker does as it says.

A refusal is the same whether the named object exists or not, and changes nothing. Which operation a role may use is
computed here from the tags, permissions and virtual hosts of the table, not by the code of the frame.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from annulet import testing
from annulet.admin.application import build_application
from annulet.admin.interface.openapi import NAME
from annulet.admin.interface.operations import Fields, Members, Operation, Resource
from annulet.admin.interface.values import Value
from annulet.admin.requests.bodies import INTEGER, INTEGERS, OBJECT, SWITCH, TEXTS
from annulet.admin.resources.routes import TABLE
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits
from tests.regression.permission_matrix import IMPLIED_BY, KINDS, ROLES, Role
from tests.regression.test_permission_matrix import users

HOST: Final = "/"
ALL_HOSTS: Final = {"administrator", "monitoring"}
SAMPLES: Final[dict[str, Any]] = {INTEGER: 1, SWITCH: True, TEXTS: ["a"], INTEGERS: [1], OBJECT: {}}
PRESENT: Final = "there"
ABSENT: Final = "absent"

CASES: Final = [
    pytest.param(resource, operation, id=operation.name)
    for resource in TABLE.resources
    for operation in resource.operations
]

Shared = tuple[asyncio.Runner, Broker]


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with asyncio.Runner() as runner:
        context = testing.broker(http=False, users=users(), limits=Limits(login_delay_first=0))
        broker = runner.run(context.__aenter__()).broker
        host = broker.hosts[HOST]
        host.declare_queue(PRESENT, now=1, owner=None, durable=False, arguments={})
        host.declare_exchange(PRESENT, "direct")
        yield runner, broker
        runner.run(context.__aexit__(None, None, None))


def sample(value: Value) -> Any:
    """Return a value that the table allows."""
    if value.example is not None:
        return value.example
    if value.choices:
        return value.choices[0]
    return max(value.least, 1) if value.kind == INTEGER else SAMPLES.get(value.kind, "a")


def body_of(operation: Operation) -> Any:
    """Return the smallest body that the table allows."""
    if isinstance(operation.body, Fields):
        return {value.name: sample(value) for value in operation.body.values if value.required}
    return dict(operation.body.example) if isinstance(operation.body, Members) else {}


def path_of(resource: Resource, name: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        return quote(HOST if match[1] == "vhost" else "queue" if match[1] == "destination_type" else name, safe="")

    return f"/api/v1/{NAME.sub(replaced, resource.path)}"


def refusal(resource: Resource, operation: Operation, role: Role, name: str) -> int:
    """Return the status of the refusal that the table says; 0 for none."""
    if role.tag not in operation.allowed_tags:
        return 403
    if "{vhost}" in resource.path:
        if role.entry is None and role.tag not in ALL_HOSTS:
            return 404
        allowed = dict(zip(KINDS, role.entry or ("",) * len(KINDS), strict=True))
        for need in operation.needs:
            pattern = allowed[need.permission] or allowed[IMPLIED_BY.get(need.permission, need.permission)] or "^$"
            if role.tag != "administrator" and not re.search(pattern, name):
                return 403
    return 0


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
@pytest.mark.parametrize(("resource", "operation"), CASES)
def test_every_operation_as_every_role(shared: Shared, resource: Resource, operation: Operation, role: Role) -> None:
    runner, broker = shared
    # a change that is allowed is looked at by the tests of the resource
    effect = operation.changes and not refusal(resource, operation, role, ABSENT)
    names = [ABSENT] if effect else [PRESENT, ABSENT]
    texts = set()
    for name in names:
        wanted = refusal(resource, operation, role, name)
        before = state(broker)
        status, text = runner.run(ask(broker, operation, path_of(resource, name), role.name))
        if operation.login is not None:  # it takes no Basic credentials, and these are in no body
            assert (status, state(broker)) == (401, before), text
        elif wanted:
            assert (status, state(broker)) == (wanted, before), text
            texts.add(text.replace(name, "NAME"))
        else:
            assert status not in {401, 500}, text
            assert status != 403 or operation.further or operation.local or "reserved" in text, text
    assert len(texts) <= 1, "a refusal tells what there is"


def test_without_credentials_nothing_is_answered(shared: Shared) -> None:
    runner, broker = shared
    before = state(broker)
    for case in CASES:
        resource, operation = case.values
        status, text = runner.run(ask(broker, operation, path_of(resource, PRESENT), None))
        assert status == 401, (operation.name, text)
    assert state(broker) == before


def state(broker: Broker) -> tuple[Any, ...]:
    """Return the definitions, and how many actions of operators there were."""
    directory = broker.access_directory
    return (
        sorted(broker.hosts),
        [(name, sorted(host.queues), sorted(host.exchanges)) for name, host in sorted(broker.hosts.items())],
        [(user.name, user.tags) for user in directory.users()],
        len(directory.permissions()),
        len(directory.tokens()),
        sum(1 for _ in broker.audit.query()),
    )


async def ask(broker: Broker, operation: Operation, path: str, user: str | None) -> tuple[int, str]:
    parameters = {value.name: sample(value) for value in operation.parameters if value.required}
    if operation.name in {"console_stream", "stream_events"}:  # else they have no end
        parameters["samples"] = 1
    transport = httpx.ASGITransport(build_application(broker), client=("127.0.0.1", 40_000))
    auth = None if user is None else (user, user)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", auth=auth) as client:
        answer = await client.request(operation.method, path, params=parameters, json=body_of(operation))
        return answer.status_code, "" if answer.is_success else answer.json()["reason"]
