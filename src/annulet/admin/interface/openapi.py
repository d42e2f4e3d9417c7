"""The description of the API in OpenAPI 3.1, made from the route table.

Permissions are in ``x-permissions`` of each operation, and in words in its description.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from annulet import __version__
from annulet.admin.interface.operations import VHOST_NAME, Fields, Members
from annulet.admin.interface.routing import PREFIX
from annulet.admin.interface.schemas import PROBLEM_SCHEMA, object_of
from annulet.admin.requests.access import SESSION_COOKIE
from annulet.admin.requests.responses import JSON, PROBLEM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.admin.interface.operations import Answer, Body, Operation, Resource
    from annulet.admin.interface.values import Value

VERSION: Final = "3.1.0"

NAME: Final = re.compile(r"\{(\w+)\}")

NAME_SCHEMA: Final = {"type": "string", "minLength": 1, "pattern": "^[^\\r\\n\\u0000]+$"}
"""A name in a path: any text without line breaks."""

GROUPS: Final = {
    "broker": "The broker as a whole: overview, definitions, backups, logs.",
    "clients": "Connections, sessions, consumers and leases.",
    "queues": "Queues and their state.",
    "messages": "Messages of queues, and operations on them.",
    "routing": "Exchanges, addresses, bindings and diverts.",
    "settings": "Address settings and policies.",
    "access": "Users, permissions, tokens and virtual hosts.",
    "records": "Losses, events and actions of operators.",
}

PROBLEMS: Final = {
    400: "A parameter, field or header is wrong; the answer names it, its value and the remedy.",
    401: "The credentials are missing or wrong.",
    403: "The user lacks a tag or a permission.",
    404: "There is no such object, or the user does not see it.",
    409: "The request conflicts with existing objects.",
    412: "The object is not as If-Match or If-None-Match says.",
    413: "The body is too long.",
    429: "Too many requests.",
    503: "The broker cannot do it now.",
}

SCHEMES: Final = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of this broker."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "A session of the web console. Changes need its `csrf` in the header `X-CSRF-Token`.",
    },
}

PROBLEM_OBJECT: Final = object_of(
    type={"type": "string"},
    title={"type": "string"},
    status={"type": "integer"},
    detail={"type": "string"},
    error={"type": "string"},
    reason={"type": "string"},
)


def describe(resources: Iterable[Resource]) -> dict[str, Any]:
    """Return the description of all resources."""
    paths: dict[str, Any] = {}
    for resource in resources:
        operations = {operation.method.lower(): _operation(resource, operation) for operation in resource.operations}
        paths[f"{PREFIX}/{resource.path}"] = operations
    return {
        "openapi": VERSION,
        "info": {
            "title": "Annulet",
            "version": __version__,
            "description": "Management of an Annulet broker. Names in paths are percent-encoded: `/` is `%2F`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in GROUPS.items()],
        "security": [{kind: []} for kind in SCHEMES],
        "paths": paths,
        "components": {
            "securitySchemes": SCHEMES,
            "schemas": {"Problem": PROBLEM_OBJECT},
            "responses": {f"{status}": _problem(text) for status, text in PROBLEMS.items()},
        },
    }


def _operation(resource: Resource, operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.text,
        "description": f"{operation.text} {permission_text(resource, operation)}",
        "tags": [resource.group],
        "security": _security(operation),
        "x-permissions": {
            "tags": sorted(operation.allowed_tags),
            "needs": [{"permission": need.permission, "name": need.name} for need in operation.needs],
            "further": operation.further,
            "local": operation.local,
        },
        "parameters": [*_names(resource), *map(_parameter, operation.parameters), *_conditions(resource, operation)],
        "responses": _responses(resource, operation),
    }
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    return described


def _security(operation: Operation) -> list[dict[str, Any]]:
    """Return how the user logs in; an operation with a login of its own has it in words."""
    return [] if operation.login is not None else [{kind: sorted(operation.allowed_tags)} for kind in SCHEMES]


def permission_text(resource: Resource, operation: Operation) -> str:
    """Return the permission of an operation in words."""
    words = [f"the tag {' or '.join(sorted(operation.allowed_tags))}"]
    words += [f"{need.permission} on the {need.name}" for need in operation.needs]
    if f"{{{VHOST_NAME}}}" in resource.path:
        words.append("an entry for the virtual host, or a tag that sees all")
    text = f"Takes {'; '.join(words)}."
    if operation.further:
        text += f" Further: {operation.further}."
    return f"{text} Only from the broker's own machine." if operation.local else text


def _names(resource: Resource) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": NAME_SCHEMA} for name in NAME.findall(resource.path)
    ]


def _parameter(value: Value) -> dict[str, Any]:
    described = {
        "name": value.name,
        "in": "query",
        "required": value.required,
        "description": f"{value.text[0].upper()}{value.text[1:]}.",
        "schema": value.schema(),
    }
    return described if value.example is None else {**described, "example": value.example}


def _conditions(resource: Resource, operation: Operation) -> list[dict[str, Any]]:
    """Return the headers of conditional requests that the operation takes."""
    if resource.revision is None:
        return []
    names = ("If-Match", "If-None-Match") if operation.changes else ("If-None-Match",)
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": "Entity tags, or *.",
            "schema": {"type": "string", "pattern": '^(\\*|(W/)?"[!#-~]*")$'},
        }
        for name in names
    ]


def _body(body: Body) -> dict[str, Any]:
    if isinstance(body, Fields):
        required = [value.name for value in body.values if value.required]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {value.name: _property(value) for value in body.values},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        return {"required": bool(required), "content": {JSON: {"schema": schema}}}
    if isinstance(body, Members):
        content = {"schema": {"type": "object"}, "example": dict(body.example)}
        return {"required": False, "description": body.text, "content": {JSON: content}}
    return {"required": body.required, "description": body.text, "content": {JSON: {"schema": {"type": "object"}}}}


def _property(value: Value) -> dict[str, Any]:
    schema = {**value.schema(), "description": value.text}
    return schema if value.example is None else {**schema, "examples": [value.example]}


def _responses(resource: Resource, operation: Operation) -> dict[str, Any]:
    tagged = resource.revision is not None
    responses = {str(status): _answer(answer, tagged=tagged) for status, answer in operation.answers.items()}
    if tagged and not operation.changes:
        responses["304"] = {"description": "The client has this answer already."}
    for status in PROBLEMS:
        if status != 412 or (tagged and operation.changes):
            responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return responses


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {PROBLEM: {"schema": {"$ref": PROBLEM_SCHEMA}}}}


def _answer(answer: Answer, *, tagged: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.text}
    if answer.schema is not None:
        described["content"] = {JSON: {"schema": dict(answer.schema)}}
    if tagged:
        described["headers"] = {"ETag": {"schema": {"type": "string"}}}
    return described
