"""``/api/parameters`` and ``/api/global-parameters``.

Parameters of a virtual host belong to components: in RabbitMQ to plugins, of which there are none here. Policies are
listed under ``policy`` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS, POLICY_MAKERS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.rabbitmq.policies import policy_value
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import bad_request, json_response, missing_field
from annulet.broker.operation.global_parameters import CLUSTER_NAME

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call

POLICY: Final = "policy"

Item = dict[str, Any]


def _item(item: Item) -> Item:
    return item


def _name_of(item: Item) -> str:
    return str(item["name"])


LISTING: Final[Listing[Item]] = Listing((Part(frozenset({"value", "vhost", "component", "name"}), _item),), _name_of)


async def list_parameters(call: Call) -> Response:
    """Parameters of all components but policies: none."""
    call.hosts()
    return await LISTING.answer(call, ())


async def list_of_component(call: Call) -> Response:
    """Parameters of one component."""
    return await LISTING.answer(call, _policies(call) if call.names["component"] == POLICY else ())


def _policies(call: Call) -> list[Item]:
    return [
        {"value": policy_value(policy), "vhost": host.name, "component": POLICY, "name": policy.name}
        for host in call.hosts()
        for policy in host.policies.all()
    ]


async def get_parameter(call: Call) -> Response:
    """One parameter."""
    call.host()
    if call.names["component"] == POLICY:
        for item in _policies(call):
            if item["name"] == call.names["name"]:
                return json_response(LISTING.one(call, item))
    raise not_found("parameter", call.names["name"])


async def refuse_parameter(call: Call) -> Response:
    """Refuse to set one: of a component that is not there, or a policy, which has its own path."""
    call.host()
    component = call.names["component"]
    if component == POLICY:
        raise bad_request("component", component, "set policies with PUT /api/policies/VHOST/NAME")
    raise bad_request("component", component, "this broker has no such component; it has no shovels and no federation")


async def delete_parameter(call: Call) -> Response:
    """Refuse to delete one: there is none but policies, which have their own path."""
    call.host()
    raise not_found("parameter", call.names["name"])


# ---------------------------------------------------------------------- global parameters


async def list_global(call: Call) -> Response:
    """Global parameters by name."""
    items = [{"name": name, "value": value} for name, value in call.broker.global_parameters.all().items()]
    return await LISTING.answer(call, items)


async def get_global(call: Call) -> Response:
    """One global parameter."""
    name = call.names["name"]
    values = call.broker.global_parameters.all()
    if name not in values:
        raise not_found("global parameter", name)
    return json_response(LISTING.one(call, {"name": name, "value": values[name]}))


async def set_global(call: Call) -> Response:
    """Keep a JSON value under a name; 201 when it is new, 204 when it replaces one."""
    name = call.names["name"]
    fields = await read_fields(call, ("value",))
    if "value" not in fields.members:
        raise missing_field("value", "give any JSON value")
    parameters = call.broker.global_parameters
    known = name in parameters.all()
    parameters.set(name, fields.members["value"])
    call.broker.server_properties[CLUSTER_NAME] = parameters.cluster_name
    return Response(status_code=204 if known else 201)


async def delete_global(call: Call) -> Response:
    """Forget a global parameter."""
    parameters = call.broker.global_parameters
    if not parameters.remove(call.names["name"]):
        raise not_found("global parameter", call.names["name"])
    call.broker.server_properties[CLUSTER_NAME] = parameters.cluster_name
    return Response(status_code=204)


ROUTES: Final = (
    Route("parameters", {"GET": list_parameters}, POLICY_MAKERS),
    Route("parameters/{component}", {"GET": list_of_component}, POLICY_MAKERS),
    Route("parameters/{component}/{vhost}", {"GET": list_of_component}, POLICY_MAKERS),
    Route(
        "parameters/{component}/{vhost}/{name}",
        {"GET": get_parameter, "PUT": refuse_parameter, "DELETE": delete_parameter},
        POLICY_MAKERS,
    ),
    Route("global-parameters", {"GET": list_global}, ADMINISTRATORS),
    Route(
        "global-parameters/{name}",
        {"GET": get_global, "PUT": set_global, "DELETE": delete_global},
        ADMINISTRATORS,
    ),
)
