from __future__ import annotations

import socket

import pytest

from annulet.broker.settings.configuration import StartError
from annulet.testing.session import BrokerSession


def test_brokers_follow_each_other_behind_one_port() -> None:
    session = BrokerSession()
    first = session.start()
    url = first.amqp_url
    first.stop()
    second = session.start(heartbeat=7)
    assert second.amqp_url == url
    assert second.configuration.heartbeat == 7
    second.stop()
    session.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


def test_a_port_in_use_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(StartError, match="leave port out"):
        BrokerSession(other.getsockname()[1])
