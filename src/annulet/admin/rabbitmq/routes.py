"""The route table of RabbitMQ's management API: the routes of all resources. A resource's module has its own."""

from __future__ import annotations

from typing import Final

from annulet.admin.rabbitmq import features
from annulet.admin.rabbitmq.framework.routing import RouteTable

TABLE: Final = RouteTable([*features.ROUTES])

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE")
"""Methods that some route has."""
