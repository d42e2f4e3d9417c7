"""``/api/nodes``: the one node, its memory, disk and descriptors."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.levels import MONITORS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import exchange_types, node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import json_response
from annulet.broker.paging.memory import resident_bytes

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.broker import Broker

DESCRIPTORS: Final = Path("/proc/self/fd")

NAMES: Final = frozenset(
    {
        "applications",
        "auth_mechanisms",
        "config_files",
        "contexts",
        "db_dir",
        "disk_free",
        "disk_free_alarm",
        "enabled_plugins",
        "exchange_types",
        "fd_total",
        "fd_used",
        "log_files",
        "mem_alarm",
        "mem_calculation_strategy",
        "connection_created",
        "mem_limit",
        "mem_used",
        "name",
        "os_pid",
        "partitions",
        "processors",
        "rates_mode",
        "running",
        "sockets_total",
        "sockets_used",
        "type",
        "uptime",
    }
)


def describe(broker: Broker) -> dict[str, Any]:
    """Return the node's JSON. Sizes are bytes, ``uptime`` milliseconds."""
    configuration = broker.configuration
    directory = configuration.data_directory
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {
        "name": node_name(),
        "type": "disc" if directory is not None else "ram",
        "running": broker.ready,
        "os_pid": str(os.getpid()),
        "uptime": max(0, broker.clock() - broker.started_at),
        "processors": os.cpu_count() or 1,
        "mem_used": resident_bytes(),
        "mem_limit": broker.memory.limit,
        "mem_alarm": broker.memory_blocked,
        "mem_calculation_strategy": "rss",
        "connection_created": broker.connections_accepted,
        "disk_free": 0 if directory is None else shutil.disk_usage(directory).free,
        "disk_free_alarm": broker.log.statistics().disk_full,
        "fd_total": limit,
        "fd_used": _descriptors(),
        "sockets_total": broker.admission.limits.max_connections,
        "sockets_used": len(broker.connections),
        "partitions": [],
        "rates_mode": "basic",
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name}", "enabled": True} for name in configuration.sasl_mechanisms
        ],
        "applications": [],
        "contexts": [],
        "enabled_plugins": [],
        "config_files": [],
        "log_files": [],
        "db_dir": "" if directory is None else str(directory),
    }


def _descriptors() -> int:
    """Return how many descriptors the process has open; 0 where the system does not tell."""
    try:
        return sum(1 for _ in DESCRIPTORS.iterdir())
    except FileNotFoundError:
        return 0


def _name_of(_broker: Broker) -> str:
    return node_name()


LISTING: Final[Listing[Broker]] = Listing((Part(NAMES, describe),), _name_of)


async def list_nodes(call: Call) -> Response:
    """The only node, in a list."""
    return await LISTING.answer(call, [call.broker])


async def get_node(call: Call) -> Response:
    """The node, by its name."""
    _require_node(call)
    return json_response(LISTING.one(call, call.broker))


async def get_memory(call: Call) -> Response:
    """Return what takes the memory: bodies of messages that are in memory, and the rest."""
    _require_node(call)
    resident = resident_bytes()
    pager = call.broker.pager
    bodies = 0 if pager is None else pager.budget.used
    memory = {
        "bodies": bodies,
        "other": max(0, resident - bodies),
        "total": {"rss": resident},
        "strategy": "rss",
    }
    return json_response({"memory": memory})


def _require_node(call: Call) -> None:
    if call.names["node"] != node_name():
        raise not_found("node", call.names["node"])


ROUTES: Final = (
    Route("nodes", {"GET": list_nodes}, MONITORS),
    Route("nodes/{node}", {"GET": get_node}, MONITORS),
    Route("nodes/{node}/memory", {"GET": get_memory}, MONITORS),
)
