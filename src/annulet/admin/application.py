"""The Starlette application: which path is answered by which resource."""

from __future__ import annotations

import asyncio
import importlib
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
from annulet.admin.resources import health
from annulet.admin.resources.routes import TABLE
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.broker import Broker


class _RabbitMQPath(PathConvertor):
    """A path below ``/api`` but not below ``/api/v1``, whose routes say themselves what they do not know."""

    regex = r"(?!v1(?:/|$))[\s\S]*"


class _OwnPath(PathConvertor):
    """``v1`` and every path below it, line breaks included: they are refused by name."""

    regex = r"v1(?:/[\s\S]*)?"


register_url_convertor("rabbitmq", _RabbitMQPath())
register_url_convertor("own", _OwnPath())


async def scrape(request: Request) -> Response:
    """Answer as :func:`annulet.admin.resources.metrics.metrics`. The first scrape imports it, in a thread: that takes
    0.1 s. There are 2 MiB less in memory until then.
    """
    await asyncio.to_thread(importlib.import_module, "annulet.admin.resources.metrics")
    from annulet.admin.resources.metrics import metrics  # noqa: PLC0415 - imported above, off the loop

    return await metrics(request)


def build_application(broker: Broker) -> Starlette:
    """Return the application of one broker. It opens no socket; :class:`annulet.admin.service.AdminService` does."""
    application = Starlette(
        routes=[
            Route("/health/live", health.live),
            Route("/health/ready", health.ready),
            Route("/metrics", scrape),
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
