"""``/api/v1/addresses``: addresses with limits, their usage and the effects of their policies; making, deleting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.bodies import SWITCH, TEXTS
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.operation.durable_changes import durably
from annulet.core.routing.exchanges.address import ADDRESS_TYPE, ROUTING_TYPES_ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.address_accounts import AddressAccount
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.routing.exchanges.address import Address


Row: TypeAlias = "tuple[str, AddressAccount]"

ADDRESS: Final = "address"
"""The name of a path that names an address."""


async def list_addresses(call: Call) -> Response:
    """A page of addresses by virtual host and name."""
    return await LISTING.answer(call, _rows(call.hosts()))


def _rows(hosts: list[VirtualHost]) -> Iterator[Row]:
    for host in hosts:
        for account in list(host.accounts.by_address.values()):
            yield host.name, account


def _described(row: Row) -> dict[str, Any]:
    return describe_account(*row)


def _key(row: Row) -> tuple[str, str]:
    return row[0], row[1].name


def _name_of(row: Row) -> str:
    return row[1].name


NAMES: Final = frozenset(
    {
        "vhost",
        "name",
        "messages",
        "bytes",
        "paged_count",
        "paged_bytes",
        "page_full",
        "blocked",
        "dropped",
        "refused",
        "limits",
    }
)

LISTING: Final[Listing[Row]] = Listing((Part(NAMES, _described),), _key, (str, str), _name_of)


def describe_account(host_name: str, account: AddressAccount) -> dict[str, Any]:
    """Return the figures of one address, bytes being those of bodies, and its limits by their address settings."""
    limits = account.limits
    return {
        "vhost": host_name,
        "name": account.name,
        "messages": account.messages,
        "bytes": account.bytes,
        "paged_count": account.paged_count,
        "paged_bytes": account.paged_bytes,
        "page_full": account.page_full,
        "blocked": account.blocked,
        "dropped": account.dropped,
        "refused": account.refused,
        "limits": {
            "max-size-messages": limits.max_messages,
            "max-size-bytes": limits.max_bytes,
            "address-full-policy": limits.policy,
            "max-size-bytes-reject-threshold": limits.reject_threshold,
            "page-limit-messages": limits.page_max_messages,
            "page-limit-bytes": limits.page_max_bytes,
            "page-full-policy": limits.page_policy,
        },
    }


async def get_address(call: Call) -> Response:
    """One address: its definition, and its usage and limits if it has an account."""
    host, name = call.host(), call.names[ADDRESS]
    address, account = host.addresses.get(name), host.accounts.by_address.get(name)
    if address is None and account is None:
        raise ResourceError(404, f"no address {name!r} in virtual host {host.name!r}")
    described = {} if account is None else describe_account(host.name, account)
    return json_response({**described, "vhost": host.name, "name": name, **_definition(address)})


async def put_address(call: Call) -> Response:
    """Create an address: 201; or check that the one that is there is the same: 200."""
    host, name, given = call.host(), call.names[ADDRESS], call.fields
    types = given.get("routing_types") or [host.settings_of(name).default_address_routing_type]
    durable, access, known = given.get("durable", True), call.access(host), name in host.exchanges
    arguments: Arguments = {ROUTING_TYPES_ARGUMENT: ",".join(types)}
    await durably(
        call.broker.definitions,
        lambda: access.declare_exchange(
            name, ADDRESS_TYPE, durable=durable, auto_delete=False, internal=False, arguments=arguments
        ),
    )
    if not known:
        audit(host, call.user, "create-address", name, given, call.now)
    described = {"vhost": host.name, "name": name, **_definition(host.addresses.get(name))}
    return json_response(described, 200 if known else 201)


async def delete_address(call: Call) -> Response:
    """Delete an address with its bindings; its queues stay."""
    host, name, unused = call.host(), call.names[ADDRESS], call.parameters["if_unused"]
    host.nodes.address_for(name)
    access = call.access(host)
    await durably(call.broker.definitions, lambda: access.delete_exchange(name, if_unused=unused))
    audit(host, call.user, "delete-address", name, None, call.now)
    return json_response({"vhost": host.name, "name": name, "deleted": True})


def _definition(address: Address | None) -> dict[str, Any]:
    """Return the definition of an address; a queue that is an address by its name alone is not declared."""
    if address is None:
        return {"declared": False}
    return {
        "declared": True,
        "routing_types": list(address.routing_types),
        "durable": address.durable,
        "auto_created": address.auto_created,
    }


def _revision(call: Call) -> Any:
    address = call.host().addresses.get(call.names[ADDRESS])
    return None if address is None else _definition(address)


ADDRESS_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, messages=COUNT, bytes=COUNT)
DEFINED_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, declared=SWITCH_SCHEMA)

RESOURCES: Final = (
    Resource(
        "addresses",
        "routing",
        (
            Operation(
                "GET",
                "list_addresses",
                "Addresses with limits, their usage and the effects of their policies.",
                list_addresses,
                parameters=(*LIST_PARAMETERS, VHOST),
                answers={200: Answer("A page of addresses.", page_of(ADDRESS_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "addresses/{vhost}/{address}",
        "routing",
        (
            Operation(
                "GET",
                "get_address",
                "One address with its definition, usage and limits.",
                get_address,
                answers={200: Answer("The address.", DEFINED_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_address",
                "Create an address, or check that it is the same.",
                put_address,
                needs=(Need("configure", ADDRESS),),
                body=Fields(
                    (
                        Value("routing_types", "a list of anycast, multicast or both", TEXTS, example=["multicast"]),
                        Value("durable", "false for an address that ends with the broker", SWITCH, default=True),
                    )
                ),
                answers={
                    200: Answer("The address is the same.", DEFINED_SCHEMA),
                    201: Answer("The address.", DEFINED_SCHEMA),
                },
            ),
            Operation(
                "DELETE",
                "delete_address",
                "Delete an address with its bindings; its queues stay.",
                delete_address,
                needs=(Need("configure", ADDRESS),),
                parameters=(Value("if_unused", "true to refuse it while it has bindings", SWITCH, default=False),),
                answers={200: Answer("The address is deleted.")},
            ),
        ),
        _revision,
    ),
)
