from __future__ import annotations

from annulet.broker.operation.listeners import open_listeners
from annulet.testing import broker


async def test_every_open_listener_with_its_real_port() -> None:
    async with broker(stomp=True) as running:
        listeners = open_listeners(running.broker)
        assert list(listeners) == ["amqp", "stomp", "http"]
        assert (listeners["amqp"].host, listeners["amqp"].port) == running.broker.amqp_address
        assert (listeners["stomp"].host, listeners["stomp"].port) == running.stomp_address
        assert running.http_url == f"http://{listeners['http']}"
