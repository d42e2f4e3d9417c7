from __future__ import annotations

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect, keep


async def test_consumers_of_a_virtual_host(site: Site) -> None:
    client = await connect(site)
    channel = await client.channel()
    queue = await channel.declare_queue("q")
    arguments = {"x-priority": 3, "x-filter-jms-selector": "a = 1"}
    await queue.consume(keep, consumer_tag="ct", no_ack=True, exclusive=True, arguments=arguments)
    [item] = (await site.get("/api/consumers/%2F")).json()
    assert (item["consumer_tag"], item["ack_required"], item["exclusive"], item["active"]) == ("ct", False, True, True)
    assert item["queue"] == {"name": "q", "vhost": "/"}
    assert item["arguments"] == arguments
    assert item["channel_details"]["user"] == "guest"
    assert (await site.get("/api/consumers/other")).json() == []
    assert (await site.get("/api/queues/%2F/q")).json()["exclusive_consumer_tag"] == "ct"
    await client.close()
