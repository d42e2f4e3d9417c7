from __future__ import annotations

import socket

from annulet.admin.rabbitmq.framework.naming import exchange_types, node_name, queue_type


def test_names() -> None:
    assert node_name() == f"annulet@{socket.gethostname()}"
    assert {"direct", "fanout", "topic", "headers"} <= {each["name"] for each in exchange_types()}
    assert queue_type({}) == queue_type({"x-queue-type": 5}) == "classic"
    assert queue_type({"x-queue-type": "quorum"}) == "quorum"
