"""A real broker in memory with an HTTP client on its application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from annulet.admin.application import build_application
from annulet.broker.broker import Broker
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.testing import VirtualClock, broker
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

ORIGIN = Origin("", "q", "guest@test", ContentView("none"))
LOCAL = ("127.0.0.1", 40_000)
REMOTE = ("192.0.2.7", 40_000)

ALL = PermissionDeclaration(".*", ".*", ".*")
PASSWORD_HASH = HASHER.hash("pass")
IMPATIENT = Limits(login_delay_first=0)  # a wrong password makes nobody wait, which other tests are about
USERS = {
    "guest": UserDeclaration(HASHER.hash("guest"), ("administrator",), {"/": ALL}),
    "manager": UserDeclaration(PASSWORD_HASH, ("management",), {"other": ALL}),
    "plain": UserDeclaration(PASSWORD_HASH, (), {"/": ALL}),
    "watcher": UserDeclaration(PASSWORD_HASH, ("monitoring",), {"/": ALL}),
    "shop": UserDeclaration(PASSWORD_HASH, ("management",), {"/": PermissionDeclaration("^shop", "^shop", "^shop")}),
}


@dataclass
class Site:
    """The broker, its clock, and how to ask its application as anybody from anywhere."""

    broker: Broker
    clock: VirtualClock

    def client(self, *, peer: tuple[str, int] = LOCAL, user: str | None = "guest:guest") -> httpx.AsyncClient:
        name, _, password = (user or "").partition(":")
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(build_application(self.broker), client=peer),
            base_url="http://localhost",
            auth=(name, password) if user else None,
        )

    async def get(
        self, path: str, *, peer: tuple[str, int] = LOCAL, user: str | None = "guest:guest"
    ) -> httpx.Response:
        async with self.client(peer=peer, user=user) as client:
            return await client.get(path)

    async def send(self, method: str, path: str, body: Any = None, *, user: str = "guest:guest", **headers: str) -> Any:
        """Send a request with a JSON body; return status and what was answered."""
        async with self.client(user=user) as client:
            response = await client.request(method, path, json=body, headers=headers)
            return response.status_code, response.json()

    async def status(self, method: str, path: str, body: Any = None, *, user: str = "guest:guest") -> int:
        """Send a request with a JSON body; return its status. The answer may be empty."""
        async with self.client(user=user) as client:
            return (await client.request(method, path, json=body)).status_code

    async def refused(self, method: str, path: str, body: Any = None, *, user: str = "guest:guest") -> tuple[int, str]:
        """Send what must be refused; return status and reason."""
        status, answer = await self.send(method, path, body, user=user)
        assert 400 <= status < 500, answer
        return status, answer["reason"]

    def publish(self, key: str, body: bytes = b"x", *, priority: int = 4, delay: int = 0, **headers: Any) -> None:
        """Publish as an AMQP client would; ``delay`` in milliseconds."""
        host, now = self.broker.hosts["/"], self.clock()
        properties = BasicProperties()
        properties.headers = headers
        message = Message(
            encode_properties(properties),
            body,
            Origin("", key, "guest@test", VIEW),
            priority=priority,
            accepted_at=now,
            deliver_at=now + delay if delay else 0,
        )
        host.publisher.publish(message, host.route("", key), now)

    def queue(self, name: str = "q", host: str = "/", **arguments: str | int) -> Queue:
        """Declare a transient queue."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return self.broker.hosts[host].declare_queue(
            name, durable=False, auto_delete=False, owner=None, arguments=named, now=self.clock()
        )

    def fill(self, queue: Queue, count: int, size: int = 10) -> None:
        """Enqueue messages of ``size`` bytes."""
        for _ in range(count):
            queue.enqueue(Message(b"", b"x" * size, ORIGIN, accepted_at=self.clock()), self.clock())


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    clock = VirtualClock()
    async with broker(clock=clock, http=False, users=USERS, limits=IMPATIENT) as running:
        yield Site(running.broker, clock)
