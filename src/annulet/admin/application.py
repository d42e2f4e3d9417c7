"""The Starlette application: which path is answered by which resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route, WebSocketRoute

from annulet.admin.console.assets import shipped_console
from annulet.admin.console.streams import ConsoleStreams
from annulet.admin.interface.routing import METHODS
from annulet.admin.listening import web_socket
from annulet.admin.rabbitmq import routes as rabbitmq
from annulet.admin.requests.responses import (
    ResourceError,
    answer_defect,
    answer_http_exception,
    answer_refusal,
    answer_resource_error,
)
from annulet.admin.resources import health, metrics
from annulet.admin.resources.routes import TABLE
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


class _RabbitMQPath(PathConvertor):
    """A path below ``/api`` but not below ``/api/v1``, whose routes say themselves what they do not know."""

    regex = r"(?!v1(?:/|$))[\s\S]*"


class _OwnPath(PathConvertor):
    """``v1`` and every path below it, line breaks included: they are refused by name."""

    regex = r"v1(?:/[\s\S]*)?"


register_url_convertor("rabbitmq", _RabbitMQPath())
register_url_convertor("own", _OwnPath())


def build_application(broker: Broker) -> Starlette:
    """Return the application of one broker. It opens no socket; :class:`annulet.admin.service.AdminService` does."""
    application = Starlette(
        routes=[
            Route("/health/live", health.live),
            Route("/health/ready", health.ready),
            Route("/metrics", metrics.metrics),
            Route("/api/{path:own}", TABLE.answer, methods=METHODS),
            Route("/api/{path:rabbitmq}", rabbitmq.TABLE.answer, methods=rabbitmq.METHODS),
            *(WebSocketRoute(path, web_socket.serve) for path in web_socket.PATHS),
            Route("/{path:path}", shipped_console().answer),
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
    application.state.streams = ConsoleStreams(broker)
    return application
