"""``/api/v1/definitions``: all definitions as one document, a plan for a document, and its application.

For administrators: a document contains the hashes of passwords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, chosen_hosts, require_user, require_writer
from annulet.admin.requests.bodies import read_octets
from annulet.admin.requests.parameters import read_parameters, read_switch
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

    from annulet.broker.security.authentication import User

METHODS: Final = ("GET", "POST")


async def answer(request: Request) -> Response:
    """Return all definitions (GET), or make the broker as a document says (POST) and return what was done.

    ``vhost``: only those of one virtual host. ``plan=true``: return what would be done. ``prune=true``: delete what the
    document does not name, in the virtual hosts that it names. ``keep=true``: leave what exists with other properties.
    """
    if request.method == "POST":
        return json_response((await apply(request, "")).described())
    user = await require_user(request, ADMINISTRATORS)
    require_whole(user)
    parameters = read_parameters(request, ("vhost", "format"))
    form = parameters.get("format", "annulet")
    if form not in {"annulet", "rabbitmq"}:
        raise ResourceError(400, f"query parameter format={form!r}; give annulet or rabbitmq")
    host = parameters.get("vhost", "")
    hosts = chosen_hosts(request, user, host or None)
    return json_response(await export(broker_of(request), hosts, own=form == "annulet", host=host))


async def apply(request: Request, host: str) -> Plan:
    """Plan or apply the document in the body. ``host``: it is of this virtual host alone."""
    user = await require_writer(request, ADMINISTRATORS)
    require_whole(user)
    parameters = read_parameters(request, ("plan", "prune", "keep"))
    switches = {name: read_switch(parameters, name) for name in ("plan", "prune", "keep")}
    return await apply_octets(request, user, await read_octets(request, DOCUMENT_BYTES_MAX), host, **switches)


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
