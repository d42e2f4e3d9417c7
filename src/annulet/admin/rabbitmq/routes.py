"""The route table of RabbitMQ's management API: the routes of all resources. A resource's module has its own."""

from __future__ import annotations

from typing import Final

from annulet.admin.rabbitmq import features, limits, permissions, users, virtual_hosts
from annulet.admin.rabbitmq.framework.routing import RouteTable

TABLE: Final = RouteTable([*features.ROUTES, *users.ROUTES, *permissions.ROUTES, *virtual_hosts.ROUTES, *limits.ROUTES])

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE")
"""Methods that some route has."""
