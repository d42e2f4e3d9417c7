from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import aio_pika
import pytest

from annulet import testing
from annulet.testing import VirtualClock
from tests.admin.conftest import IMPATIENT, USERS, Site
from tests.broker.amqp10.peer import Peer
from tests.broker.stomp.peer import Peer as StompPeer


@pytest.fixture
async def traced() -> AsyncIterator[tuple[Site, str]]:
    async with testing.broker(http=False, users=USERS, limits=IMPATIENT) as running:
        connection = await aio_pika.connect(running.amqp_url)
        (name,) = [each.name for each in running.broker.connections]
        site = Site(running.broker, VirtualClock())
        channel = await connection.channel()
        await channel.declare_queue("q")
        site.channel = channel  # type: ignore[attr-defined]
        yield site, f"/api/v1/traces/{quote(name, safe='')}"
        await connection.close()


async def publish(site: Site) -> None:
    channel: aio_pika.abc.AbstractChannel = site.channel  # type: ignore[attr-defined]
    message = aio_pika.Message(b"what nobody may see", headers={"api_token": "hush", "kind": "visible"})
    await channel.default_exchange.publish(message, "q")


async def test_a_trace_shows_frames_without_bodies_and_secrets(traced: tuple[Site, str]) -> None:
    site, path = traced
    status, answer = await site.send("PUT", path, {"seconds": 30})
    assert (status, answer["running"], answer["started_by"], answer["bodies"]) == (201, True, "guest", False)
    await publish(site)
    answer = (await site.send("GET", path))[1]
    text = "\n".join(line["text"] for line in answer["lines"])
    assert "<- #1 basic.publish(" in text
    assert "<- #1 body of 19 octets\n" in text
    assert "'visible'" in text
    assert "hush" not in text
    after = answer["lines"][0]["number"]
    assert (await site.send("GET", f"{path}?after={after}"))[1]["lines"] == answer["lines"][1:]
    assert [each["connection"] for each in (await site.send("GET", "/api/v1/traces"))[1]["items"]] == [
        answer["connection"]
    ]
    assert (await site.send("DELETE", path))[0] == 200
    await publish(site)
    assert (await site.refused("GET", path))[0] == 404
    assert [entry.operation for entry in site.broker.audit.query()] == ["trace", "end-trace"]


async def test_bodies_are_shown_to_administrators_that_ask(traced: tuple[Site, str]) -> None:
    site, path = traced
    await site.send("PUT", path, {"bodies": True})
    await publish(site)
    text = str((await site.send("GET", path))[1]["lines"])
    assert b"what nobody".hex(" ") in text
    assert "hush" not in text
    (entry,) = site.broker.audit.query(operation="trace")
    assert entry.arguments == '{"bodies":true}'


async def test_traces_are_for_administrators_of_open_connections(traced: tuple[Site, str]) -> None:
    site, path = traced
    for user in ("manager:pass", "watcher:pass", "shop:pass"):
        for method in ("GET", "PUT", "DELETE"):
            assert (await site.refused(method, path, {}, user=user))[0] == 403, (method, user)
    assert (await site.refused("PUT", "/api/v1/traces/nix", {}))[1].startswith("no connection 'nix' is open")
    assert (await site.refused("PUT", path, {"seconds": 0})) == (
        400,
        "field 'seconds' is 0; give an integer from 1 to 3600",
    )
    assert "'bodys'" in (await site.refused("PUT", path, {"bodys": True}))[1]
    assert site.broker.traces.all() == []


async def test_stomp_is_traced(site: Site) -> None:
    peer = await StompPeer(site.broker).open()
    trace = site.broker.traces.start(peer.connection, by="guest")
    await peer.request("SEND", {"destination": "/queue/q", "auth-token": "hush"}, b"what nobody may see")
    sent, answered = [line.text for line in trace.lines(0, 100)]
    assert sent.startswith("<- SEND destination='/queue/q' auth-token=***")
    assert sent.endswith(" body=19 octets")
    assert answered.startswith("-> RECEIPT")
    trace.end()
    await peer.request("SEND", {"destination": "/queue/q"})
    assert (trace.frames, peer.connection.engine.trace) == (2, None)
    peer.connection.abort()


async def test_amqp_1_0_is_traced(site: Site) -> None:
    peer = await Peer(site.broker).open()
    trace = site.broker.traces.start(peer.connection, by="guest")
    await peer.publish(await peer.sender("q"), b"\x00\x53\x75\xa0\x04hush")
    (transfer,) = [line.text for line in trace.lines(0, 100) if "transfer(" in line.text]
    assert transfer.startswith("<- #0 transfer(")
    assert transfer.endswith(" + 9 octets")
    trace.end()
    assert peer.connection.engine.output.trace is None
    peer.connection.abort()
