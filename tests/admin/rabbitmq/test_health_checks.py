from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from annulet import testing
from annulet.admin.rabbitmq.framework.naming import node_name
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from tests.admin.conftest import Site
from tests.certificates import Certificates

CHECKS = "/api/health/checks"


@pytest.mark.parametrize(
    "path",
    [
        f"{CHECKS}/alarms",
        f"{CHECKS}/local-alarms",
        f"{CHECKS}/virtual-hosts",
        f"{CHECKS}/node-is-mirror-sync-critical",
        f"{CHECKS}/node-is-quorum-critical",
        f"{CHECKS}/ready",
        f"{CHECKS}/protocol-listener/amqp",
        f"{CHECKS}/protocol-listener/amqp091",
        f"{CHECKS}/certificate-expiration/1/months",
        "/api/aliveness-test/%2F",
        "/api/healthchecks/node",
        f"/api/healthchecks/node/{node_name()}",
    ],
)
async def test_a_broker_that_is_well(site: Site, path: str) -> None:
    status, answer = await site.send("GET", path, user="shop:pass")
    assert (status, answer["status"]) == (200, "ok")
    assert await site.status("GET", path, user="plain:pass") == 401


async def test_alarms_fail_the_checks(site: Site) -> None:
    site.broker.memory_blocked = True
    for path in (f"{CHECKS}/alarms", f"{CHECKS}/local-alarms", "/api/healthchecks/node"):
        status, answer = await site.send("GET", path)
        assert (status, answer["status"]) == (503, "failed")
    assert answer["reason"] == "alarms in effect: memory"
    assert (await site.send("GET", f"{CHECKS}/alarms"))[1]["alarms"] == [{"node": node_name(), "resource": "memory"}]


async def test_a_broker_that_stops_is_not_ready(site: Site) -> None:
    site.broker.ready = False
    for path in (f"{CHECKS}/ready", "/api/aliveness-test/%2F", "/api/healthchecks/node"):
        assert await site.send("GET", path) == (503, {"status": "failed", "reason": "starting"})
    site.broker.ready = True


async def test_listeners_by_port_and_protocol(site: Site) -> None:
    port = site.broker.amqp_address[1]
    assert await site.send("GET", f"{CHECKS}/port-listener/{port}") == (200, {"status": "ok", "port": port})
    assert await site.send("GET", f"{CHECKS}/port-listener/1") == (
        503, {"status": "failed", "reason": "No active listener", "missing": 1, "ports": [port]},
    )  # fmt: skip
    for wrong in ("abc", "0", "65536", "123456"):
        assert await site.status("GET", f"{CHECKS}/port-listener/{wrong}") == 400, wrong
    assert await site.send("GET", f"{CHECKS}/protocol-listener/amqp%2Fssl") == (
        503, {"status": "failed", "reason": "No active listener", "missing": "amqp/ssl", "protocols": ["amqp"]},
    )  # fmt: skip


async def test_wrong_names_are_refused(site: Site) -> None:
    for path, status in (
        (f"{CHECKS}/certificate-expiration/1/foo", 400),
        (f"{CHECKS}/certificate-expiration/x/days", 400),
        (f"{CHECKS}/certificate-expiration/1001/days", 400),
        ("/api/aliveness-test/missing", 404),
        ("/api/healthchecks/node/other", 404),
    ):
        assert await site.status("GET", path) == status, path


async def test_certificates_that_end_soon_fail(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    ends = datetime.now(UTC) + timedelta(days=20)
    certificate, key = certificates.issue("soon", "localhost", "127.0.0.1", ends=ends)
    settings = {"amqps": certificates.settings(certificate=certificate, key=key)}
    async with (
        testing.broker(amqps=Endpoint(LOOPBACK, 0), tls=settings) as running,
        httpx.AsyncClient(base_url=running.http_url, auth=("guest", "guest")) as client,
    ):
        soon = await client.get(f"{CHECKS}/certificate-expiration/10/days")
        assert (soon.status_code, soon.json()) == (200, {"status": "ok"})
        late = await client.get(f"{CHECKS}/certificate-expiration/4/weeks")
        assert late.status_code == 503
        [expired] = late.json()["expired"]
        assert (expired["protocol"], expired["node"]) == ("amqp/ssl", node_name())
        assert expired["certfile"] == str(certificate)
