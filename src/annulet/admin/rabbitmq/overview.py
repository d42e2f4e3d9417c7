"""``/api/overview`` and ``/api/cluster-name``."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet import __version__
from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.naming import PROTOCOL_NAMES, exchange_types, node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.rabbitmq.queues import counters_of
from annulet.admin.requests.columns import Columns
from annulet.admin.requests.json_values import with_rates
from annulet.admin.requests.responses import json_response
from annulet.broker.operation.global_parameters import CLUSTER_NAME
from annulet.broker.operation.inventory import open_connections
from annulet.broker.operation.listeners import open_listeners
from annulet.broker.operation.rates import COUNTERS, NAMES, READY, ROUND_MILLISECONDS, ROUNDS_KEPT, UNACKNOWLEDGED
from annulet.broker.turns.list_turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost

PRODUCT: Final = "Annulet"

RABBITMQ_VERSION: Final = "3.10.8"
"""The version of RabbitMQ whose API this is. Tools decide by it which routes and fields they use."""

HTTP_LISTENERS: Final = frozenset({"http", "https"})


async def overview(call: Call) -> Response:
    """Version, listeners, and totals of the virtual hosts that the user sees."""
    broker, hosts = call.broker, call.hosts()
    columns = Columns.of(call.query.text("columns"))
    answer: dict[str, Any] = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [ROUND_MILLISECONDS * ROUNDS_KEPT // 1000]},
        "exchange_types": exchange_types(),
        "product_name": PRODUCT,
        "product_version": __version__,
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": broker.global_parameters.cluster_name,
        "erlang_version": "",
        "erlang_full_version": f"{platform.python_implementation()} {platform.python_version()}",
        "disable_stats": False,
        "enable_queue_totals": True,
        "object_totals": await _objects(broker, hosts),
        "node": node_name(),
        "listeners": listeners(broker),
        "contexts": _contexts(broker),
    }
    roots = columns.roots
    if not call.query.switch("disable_stats") and (roots is None or roots & {"message_stats", "queue_totals"}):
        answer.update(await _totals(broker, hosts))
    return json_response(columns.of_item(answer))


async def _objects(broker: Broker, hosts: list[VirtualHost]) -> dict[str, int]:
    turns = Turns()
    connections = open_connections(broker.connections, hosts)
    channels = consumers = 0
    for connection in connections:
        channels += len(connection.channels)
        consumers += sum([len(session.consumers) for session in connection.channels.values()])
        await turns.look()
    return {
        "channels": channels,
        "connections": len(connections),
        "consumers": consumers,
        "exchanges": sum(len(host.exchanges) for host in hosts),
        "queues": sum(len(host.queues) - host.reply_queues for host in hosts),
    }


async def _totals(broker: Broker, hosts: Iterable[VirtualHost]) -> dict[str, Any]:
    """Return counts of all queues now, and how they change: between the last two rounds of samples."""
    turns = Turns()
    counters = dict.fromkeys(COUNTERS, 0)
    ready = held = 0
    rates = dict.fromkeys(NAMES, 0.0)
    for host in hosts:
        for name, rate in broker.rates.of_host(host.name).items():
            rates[name] += rate
        for queue in list(host.queues.values()):
            ready += queue.shown_count() + queue.shown_scheduled()
            held += len(queue.delivering)
            for name, count in counters_of(queue).items():
                counters[name] += count
            await turns.look()
    totals = {"messages": ready + held, READY: ready, UNACKNOWLEDGED: held}
    return {"queue_totals": with_rates(totals, rates), "message_stats": with_rates(counters, rates)}


def listeners(broker: Broker) -> list[dict[str, Any]]:
    """Return the open listeners as the overview lists them."""
    return [
        {
            "node": node_name(),
            "protocol": PROTOCOL_NAMES.get(name, name),
            "ip_address": endpoint.host,
            "port": endpoint.port,
            "socket_opts": {},
        }
        for name, endpoint in sorted(open_listeners(broker).items())
    ]


def _contexts(broker: Broker) -> list[dict[str, Any]]:
    return [
        {
            "node": node_name(),
            "description": "RabbitMQ Management",
            "path": "/",
            "ip": endpoint.host,
            "port": str(endpoint.port),
            "ssl": name == "https",
        }
        for name, endpoint in sorted(open_listeners(broker).items())
        if name in HTTP_LISTENERS
    ]


async def get_cluster_name(call: Call) -> Response:
    """The name that an operator gave the broker."""
    return json_response({"name": call.broker.global_parameters.cluster_name})


async def set_cluster_name(call: Call) -> Response:
    """Name the broker; clients see the name among the properties of the server from their next connection on."""
    name = (await read_fields(call, ("name",), ignored=())).text("name", remedy="give the name as a text")
    call.broker.global_parameters.set(CLUSTER_NAME, name)
    call.broker.server_properties[CLUSTER_NAME] = name
    return Response(status_code=204)


ROUTES: Final = (
    Route("overview", {"GET": overview}),
    Route("cluster-name", {"GET": get_cluster_name, "PUT": set_cluster_name}, levels={"PUT": ADMINISTRATORS}),
)
