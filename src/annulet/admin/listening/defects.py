"""The outermost part of the application: an exception of a request ends only that request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocketDisconnect

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from annulet.broker.observing.limited_log import LimitedLog

logger = structlog.get_logger(__name__)


class DefectBoundary:
    """Runs an application. Its exceptions are defects of ours that any peer may cause: one limited line each.

    A lost peer is not a defect: connections end that way.
    """

    def __init__(self, application: ASGIApp, log: LimitedLog) -> None:
        self._application = application
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        try:
            await self._application(scope, receive, send)
        except (ClientDisconnect, WebSocketDisconnect, OSError) as error:
            logger.debug("peer gone", path=scope.get("path"), error=repr(error))
        except Exception as error:  # noqa: BLE001 - a defect ends one request
            self._log.defect("defect while answering over http", error, path=str(scope.get("path"))[:200])
