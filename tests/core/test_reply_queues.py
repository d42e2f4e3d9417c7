"""Reply queues: names that cannot be guessed, settings that no operator reaches, no creation by naming them."""

from __future__ import annotations

import pytest

from annulet.core.errors import AccessRefused, NotFound, ResourceLocked
from annulet.core.reply_queues import REPLY_PREFIX, REPLY_QUEUE, TOKEN_BYTES, is_reply_name, new_reply_name
from annulet.core.settings import QueueSettings
from tests.core.helpers import NOW
from tests.core.node_helpers import make_host, send


def reply_queue(host, owner):
    return host.declare_queue(new_reply_name(), now=NOW, auto_delete=True, owner=owner, server_named=True)


def test_names_differ_and_are_as_long_as_their_token():
    names = {new_reply_name() for _ in range(100)}
    assert len(names) == 100
    assert all(is_reply_name(name) and len(name) == len(REPLY_PREFIX) + TOKEN_BYTES * 4 // 3 for name in names)
    assert not is_reply_name(REPLY_QUEUE)


def test_address_settings_and_policies_are_not_for_them():
    host = make_host({"#": {"default-ring-size": 1, "default-max-length": 1}})
    queue = reply_queue(host, "connection")
    assert queue.settings == QueueSettings()
    host.address_settings.set("#", {"default-ring-size": 2})
    assert queue.settings == QueueSettings()
    assert [send(host, queue.name, str(number)) for number in range(3)] == [1, 1, 1]
    assert queue.order.count == 3


def test_only_its_connection_consumes_from_it_and_a_name_alone_makes_none():
    host = make_host({})
    queue = reply_queue(host, "connection")
    assert host.queue_for(queue.name, "connection") is queue
    with pytest.raises(ResourceLocked):
        host.queue_for(queue.name, "another")
    gone = new_reply_name()
    for name in (gone, REPLY_QUEUE):
        with pytest.raises(NotFound, match="waited for answers"):
            host.resolve_node(name, NOW)
        with pytest.raises(AccessRefused):
            host.declare_queue(name, now=NOW)
    assert list(host.queues) == [queue.name]
