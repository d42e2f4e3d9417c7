"""Virtual hosts that come and go while the broker runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import pytest

import annulet.testing
from annulet.broker.broker import Broker
from annulet.broker.operation.virtual_hosts import DESCRIPTION_CHARACTERS_MAX
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.store.database.definitions import PermissionRecord
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.conftest import until
from tests.broker.operation.test_revocation import reason_of

ALL = PermissionDeclaration(".*", ".*", ".*")


def permit(broker: Broker, host: str) -> None:
    broker.access_directory.set_permission(PermissionRecord("guest", host, ".*", ".*", ".*"))


def fill(broker: Broker, host: str, queues: int, messages: int = 3) -> list[Queue]:
    """Declare durable queues with persistent messages."""
    there, now = broker.hosts[host], broker.clock()
    made = []
    for number in range(queues):
        queue_id = broker.catalogue.add_queue(host, f"q{number}", False, {})
        made.append(there.declare_queue(f"q{number}", now=now, durable=True, queue_id=queue_id))
        for _ in range(messages):
            message = Message(b"", b"body", Origin("", f"q{number}", "guest", VIEW), durable=True, accepted_at=now)
            there.publisher.publish(message, there.route("", f"q{number}"), now)
    return made


async def test_one_is_made_described_and_there_after_a_restart(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        hosts = running.broker.virtual_hosts
        assert hosts.put("shop", "of the shop", ("a", "b"))
        assert not hosts.put("shop", "still", ("a",))
        permit(running.broker, "shop")
        async with await aio_pika.connect(f"{running.amqp_url}/shop"):
            pass
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        record = running.broker.virtual_hosts.record("shop")
        assert (record.description, record.tags) == ("still", ("a",))
        assert "shop" in running.broker.hosts


async def test_a_deleted_one_is_gone_with_all_in_it_and_nothing_else(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False, ledger_queue=True, event_queues=("#",)) as running:
        broker = running.broker
        broker.virtual_hosts.put("shop")
        permit(broker, "shop")
        broker.access_directory.set_limit("vhost", "shop", "max-queues", 100)
        fill(broker, "shop", 5)
        fill(broker, "/", 2)
        broker.hosts["shop"].nodes.declare_address("news")
        client, stays = await aio_pika.connect(f"{running.amqp_url}/shop"), await aio_pika.connect(running.amqp_url)
        counts: list[int] = []
        closed = asyncio.create_task(reason_of(client))
        await asyncio.sleep(0)
        await broker.virtual_hosts.delete("shop", counts.append)
        assert counts[0] >= 15
        assert "access to vhost 'shop' was withdrawn" in await closed
        assert not stays.is_closed
        await stays.close()
        assert "shop" not in broker.hosts
        with pytest.raises(NotFound, match="no virtual host 'shop'"):
            broker.virtual_hosts.record("shop")
        assert broker.access_directory.limits("vhost") == {}
        assert broker.virtual_hosts.put("shop"), "the name is free again"
        assert all(queue.name.startswith("amq.") for queue in broker.hosts["shop"].listed_queues())
        assert not broker.authenticator.may_enter("guest", "shop")
        await broker.virtual_hosts.delete("shop")
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        assert "shop" not in running.broker.hosts
        queues = running.broker.hosts["/"].queues
        assert [queues[f"q{number}"].order.count for number in range(2)] == [3, 3]
        assert running.broker.orphans == {}, "its messages are no messages of missing queues"


async def test_no_client_enters_one_that_is_being_deleted(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        broker = running.broker
        broker.virtual_hosts.put("shop")
        permit(broker, "shop")
        work = broker.virtual_hosts.delete("shop")
        assert not broker.authenticator.may_enter("guest", "shop")
        with pytest.raises(PreconditionFailed, match="'shop' is being deleted; wait until it is gone"):
            broker.virtual_hosts.put("shop")
        with pytest.raises(NotFound):
            broker.virtual_hosts.delete("shop")
        await work


async def test_queues_are_deleted_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.broker.operation.virtual_hosts.TURN_SECONDS", 0.0)
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        broker = running.broker
        broker.virtual_hosts.put("shop")
        host = broker.hosts["shop"]
        fill(broker, "shop", 20)
        work = broker.virtual_hosts.delete("shop")
        most = 0
        while not work.done():
            before = len(host.queues)
            await asyncio.sleep(0)
            most = max(most, before - len(host.queues))
        assert most == 1


async def test_a_deletion_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        broker = running.broker
        broker.virtual_hosts.put("shop")
        fill(broker, "shop", 5)
        broker.access_directory.host_goes("shop")  # and the process dies here
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        await until(lambda: "shop" not in running.broker.hosts, 10)
        assert running.broker.catalogue.virtual_hosts() == ["/"]


async def test_a_deletion_that_a_stop_interrupts_goes_on(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        running.broker.virtual_hosts.put("shop")
        fill(running.broker, "shop", 50)
        running.broker.virtual_hosts.delete("shop")
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as running:
        await until(lambda: "shop" not in running.broker.hosts, 10)


async def test_what_stays() -> None:
    users = {"boss": UserDeclaration(HASHER.hash("x"), ("administrator",), {"shop": ALL})}
    async with annulet.testing.broker(http=False, users=users) as running:
        hosts = running.broker.virtual_hosts
        with pytest.raises(PreconditionFailed, match="the default virtual host '/' stays"):
            hosts.delete("/")
        with pytest.raises(PreconditionFailed, match="has permissions of user 'boss' in virtual host 'shop'"):
            hosts.delete("shop")
        with pytest.raises(NotFound, match="no virtual host 'none'"):
            hosts.delete("none")


@pytest.mark.parametrize("name", ["", "a\nb", "a" * 256])
async def test_wrong_names_are_refused(name: str) -> None:
    async with annulet.testing.broker(http=False) as running:
        with pytest.raises(InvalidArgument):
            running.broker.virtual_hosts.put(name)
        with pytest.raises(InvalidArgument, match="1001 characters, 1000 are allowed"):
            running.broker.virtual_hosts.put("shop", "x" * (DESCRIPTION_CHARACTERS_MAX + 1))
        assert set(running.broker.hosts) == {"/"}
