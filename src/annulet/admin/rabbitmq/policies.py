"""``/api/policies`` and ``/api/operator-policies``.

A policy holds for the queues whose names its pattern matches. There is one kind: of operators' policies there are none,
and none can be made, which a request to make one is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import INTEGER_MAX, read_fields
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS, POLICY_MAKERS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import bad_request, json_response, missing_field
from annulet.admin.resources.audit import audit

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.configuration.address_settings import Policy
    from annulet.core.host.virtual_host import VirtualHost

Row: TypeAlias = "tuple[VirtualHost, Policy]"

FIELDS: Final = ("pattern", "definition", "priority", "apply-to")
APPLY_TO: Final = ("queues", "all", "classic_queues", "quorum_queues", "streams")
"""Values that a request may give; in each case the policy applies to queues."""

NAMES: Final = frozenset({"vhost", "name", "pattern", "apply-to", "definition", "priority"})


def describe(row: Row) -> dict[str, Any]:
    """Return a policy's JSON."""
    host, policy = row
    return {"vhost": host.name, "name": policy.name, **policy_value(policy)}


def policy_value(policy: Policy) -> dict[str, Any]:
    """Return the part of a policy's JSON that does not name it."""
    return {
        "pattern": policy.pattern.pattern,
        "apply-to": "queues",
        "definition": json_object(policy.definition),
        "priority": policy.priority,
    }


def _name_of(row: Row) -> str:
    return row[1].name


LISTING: Final[Listing[Row]] = Listing((Part(NAMES, describe),), _name_of)


async def list_policies(call: Call) -> Response:
    """Policies of the virtual hosts that the user sees, or of one; the one that wins first."""
    return await LISTING.answer(call, [(host, policy) for host in call.hosts() for policy in host.policies.all()])


async def get_policy(call: Call) -> Response:
    """One policy."""
    return json_response(LISTING.one(call, _chosen(call)))


async def set_policy(call: Call) -> Response:
    """Create or replace a policy; 201 when it is new, 204 when it is replaced."""
    host, name = call.host(), call.names["name"]
    fields = await read_fields(call, FIELDS)
    pattern = fields.text("pattern", remedy="give a regular expression for names of queues")
    if not fields.given("definition"):
        raise missing_field("definition", "give an object of settings such as {'max-length': 100}")
    definition = fields.arguments("definition")
    priority = fields.integer("priority", 0, -INTEGER_MAX - 1)
    apply_to = fields.text("apply-to", "all")
    if apply_to not in APPLY_TO:
        raise bad_request("apply-to", apply_to, f"give one of {', '.join(APPLY_TO)}: policies apply to queues only")
    known = any(policy.name == name for policy in host.policies.all())
    broker = call.broker
    broker.operator_settings.set_policy(host, name, pattern, definition, priority)
    given = {"pattern": pattern, "definition": definition, "priority": priority}
    audit(host, call.user, "set-policy", name, given, broker.clock())
    return Response(status_code=204 if known else 201)


async def delete_policy(call: Call) -> Response:
    """Delete a policy; its queues follow the next one, or none."""
    host, policy = _chosen(call)
    call.broker.operator_settings.remove_policy(host, policy.name)
    audit(host, call.user, "delete-policy", policy.name, None, call.broker.clock())
    return Response(status_code=204)


def _chosen(call: Call) -> Row:
    host, name = call.host(), call.names["name"]
    for policy in host.policies.all():
        if policy.name == name:
            return host, policy
    raise not_found("policy", name)


async def list_operator_policies(call: Call) -> Response:
    """Return an empty list: there are none."""
    call.hosts()
    return await LISTING.answer(call, ())


async def no_operator_policy(call: Call) -> Response:
    """Return that there is none of this name."""
    call.host()
    raise not_found("operator policy", call.names["name"])


async def refuse_operator_policy(call: Call) -> Response:
    """Refuse to make one: settings that clients cannot raise are address settings here."""
    call.host()
    name = call.names["name"]
    raise bad_request("name", name, "this broker has no operator policies; set a policy or address settings instead")


ROUTES: Final = (
    Route("policies", {"GET": list_policies}),
    Route("policies/{vhost}", {"GET": list_policies}),
    Route(
        "policies/{vhost}/{name}",
        {"GET": get_policy, "PUT": set_policy, "DELETE": delete_policy},
        levels={"PUT": POLICY_MAKERS, "DELETE": POLICY_MAKERS},
    ),
    Route("operator-policies", {"GET": list_operator_policies}),
    Route("operator-policies/{vhost}", {"GET": list_operator_policies}),
    Route(
        "operator-policies/{vhost}/{name}",
        {"GET": no_operator_policy, "PUT": refuse_operator_policy, "DELETE": no_operator_policy},
        levels={"PUT": ADMINISTRATORS, "DELETE": ADMINISTRATORS},
    ),
)
