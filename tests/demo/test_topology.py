from __future__ import annotations

import pika
import pytest

from annulet.demo import topology
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.reconciliation import accounts_of


def test_declaring_twice_changes_nothing(empty_queues: BrokerProcess) -> None:
    topology.declare(empty_queues.address)

    assert list(accounts_of(empty_queues.get_json)) == [item.name for item in topology.declarations()]


@pytest.mark.parametrize("origin", topology.ORIGINS)
def test_a_departure_reaches_its_own_board_and_the_queues_for_all(empty_queues: BrokerProcess, origin: str) -> None:
    connection = pika.BlockingConnection(empty_queues.address.parameters())
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish(topology.EXCHANGE, origin, b"{}", mandatory=True)
    connection.close()

    added = {name: account.added for name, account in accounts_of(empty_queues.get_json).items() if account.added}

    assert added == {topology.board(origin): 1, "aircraft": 1, "archive": 1, "statistics": 1}
