"""Our answers beside those of RabbitMQ 3.10.8, key by key."""

from __future__ import annotations

from urllib.parse import quote

from annulet.admin.rabbitmq.framework.naming import node_name
from tests.admin.conftest import Site
from tests.admin.rabbitmq.differences import ABSENT, PAGE, RECORDED, keys_of, page, reason
from tests.admin.rabbitmq.test_connections import connect, keep


async def test_every_key_of_rabbitmq_is_there_or_absent_for_a_reason(site: Site) -> None:
    await site.status("PUT", "/api/queues/%2F/q1", {"durable": True, "arguments": {"x-max-length": 5}})
    await site.status("PUT", "/api/exchanges/%2F/e1", {"type": "topic"})
    await site.status("PUT", "/api/policies/%2F/p1", {"pattern": "^q", "definition": {"max-length": 7}})
    await site.status("PUT", "/api/global-parameters/gp", {"value": 1})
    client = await connect(site)
    channel = await client.channel()
    await (await channel.get_queue("q1")).consume(keep)
    name = quote((await site.get("/api/connections")).json()[0]["name"], safe="")
    number = quote((await site.get("/api/channels")).json()[0]["name"], safe="")
    missing, more = [], []
    for route, recorded in RECORDED.items():
        path = route.format(connection=name, channel=number, node=node_name())
        keys = keys_of((await site.get(f"/api/{path}")).json())
        for key in recorded:
            if key not in keys and not reason(route, key):
                missing.append((route, key))
            if key in keys and reason(route, key):
                more.append((route, key))
    assert missing == [], "give it, or say in differences.py why it is absent"
    assert more == [], "it is there; take it out of the absent ones"
    await client.close()


def test_every_reason_is_about_a_key_of_rabbitmq() -> None:
    for route, patterns in ABSENT.items():
        for pattern in patterns:
            assert any(reason(route, key) for key in RECORDED[route] if _matches(key, pattern)), (route, pattern)


def _matches(key: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(key, pattern)


def test_the_page_has_the_present_table() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m tests.admin.rabbitmq.differences"
