from __future__ import annotations

from tests.admin.conftest import Site


async def test_no_user_sees_a_reply_queue(site: Site) -> None:
    name = "amq.rabbitmq.reply-to.g1"
    site.broker.hosts["/"].declare_queue(name, now=1, owner=None, server_named=True)
    status, reason = await site.refused("GET", f"/api/v1/queues/%2F/{name}")
    assert (status, reason) == (404, f"no queue {name!r} in virtual host '/'")


async def test_a_virtual_host_that_the_user_does_not_see_is_not_there(site: Site) -> None:
    site.queue("q", "other")
    for host in ("other", "absent"):
        status, reason = await site.refused("GET", f"/api/v1/queues/{host}/q", user="shop:pass")
        assert (status, reason.startswith(f"no virtual host '{host}'")) == (404, True)


async def test_an_exclusive_queue_is_for_its_connection(site: Site) -> None:
    site.broker.hosts["/"].declare_queue("mine", now=1, owner=object())
    assert (await site.get("/api/v1/queues/%2F/mine")).status_code == 200
    for method, path in (("GET", "messages"), ("POST", "pause")):
        assert (await site.refused(method, f"/api/v1/queues/%2F/mine/{path}"))[0] == 409
