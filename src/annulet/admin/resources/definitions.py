"""``/api/v1/definitions``: all definitions as one document, a plan for a document, and its application.

For administrators: a document contains the hashes of passwords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Document, Operation, Resource
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.access import ADMINISTRATORS, broker_of
from annulet.admin.requests.bodies import SWITCH, read_octets
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit_access
from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.operation.definitions.current import export
from annulet.broker.operation.definitions.planning import Plan, make_plan
from annulet.broker.operation.definitions.splitting import DOCUMENT_BYTES_MAX
from annulet.broker.security.tokens import OPERATIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.security.authentication import User

SWITCHES: Final = (
    Value("plan", "true to return what would be done", SWITCH, default=False),
    Value(
        "prune",
        "true to delete what the document does not name, in the virtual hosts that it names",
        SWITCH,
        default=False,
    ),
    Value("keep", "true to leave what exists with other properties", SWITCH, default=False),
)


async def get_definitions(call: Call) -> Response:
    """All definitions, or those of one virtual host."""
    require_whole(call.user)
    own, host = call.parameters["format"] == "annulet", call.parameters.get("vhost", "")
    return json_response(await export(call.broker, call.hosts(), own=own, host=host))


async def apply_definitions(call: Call) -> Response:
    """Make the broker as the document in the body says, and return the steps; or plan them."""
    require_whole(call.user)
    octets = await read_octets(call.request, DOCUMENT_BYTES_MAX)
    switches = dict(call.parameters)
    host = switches.pop("vhost", "")
    return json_response((await apply_octets(call.request, call.user, octets, host, **switches)).described())


async def apply_octets(
    request: Request,
    user: User,
    octets: bytes,
    host: str,
    *,
    plan: bool = False,
    prune: bool = False,
    keep: bool = False,
) -> Plan:
    """Plan or apply a document, in the name of a user; what was done is in the audit trail."""
    broker = broker_of(request)
    reading = await read_document(octets, host)
    if plan:
        return await make_plan(broker, reading, prune=prune)
    done = await broker.definition_imports.apply(reading, user, prune=prune, keep=keep)
    if done.steps:
        counts: dict[str, Any] = {}
        for step in done.steps:
            counts.setdefault(step.action, {}).setdefault(step.item.kind, 0)
            counts[step.action][step.item.kind] += 1
        audit_access(broker, user, "apply-definitions", host or "all", counts)
    return done


def require_whole(user: User) -> None:
    """Raise 403 for a token that leaves only a part of its user's rights: a document is of everything."""
    scope = user.scope
    if scope is not None and (scope.virtual_hosts or set(scope.operations) != set(OPERATIONS)):
        raise ResourceError(403, f"token {user.token!r} of user {user.name!r} has a scope; definitions need all rights")


RESOURCES: Final = (
    Resource(
        "definitions",
        "broker",
        (
            Operation(
                "GET",
                "get_definitions",
                "All definitions as one document, or those of one virtual host.",
                get_definitions,
                tags=ADMINISTRATORS,
                parameters=(
                    VHOST,
                    Value("format", "the form", choices=("annulet", "rabbitmq"), default="annulet"),
                ),
                answers={200: Answer("The document. It has the hashes of passwords.")},
            ),
            Operation(
                "POST",
                "apply_definitions",
                "Make the broker as a document says, all or nothing.",
                apply_definitions,
                tags=ADMINISTRATORS,
                parameters=(
                    *SWITCHES,
                    Value("vhost", "the virtual host of a document that names none, as broker.xml"),
                ),
                body=Document(
                    "A document of definitions, as GET returns it or RabbitMQ exports it, or Artemis's broker.xml."
                ),
                answers={200: Answer("The steps that were done, or would be.")},
            ),
        ),
    ),
)
