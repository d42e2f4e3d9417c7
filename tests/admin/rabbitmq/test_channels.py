from __future__ import annotations

from urllib.parse import quote

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import OTHER_USER, connect, keep


async def test_channels_with_their_consumers(site: Site) -> None:
    client = await connect(site)
    channel = await client.channel(publisher_confirms=True)
    await channel.set_qos(prefetch_count=7)
    queue = await channel.declare_queue("q")
    await queue.consume(keep, consumer_tag="ct")
    [item] = (await site.get("/api/channels")).json()
    [connection] = (await site.get("/api/connections")).json()
    assert item["name"] == f"{connection['name']} (1)"
    assert (item["number"], item["prefetch_count"], item["consumer_count"], item["confirm"]) == (1, 7, 1, True)
    assert (item["messages_unacknowledged"], item["transactional"], item["state"]) == (0, False, "running")
    assert item["connection_details"]["name"] == connection["name"]
    one = (await site.get(f"/api/channels/{quote(item['name'], safe='')}")).json()
    assert [each["consumer_tag"] for each in one["consumer_details"]] == ["ct"]
    assert one["consumer_details"] == (await site.get("/api/consumers")).json()
    assert one["consumer_details"] == (await site.get("/api/queues/%2F/q")).json()["consumer_details"]
    path = f"/api/connections/{quote(connection['name'], safe='')}/channels"
    assert (await site.get(path)).json() == [item]
    assert (await site.get("/api/vhosts/%2F/channels")).json() == [item]
    assert (await site.get("/api/channels", user=OTHER_USER)).json() == []
    assert await site.status("GET", "/api/channels/nope") == 404
    assert await site.status("GET", path, user=OTHER_USER) == 404
    await client.close()
