"""No client reads, forges or routes into what an undo brings back, whatever its permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest

from annulet import testing
from annulet.broker.connections.access import Access
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.core.base.errors import AccessRefused
from annulet.core.base.sealed_names import UNDO_QUEUE
from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import PASSWORD_HASH, Site, site
from tests.broker.operation.test_undo_window import bodies, filled, start, undo

__all__ = ["site"]

ALL = PermissionDeclaration(".*", ".*", ".*")
USERS = {
    "guest": UserDeclaration(HASHER.hash("guest"), ("administrator",), {"/": ALL}),
    "plain": UserDeclaration(HASHER.hash("plain"), (), {"/": ALL}),
}
OF_PIKA: dict[str, Callable[[Any], object]] = {
    "get": lambda channel: channel.basic_get(UNDO_QUEUE),
    "consume": lambda channel: channel.basic_consume(UNDO_QUEUE, lambda *_: None),
    "browse": lambda channel: channel.basic_consume(UNDO_QUEUE, lambda *_: None, arguments={"x-browse": True}),
    "purge": lambda channel: channel.queue_purge(UNDO_QUEUE),
    "delete": lambda channel: channel.queue_delete(UNDO_QUEUE),
    "declare": lambda channel: channel.queue_declare(UNDO_QUEUE, durable=True),
    "bind": lambda channel: channel.queue_bind(UNDO_QUEUE, "amq.fanout"),
    "unbind": lambda channel: channel.queue_unbind(UNDO_QUEUE, "amq.fanout"),
}


@contextmanager
def channel_of(url: str, user: str) -> Iterator[Any]:
    host, _, port = url.rpartition("@")[2].strip("/").partition(":")
    login = pika.PlainCredentials(user, user)
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port.split("/")[0]), credentials=login))
    try:
        yield connection.channel()
    finally:
        connection.close()


def delete_one(amqp_url: str, http_url: str) -> None:
    """Delete a message, so that there is something to be undone."""
    with channel_of(amqp_url, "guest") as channel:
        channel.confirm_delivery()
        channel.queue_declare("shop")
        channel.basic_publish("", "shop", b"secret")
    path = f"{http_url}/api/v1/queues/%2F/shop/operations"
    answer = httpx.post(path, json={"operation": "purge"}, auth=("guest", "guest"))
    assert answer.status_code == 202, answer.text


def attack(amqp_url: str, http_url: str) -> None:
    delete_one(amqp_url, http_url)
    for user in ("plain", "guest"):  # no tag opens it: an administrator uses HTTP
        for name, request in OF_PIKA.items():
            with channel_of(amqp_url, user) as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
                request(channel)
            assert (name, caught.value.reply_code) == (name, 403)
        with channel_of(amqp_url, user) as channel:
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("", UNDO_QUEUE, b"forged", mandatory=True)


async def test_a_client_of_amqp(tmp_path: Any) -> None:
    async with testing.broker(users=USERS) as running:
        await asyncio.to_thread(attack, running.amqp_url, running.http_url)
        (kept_in,) = [queue for queue in running.broker.hosts["/"].queues.values() if queue.name == UNDO_QUEUE]
        assert kept_in.shown_count() == 1


async def test_users_of_http_with_every_permission_but_no_administrators(site: Site) -> None:
    start(site, filled(site, "a"), "delete")
    directory = site.broker.access_directory
    directory.set_user("half", ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord("half", "/", ".*", ".*", ".*", browse=".*", manage=".*"))
    for method, path, body in (
        ("GET", "queues/%2F/amq.undo/messages", None),
        ("GET", "queues/%2F/amq.undo/messages/1", None),
        ("POST", "queues/%2F/amq.undo/find", {"everything": True}),
        ("POST", "queues/%2F/amq.undo/operations", {"operation": "purge"}),
        ("POST", "queues/%2F/shop/operations", {"operation": "move", "everything": True, "destination": "amq.undo"}),
        ("DELETE", "queues/%2F/amq.undo", None),
    ):
        status, reason = await site.refused(method, f"/api/v1/{path}", body, user="half:pass")
        assert (path, status, "'amq.undo' in vhost '/' refused" in reason) == (path, 403, True)
    assert (await site.get("/api/v1/queues/%2F/amq.undo/messages")).status_code == 200
    retry = {"operation": "retry", "everything": True}
    status, _ = await site.send("POST", "/api/v1/queues/%2F/shop/operations", retry, user="half:pass")
    assert status == 202  # its target is never that queue, so it takes no permission for it


async def test_a_forged_note_moves_nothing(site: Site) -> None:
    """Formerly a user who may publish let the next undo bring messages of any queue into his own."""
    operation = start(site, filled(site, "a"), "delete")
    site.queue("secret")
    site.publish("secret", b"secret")
    keeper = operation.action.keeper
    assert keeper is not None
    facts = {"undo": keeper.token, "kind": "moved", "operation": "delete", "queue": "shop", "messages": 1}
    for key in (UNDO_QUEUE, f"::{UNDO_QUEUE}", f"{UNDO_QUEUE}::{UNDO_QUEUE}"):
        site.publish(key, b'[["secret",1,1,0]]', **facts)
    dead = site.queue("dead")
    site.publish("dead", b'[["secret",1,1,0]]', _AMQ_ORIG_QUEUE=UNDO_QUEUE, **facts)
    assert start(site, dead, "retry").skipped == {"its original queue does not exist": 1}
    letters = site.queue("letters", dead_letter_exchange="", dead_letter_routing_key=UNDO_QUEUE, max_length=1)
    for _ in range(2):
        site.publish("letters", b'[["secret",1,1,0]]', **facts)
    assert letters.shown_count() == 1
    await undo(site, operation)
    host = site.broker.hosts["/"]
    assert (bodies(host.queues["shop"]), bodies(host.queues["secret"])) == ([b"a"], [b"secret"])


async def test_policies_are_not_for_it(site: Site) -> None:
    host = site.broker.hosts["/"]
    start(site, filled(site, "a", "b"), "delete")
    host.policies.set("all", ".*", {"max-length": 1, "message-ttl": 1})
    kept_in = host.queues[UNDO_QUEUE]
    site.clock.advance(1000)
    host.tick(site.clock())
    assert kept_in.shown_count() == 2


@pytest.mark.parametrize("kind", ["configure", "write", "read", "browse", "manage"])
async def test_no_permission_opens_it(site: Site, kind: Any) -> None:
    access = Access(site.broker.authenticator, site.broker.catalogue, site.broker.hosts["/"], "guest", owner=object())
    access.require(kind, "amq.other")
    with pytest.raises(AccessRefused, match=f"{kind} access to 'amq.undo' in vhost '/' refused"):
        access.require(kind, UNDO_QUEUE)
