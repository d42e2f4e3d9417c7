"""``/api/v1/address-settings/{vhost}/{pattern}`` and ``/api/v1/policies/{vhost}/{name}``: settings of many queues.

All users of the API can read them for their visible virtual hosts; administrators set them. They take effect at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Members, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, TEXT_SCHEMA, items_of, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import INTEGER, OBJECT, arguments_of
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.operation.operator_settings import describe_pattern, describe_policy

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.virtual_host import VirtualHost


async def list_address_settings(call: Call) -> Response:
    """All patterns of a virtual host, the most specific first, or the effective settings of an address."""
    host, address = call.host(), call.parameters.get("address")
    if address is None:
        return json_response({"items": [_settings(host, each) for each in host.address_settings.patterns()]})
    explained = host.address_settings.explain(address)
    return json_response(
        {name: {"value": value, "from": origin} for name, (value, origin) in sorted(explained.items())}
    )


async def get_address_settings(call: Call) -> Response:
    """The settings of one pattern."""
    return json_response(_settings(call.host(), call.names["pattern"]))


async def put_address_settings(call: Call) -> Response:
    """Replace the settings of a pattern."""
    host, pattern, broker = call.host(), call.names["pattern"], call.broker
    given = arguments_of("setting", call.fields)
    durable = broker.operator_settings.set_address_settings(host, pattern, given)
    audit(host, call.user, "set-address-settings", pattern, given, call.now)
    return json_response({**_settings(host, pattern), "durable_change": durable})


async def delete_address_settings(call: Call) -> Response:
    """Take the settings of a pattern back."""
    host, pattern = call.host(), call.names["pattern"]
    durable = call.broker.operator_settings.remove_address_settings(host, pattern)
    audit(host, call.user, "delete-address-settings", pattern, None, call.now)
    return json_response({"match": pattern, "durable_change": durable})


async def list_policies(call: Call) -> Response:
    """All policies of a virtual host, the one that wins first."""
    return json_response({"items": [describe_policy(policy) for policy in call.host().policies.all()]})


async def get_policy(call: Call) -> Response:
    """One policy."""
    return json_response(_policy(call.host(), call.names["policy"]))


async def put_policy(call: Call) -> Response:
    """Make or replace a policy."""
    host, name, given = call.host(), call.names["policy"], call.fields
    definition = arguments_of("setting", given["definition"])
    priority = given.get("priority", 0)
    durable = call.broker.operator_settings.set_policy(host, name, given["pattern"], definition, priority)
    audit(host, call.user, "set-policy", name, given, call.now)
    return json_response({**_policy(host, name), "durable_change": durable})


async def delete_policy(call: Call) -> Response:
    """Delete a policy."""
    host, name = call.host(), call.names["policy"]
    durable = call.broker.operator_settings.remove_policy(host, name)
    audit(host, call.user, "delete-policy", name, None, call.now)
    return json_response({"name": name, "durable_change": durable})


def _settings(host: VirtualHost, pattern: str) -> dict[str, Any]:
    settings = describe_pattern(host, pattern)
    if settings is None:
        raise ResourceError(404, f"no address settings for the pattern {pattern!r} in virtual host {host.name!r}")
    return {"match": pattern, "settings": settings}


def _policy(host: VirtualHost, name: str) -> dict[str, Any]:
    for policy in host.policies.all():
        if policy.name == name:
            return describe_policy(policy)
    raise ResourceError(404, f"no policy {name!r} in virtual host {host.name!r}")


def _pattern_revision(call: Call) -> Any:
    return describe_pattern(call.host(), call.names["pattern"])


def _policy_revision(call: Call) -> Any:
    found = (policy for policy in call.host().policies.all() if policy.name == call.names["policy"])
    return next((describe_policy(policy) for policy in found), None)


PATTERN_SCHEMA: Final = object_of(match=TEXT_SCHEMA, settings=ANY_OBJECT)
POLICY_SCHEMA: Final = object_of(name=TEXT_SCHEMA)
LEAST: Final = -(2**31)
MOST: Final = 2**31 - 1
"""Bounds of the priority of a policy: 32 bits, as other brokers have."""

ADDRESS: Final = Value("address", "an address, for its effective settings, each with its value and source")

RESOURCES: Final = (
    Resource(
        "address-settings/{vhost}",
        "settings",
        (
            Operation(
                "GET",
                "list_address_settings",
                "Address settings, the most specific pattern first.",
                list_address_settings,
                parameters=(ADDRESS,),
                answers={200: Answer("All patterns, or the effective settings of an address.")},
            ),
        ),
    ),
    Resource(
        "address-settings/{vhost}/{pattern}",
        "settings",
        (
            Operation(
                "GET",
                "get_address_settings",
                "The settings of one pattern.",
                get_address_settings,
                answers={200: Answer("The pattern with its settings.", PATTERN_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_address_settings",
                "Replace the settings of a pattern.",
                put_address_settings,
                tags=ADMINISTRATORS,
                body=Members("address settings by name, with their values", {"max-delivery-attempts": 5}),
                answers={200: Answer("The pattern with its settings.", PATTERN_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_address_settings",
                "Take the settings of a pattern back.",
                delete_address_settings,
                tags=ADMINISTRATORS,
                answers={200: Answer("The settings are taken back.")},
            ),
        ),
        _pattern_revision,
    ),
    Resource(
        "policies/{vhost}",
        "settings",
        (
            Operation(
                "GET",
                "list_policies",
                "Policies, the one that wins first.",
                list_policies,
                answers={200: Answer("All policies of the virtual host.", items_of(POLICY_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "policies/{vhost}/{policy}",
        "settings",
        (
            Operation(
                "GET",
                "get_policy",
                "One policy.",
                get_policy,
                answers={200: Answer("The policy.", POLICY_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_policy",
                "Make or replace a policy.",
                put_policy,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        Value(
                            "pattern", "a regular expression for names of queues", required=True, example="^temporary"
                        ),
                        Value(
                            "definition",
                            "an object of queue arguments",
                            OBJECT,
                            required=True,
                            example={"message-ttl": 60_000},
                        ),
                        Value("priority", "the priority among policies; the highest wins", INTEGER, LEAST, MOST, 0),
                    )
                ),
                answers={200: Answer("The policy.", POLICY_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_policy",
                "Delete a policy.",
                delete_policy,
                tags=ADMINISTRATORS,
                answers={200: Answer("The policy is deleted.")},
            ),
        ),
        _policy_revision,
    ),
)
