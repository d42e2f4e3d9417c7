"""``GET /api/v1/addresses``: addresses with limits, their usage and the effects of their policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import NAME_PART, PAGES, VHOST
from annulet.admin.requests.responses import json_response

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.address_accounts import AddressAccount


async def list_addresses(call: Call) -> Response:
    """A page of addresses by virtual host and name."""
    page, hosts = call.page, call.hosts()
    part = call.parameters.get("name", "")
    total = sum(len(host.accounts.by_address) for host in hosts)
    chosen = [
        (host.name, account)
        for host in hosts
        for name, account in sorted(host.accounts.by_address.items())
        if part in name
    ]
    items = [describe_account(host_name, account) for host_name, account in page.take(chosen)]
    return json_response(page.envelope(items, filtered_count=len(chosen), total_count=total))


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


ADDRESS_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, messages=COUNT, bytes=COUNT)

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
                parameters=(*PAGES, VHOST, NAME_PART),
                answers={200: Answer("A page of addresses.", page_of(ADDRESS_SCHEMA))},
            ),
        ),
    ),
)
