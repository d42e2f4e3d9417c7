from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from annulet.admin.service import AdminService
from annulet.broker.network.listening import ListenerError
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from tests.admin.conftest import Site


async def test_it_listens_on_a_real_socket_until_it_is_stopped(site: Site) -> None:
    service = AdminService(Endpoint(LOOPBACK, 0))
    await service.start(site.broker)
    assert service.endpoint.port > 0
    async with httpx.AsyncClient() as client:
        response = await client.get(f"{service.url}/health/ready")
        assert response.status_code == 200
        assert "server" not in response.headers
    await service.stop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{service.url}/health/ready")


async def test_it_leaves_the_signal_handlers_alone(site: Site) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    service = AdminService(Endpoint(LOOPBACK, 0))
    await service.start(site.broker)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    await service.stop()


async def test_an_address_in_use_is_refused_by_name(site: Site) -> None:
    first = AdminService(Endpoint(LOOPBACK, 0))
    await first.start(site.broker)
    with pytest.raises(ListenerError, match="in use by another program; set --http"):
        await AdminService(first.endpoint).start(site.broker)
    await first.stop()


async def test_a_stop_waits_for_nobody_but_running_requests(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        began.set()
        await may_answer.wait()
        await PlainTextResponse("done")(scope, receive, send)

    answer.state = SimpleNamespace(streams=None)
    monkeypatch.setattr("annulet.admin.service.build_application", lambda _: answer)
    idle = AdminService(Endpoint(LOOPBACK, 0))
    await idle.start(site.broker)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", lambda seconds: pytest.fail(f"a stop slept for {seconds} s"))
        await idle.stop()
    service = AdminService(Endpoint(LOOPBACK, 0))
    await service.start(site.broker)
    async with httpx.AsyncClient() as client:
        asking = asyncio.create_task(client.get(service.url))
        await began.wait()
        stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        may_answer.set()
        assert (await asking).text == "done"
    await stopping


async def test_the_date_is_renewed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.admin.service.DATE_SECONDS", 0.001)
    service = AdminService(Endpoint(LOOPBACK, 0))
    await service.start(site.broker)
    assert service._server is not None
    state = service._server.server_state
    state.default_headers = []
    async with asyncio.timeout(10):
        while not state.default_headers:  # noqa: ASYNC110 - a list tells nobody
            await asyncio.sleep(0.001)
    assert [name for name, _ in state.default_headers] == [b"date"]
    await service.stop()


async def test_stop_without_start_is_harmless() -> None:
    await AdminService(Endpoint(LOOPBACK, 0)).stop()
