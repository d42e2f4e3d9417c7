"""The route table of ``/api/v1``: the resources of all modules, and the description of the table itself."""

from __future__ import annotations

from typing import Final

from annulet.admin.interface.routing import RouteTable
from annulet.admin.resources import (
    addresses,
    audit,
    backups,
    definitions,
    host_settings,
    ledger,
    messages,
    operations,
    overview,
    permissions,
    queues,
    tokens,
    users,
    virtual_hosts,
    why_not,
)

TABLE: Final = RouteTable(
    [
        *overview.RESOURCES,
        *queues.RESOURCES,
        *why_not.RESOURCES,
        *messages.RESOURCES,
        *operations.RESOURCES,
        *addresses.RESOURCES,
        *host_settings.RESOURCES,
        *users.RESOURCES,
        *permissions.RESOURCES,
        *tokens.RESOURCES,
        *virtual_hosts.RESOURCES,
        *ledger.RESOURCES,
        *audit.RESOURCES,
        *definitions.RESOURCES,
        *backups.RESOURCES,
    ]
)
