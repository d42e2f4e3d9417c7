"""``GET /api/v1/addresses``: addresses with limits, their usage and the effects of their policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from annulet.admin.requests.access import chosen_hosts, require_user
from annulet.admin.requests.parameters import PAGE_PARAMETERS, read_page, read_parameters
from annulet.admin.requests.responses import json_response

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.host.address_accounts import AddressAccount


async def list_addresses(request: Request) -> Response:
    """A page of addresses by virtual host and name. ``vhost`` chooses one host, ``name`` a part of the name."""
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "vhost", "name"))
    page = read_page(parameters)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    part = parameters.get("name", "")
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
