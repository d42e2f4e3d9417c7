from __future__ import annotations

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect


async def test_a_user_without_entry_sees_no_connection(site: Site) -> None:
    client = await connect(site)
    assert (await site.get("/api/v1/connections", user="manager:pass")).json()["items"] == []
    await client.close()
