from __future__ import annotations

import signal

import httpx
import pytest

from annulet.admin.service import AdminService
from annulet.broker.configuration import LOOPBACK, Endpoint
from annulet.broker.listening import ListenerError
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


async def test_stop_without_start_is_harmless() -> None:
    await AdminService(Endpoint(LOOPBACK, 0)).stop()
