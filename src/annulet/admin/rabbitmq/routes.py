"""The route table of RabbitMQ's management API: the routes of all resources. A resource's module has its own."""

from __future__ import annotations

from typing import Final

from annulet.admin.rabbitmq import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    features,
    health_checks,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    virtual_hosts,
)
from annulet.admin.rabbitmq.framework.routing import RouteTable

TABLE: Final = RouteTable(
    [
        *overview.ROUTES,
        *nodes.ROUTES,
        *features.ROUTES,
        *exchanges.ROUTES,
        *queues.ROUTES,
        *bindings.ROUTES,
        *connections.ROUTES,
        *channels.ROUTES,
        *consumers.ROUTES,
        *messages.ROUTES,
        *policies.ROUTES,
        *parameters.ROUTES,
        *health_checks.ROUTES,
        *users.ROUTES,
        *permissions.ROUTES,
        *virtual_hosts.ROUTES,
        *limits.ROUTES,
        *definitions.ROUTES,
    ]
)

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE")
"""Methods that some route has."""
