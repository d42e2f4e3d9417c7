"""``/api/vhosts``: virtual hosts with their totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import CLASSIC, node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.rabbitmq.users import read_tags
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.host.virtual_host import VirtualHost

FIELDS: Final = ("description", "tags", "tracing", "default_queue_type")


def listing(call: Call) -> Listing[VirtualHost]:
    """Return how virtual hosts are listed."""
    records = call.broker.virtual_hosts.records

    def describe(host: VirtualHost) -> dict[str, Any]:
        record = records.get(host.name)
        description = "" if record is None else record.description
        tags = [] if record is None else list(record.tags)
        return {
            "name": host.name,
            "description": description,
            "tags": tags,
            "metadata": {"description": description, "tags": tags},
            "default_queue_type": CLASSIC,
            "tracing": False,
            "cluster_state": {node_name(): "stopped" if record is not None and record.deleting else "running"},
        }

    return Listing(
        (
            Part(
                frozenset(
                    {"name", "description", "tags", "metadata", "default_queue_type", "tracing", "cluster_state"}
                ),
                describe,
            ),
            Part(frozenset({"messages", "messages_ready", "messages_unacknowledged"}), _totals, statistic=True),
        ),
        lambda host: host.name,
    )


def _totals(host: VirtualHost) -> dict[str, Any]:
    ready = unacknowledged = 0
    for queue in host.queues.values():
        ready += queue.order.count
        unacknowledged += len(queue.delivering)
    return {
        "messages": ready + unacknowledged,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
    }


async def list_hosts(call: Call) -> Response:
    """The virtual hosts that the user may see."""
    return await listing(call).answer(call, call.hosts())


async def get_host(call: Call) -> Response:
    """One virtual host."""
    return json_response(listing(call).one(call, call.host()))


async def put_host(call: Call) -> Response:
    """Create or describe a virtual host."""
    fields = await read_fields(call, FIELDS)
    if fields.switch("tracing", default=False):
        raise ResourceError(400, "field 'tracing': value true; the firehose is not available, see the event log")
    name = call.names["vhost"]
    tags = tuple(read_tags(fields)) if fields.given("tags") else ()
    made = AccessChanges(call.request, call.user).put_virtual_host(name, fields.text("description", ""), tags)
    return Response(status_code=201 if made else 204)


async def delete_host(call: Call) -> Response:
    """Delete a virtual host with all in it; 202 while a long deletion goes on."""
    done = await AccessChanges(call.request, call.user).delete_virtual_host(call.names["vhost"])
    return Response(status_code=204 if done else 202)


async def start_host(call: Call) -> Response:
    """Refuse: a virtual host is never down while its broker runs."""
    raise ResourceError(400, f"virtual host {call.host().name!r} runs: it is never down while the broker is up")


ROUTES: Final = (
    Route("vhosts", {"GET": list_hosts}),
    Route(
        "vhosts/{vhost}",
        {"GET": get_host, "PUT": put_host, "DELETE": delete_host},
        levels={"PUT": ADMINISTRATORS, "DELETE": ADMINISTRATORS},
    ),
    Route("vhosts/{vhost}/start/{node}", {"POST": start_host}, ADMINISTRATORS),
)
