"""Reply queues: names that cannot be guessed, settings that no operator reaches, no creation by naming them."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import AccessRefused, NotFound, ResourceLocked
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import (
    REPLY_PREFIX,
    REPLY_QUEUE,
    TOKEN_BYTES,
    is_reply_name,
    new_reply_name,
    public_name,
)
from annulet.core.base.settings import QueueSettings
from tests.core.helpers import NOW
from tests.core.node_helpers import make_host, send


def reply_queue(host, owner):
    return host.declare_queue(new_reply_name(), now=NOW, auto_delete=True, owner=owner, server_named=True)


def test_names_differ_and_are_as_long_as_their_token():
    names = {new_reply_name() for _ in range(100)}
    assert len(names) == 100
    assert all(is_reply_name(name) and len(name) == len(REPLY_PREFIX) + TOKEN_BYTES * 4 // 3 for name in names)
    assert not is_reply_name(REPLY_QUEUE)
    assert {public_name(name) for name in names} == {REPLY_QUEUE}
    assert public_name("orders") == "orders"


def test_address_settings_and_policies_are_not_for_them():
    host = make_host({"#": {"default-ring-size": 1, "default-max-length": 1}})
    queue = reply_queue(host, "connection")
    assert queue.settings == QueueSettings()
    host.address_settings.set("#", {"default-ring-size": 2})
    assert queue.settings == QueueSettings()
    assert [send(host, queue.name, str(number)) for number in range(3)] == [1, 1, 1]
    assert queue.order.count == 3


def test_limits_of_addresses_are_not_for_them():
    host = make_host({"#": {"max-size-messages": 1, "address-full-policy": "FAIL"}})
    queue = reply_queue(host, "connection")
    assert [send(host, queue.name, str(number)) for number in range(3)] == [1, 1, 1]
    assert not host.accounts.by_address


def test_they_are_counted_and_not_listed():
    host = make_host({})
    plain = host.declare_queue("orders", now=NOW)
    queues = [reply_queue(host, "connection") for _ in range(2)]
    assert host.listed_queues() == [plain]
    assert host.reply_queues == 2
    host.delete_queue(queues[0], NOW)
    host.delete_queue(plain, NOW)
    assert host.listed_queues() == []
    assert host.reply_queues == 1


def test_their_losses_do_not_name_them():
    host = make_host({})
    queue = reply_queue(host, "connection")
    send(host, queue.name, "0")
    host.delete_queue(queue, NOW)
    assert [(record.queue, record.reason) for record in host.ledger.query()] == [(REPLY_QUEUE, RemovalReason.DELETED)]


def test_only_its_connection_consumes_from_it_and_a_name_alone_makes_none():
    host = make_host({})
    queue = reply_queue(host, "connection")
    assert host.queue_for(queue.name, "connection") is queue
    with pytest.raises(ResourceLocked):
        host.queue_for(queue.name, "another")
    gone = new_reply_name()
    for name in (gone, REPLY_QUEUE):
        with pytest.raises(NotFound, match="waited for answers"):
            host.nodes.resolve_node(name, NOW)
        with pytest.raises(AccessRefused):
            host.declare_queue(name, now=NOW)
    assert list(host.queues) == [queue.name]
