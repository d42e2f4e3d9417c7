from __future__ import annotations

from typing import Any

import httpx
import pytest
import structlog
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocketDisconnect

from annulet import testing
from annulet.admin.interface import routing
from annulet.admin.listening.defects import DefectBoundary
from annulet.broker.observing.limited_log import LimitedLog


async def serve(error: Exception) -> list[Any]:
    async def application(*_arguments: Any) -> None:
        raise error

    async def nothing(*_arguments: Any) -> Any:
        return {}

    with structlog.testing.capture_logs() as lines:
        await DefectBoundary(application, LimitedLog(structlog.get_logger("test")))({"path": "/p"}, nothing, nothing)
    return lines


@pytest.mark.parametrize(
    "error", [ClientDisconnect(), WebSocketDisconnect(), ConnectionResetError(), BrokenPipeError()]
)
async def test_a_peer_that_is_gone_is_no_defect(error: Exception) -> None:
    assert [line["log_level"] for line in await serve(error)] == ["debug"]


async def test_a_defect_is_one_line_without_a_traceback() -> None:
    (line,) = await serve(ZeroDivisionError("x"))
    assert (line["event"], line["log_level"], line["path"]) == ("defect while answering over http", "error", "/p")
    assert line["error"] == "ZeroDivisionError: x"
    assert "exc_info" not in line


async def test_a_defect_is_answered_500_and_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(routing, "require_user", broken)
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        with structlog.testing.capture_logs() as lines:
            answer = await client.get("/api/v1/overview")
        assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
        assert "secret" not in answer.text
        assert [line["event"] for line in lines] == ["defect while answering over http"]
        assert (await client.get("/health/live")).status_code == 200
