"""``/api/v1/leases``: leases of Spark queries on queues; ending one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call

Row: TypeAlias = "dict[str, Any]"

LEASE: Final = "lease"
"""The name of a path that names a lease."""

NAMES: Final = frozenset(
    {
        "acknowledged",
        "age_milliseconds",
        "claimed",
        "created_at",
        "gap",
        "generated",
        "generation",
        "held",
        "held_bytes",
        "idle_milliseconds",
        "lag_milliseconds",
        "last",
        "name",
        "pending",
        "queue",
        "user",
        "vhost",
    }
)


def _item(row: Row) -> Row:
    return row


def _key(row: Row) -> tuple[str, str]:
    return row["vhost"], row["name"]


def _name_of(row: Row) -> str:
    name: str = row["name"]
    return name


LISTING: Final[Listing[Row]] = Listing((Part(NAMES, _item),), _key, (str, str), _name_of)


async def list_leases(call: Call) -> Response:
    """A page of the leases on queues that the user may read."""
    return await LISTING.answer(call, _rows(call))


def _rows(call: Call) -> Iterator[Row]:
    wanted = call.parameters.get("queue")
    for host in call.hosts():
        access = call.access(host)
        for facts in call.broker.leases.statistics(host.name):
            row = {"vhost": facts.pop("virtual_host"), **facts}
            queue = str(row["queue"])
            if wanted in {None, queue} and access.allowed("read", queue):
                yield row


async def get_lease(call: Call) -> Response:
    """One lease."""
    return json_response(_chosen(call))


async def delete_lease(call: Call) -> Response:
    """End a lease: its messages return to their places, and count as a delivery attempt."""
    host, row = call.host(), _chosen(call)
    returned = await call.broker.leases.end(host.name, row["name"])
    audit(host, call.user, "end-lease", row["name"], {"queue": row["queue"], "returned": returned}, call.now)
    return json_response({"vhost": host.name, "name": row["name"], "returned": returned})


def _chosen(call: Call) -> Row:
    """Return the lease that the path names; 404 when there is none, and 403 when the user may not read its queue."""
    host, name = call.host(), call.names[LEASE]
    for facts in call.broker.leases.statistics(host.name):
        if facts["name"] == name:
            call.access(host).require("read", str(facts["queue"]))
            return {"vhost": facts.pop("virtual_host"), **facts}
    raise ResourceError(404, f"no lease {name!r} in virtual host {host.name!r}; GET /api/v1/leases lists them")


LEASE_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, queue=TEXT_SCHEMA, held=COUNT)
READ: Final = "read on the queue of the lease"

RESOURCES: Final = (
    Resource(
        "leases",
        "clients",
        (
            Operation(
                "GET",
                "list_leases",
                "Leases of Spark queries on queues that the user may read.",
                list_leases,
                parameters=(*LIST_PARAMETERS, VHOST, Value("queue", "a queue, for its leases only")),
                answers={200: Answer("A page of leases.", page_of(LEASE_SCHEMA))},
                further=READ,
            ),
        ),
    ),
    Resource(
        "leases/{vhost}/{lease}",
        "clients",
        (
            Operation(
                "GET",
                "get_lease",
                "One lease.",
                get_lease,
                answers={200: Answer("The lease.", LEASE_SCHEMA)},
                further=READ,
            ),
            Operation(
                "DELETE",
                "end_lease",
                "End a lease; its messages return to their places.",
                delete_lease,
                answers={200: Answer("The lease is ended.", object_of(name=TEXT_SCHEMA, returned=COUNT))},
                further=READ,
            ),
        ),
    ),
)
