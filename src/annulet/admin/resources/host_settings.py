"""``/api/v1/address-settings/{vhost}/{pattern}`` and ``/api/v1/policies/{vhost}/{name}``: settings of many queues.

All users of the API can read them for their visible virtual hosts; administrators set them. They take effect at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, chosen_hosts, require_user, require_writer
from annulet.admin.requests.bodies import INTEGER, OBJECT, TEXT, arguments_of, read_fields, read_object, required
from annulet.admin.requests.parameters import path_segments, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.operation.operator_settings import describe_pattern, describe_policy

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

METHODS: Final = ("GET", "PUT", "DELETE")

HOST_DEPTH: Final = 4
"""api, v1, the resource, virtual host; a pattern or name may follow."""


async def address_settings(request: Request) -> Response:
    """Answer for one pattern, or for all of a virtual host, the most specific first.

    ``address`` returns the effective settings of an address: each with its value and source.
    """
    host, user, pattern = await _chosen(request, "PATTERN", ("address",))
    broker = broker_of(request)
    if request.method == "PUT":
        given = arguments_of("setting", await read_object(request))
        durable = broker.operator_settings.set_address_settings(host, pattern, given)
        audit(host, user, "set-address-settings", pattern, given, broker.clock())
        return json_response({**_settings(host, pattern), "durable_change": durable})
    if request.method == "DELETE":
        durable = broker.operator_settings.remove_address_settings(host, pattern)
        audit(host, user, "delete-address-settings", pattern, None, broker.clock())
        return json_response({"match": pattern, "durable_change": durable})
    address = request.query_params.get("address")
    if address is not None:
        explained = host.address_settings.explain(address)
        return json_response(
            {name: {"value": value, "from": origin} for name, (value, origin) in sorted(explained.items())}
        )
    if pattern:
        return json_response(_settings(host, pattern))
    return json_response({"items": [_settings(host, each) for each in host.address_settings.patterns()]})


async def policies(request: Request) -> Response:
    """Answer for one policy, or for all of a virtual host, the one that wins first."""
    host, user, name = await _chosen(request, "NAME", ())
    broker = broker_of(request)
    if request.method == "PUT":
        given = await read_fields(request, {"pattern": TEXT, "definition": OBJECT, "priority": INTEGER})
        pattern = required(given, "pattern", "a regular expression for names of queues")
        definition = arguments_of("setting", required(given, "definition", "an object of queue arguments"))
        durable = broker.operator_settings.set_policy(host, name, pattern, definition, given.get("priority", 0))
        audit(host, user, "set-policy", name, given, broker.clock())
        return json_response({**_policy(host, name), "durable_change": durable})
    if request.method == "DELETE":
        durable = broker.operator_settings.remove_policy(host, name)
        audit(host, user, "delete-policy", name, None, broker.clock())
        return json_response({"name": name, "durable_change": durable})
    if name:
        return json_response(_policy(host, name))
    return json_response({"items": [describe_policy(policy) for policy in host.policies.all()]})


async def _chosen(request: Request, what: str, known: tuple[str, ...]) -> tuple[VirtualHost, User, str]:
    """Return virtual host, user, and the pattern or name, empty for all; changes require an administrator."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user(request) if reading else require_writer(request, ADMINISTRATORS))
    segments = path_segments(request)
    parameters = read_parameters(request, known if reading else ())
    if len(segments) not in {HOST_DEPTH, HOST_DEPTH + 1}:
        place = "/".join(segments[: HOST_DEPTH - 1])
        raise ResourceError(404, f"the path is /{place}/VHOST/{what}; write a slash within a name as %2F")
    host = chosen_hosts(request, user, segments[HOST_DEPTH - 1])[0]
    name = segments[HOST_DEPTH] if len(segments) > HOST_DEPTH else ""
    if not reading and not name:
        raise ResourceError(405, f"{request.method} needs a {what.lower()} behind the virtual host", {"Allow": "GET"})
    if name and parameters:
        raise ResourceError(400, f"query parameter 'address' is for all patterns; leave {name!r} out of the path")
    return host, user, name


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
