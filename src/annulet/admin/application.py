"""The Starlette application: which path is answered by which resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route, WebSocketRoute

from annulet.admin.listening import web_socket
from annulet.admin.rabbitmq import routes as rabbitmq
from annulet.admin.requests.responses import (
    ResourceError,
    answer_defect,
    answer_http_exception,
    answer_refusal,
    answer_resource_error,
)
from annulet.admin.resources import (
    addresses,
    audit,
    backups,
    definitions,
    health,
    host_settings,
    ledger,
    log_level,
    metrics,
    overview,
    permissions,
    queue_resources,
    queues,
    tokens,
    traces,
    users,
    virtual_hosts,
)
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


class _RabbitMQPath(PathConvertor):
    """A path below ``/api`` but not below ``/api/v1``, whose routes say themselves what they do not know."""

    regex = r"(?!v1(?:/|$))[\s\S]*"


register_url_convertor("rabbitmq", _RabbitMQPath())


def build_application(broker: Broker) -> Starlette:
    """Return the application of one broker. It opens no socket; :class:`annulet.admin.service.AdminService` does."""
    application = Starlette(
        routes=[
            Route("/health/live", health.live),
            Route("/health/ready", health.ready),
            Route("/metrics", metrics.metrics),
            Route("/api/v1/overview", overview.overview),
            Route("/api/v1/queues", queues.list_queues),
            Route("/api/v1/queues/{path:path}", queue_resources.answer, methods=queue_resources.METHODS),
            Route("/api/v1/addresses", addresses.list_addresses),
            Route(
                "/api/v1/address-settings/{path:path}", host_settings.address_settings, methods=host_settings.METHODS
            ),
            Route("/api/v1/policies/{path:path}", host_settings.policies, methods=host_settings.METHODS),
            Route("/api/v1/users", users.list_users),
            Route("/api/v1/users/{path:path}", users.answer, methods=users.METHODS),
            Route("/api/v1/virtual-hosts", virtual_hosts.list_virtual_hosts),
            Route("/api/v1/virtual-hosts/{path:path}", virtual_hosts.answer, methods=virtual_hosts.METHODS),
            Route("/api/v1/permissions", permissions.list_permissions),
            Route("/api/v1/permissions/{path:path}", permissions.answer, methods=permissions.METHODS),
            Route("/api/v1/tokens", tokens.list_tokens),
            Route("/api/v1/tokens/{path:path}", tokens.answer, methods=tokens.METHODS),
            Route("/api/v1/losses", ledger.list_losses),
            Route("/api/v1/losses/counts", ledger.count_losses_by_queue),
            Route("/api/v1/log", log_level.answer, methods=log_level.METHODS),
            Route("/api/v1/traces", traces.list_traces),
            Route("/api/v1/traces/{path:path}", traces.answer, methods=traces.METHODS),
            Route("/api/v1/audit", audit.list_operations),
            Route("/api/v1/definitions", definitions.answer, methods=definitions.METHODS),
            Route("/api/v1/backups", backups.answer, methods=backups.METHODS),
            Route("/api/v1/backups/{number:int}", backups.get_backup),
            Route("/api/{path:rabbitmq}", rabbitmq.TABLE.answer, methods=rabbitmq.METHODS),
            *(WebSocketRoute(path, web_socket.serve) for path in web_socket.PATHS),
        ],
        exception_handlers={
            ResourceError: answer_resource_error,
            HTTPException: answer_http_exception,
            CoreError: answer_refusal,
            CatalogueError: answer_refusal,
            Exception: answer_defect,
        },
    )
    application.state.broker = broker
    return application
