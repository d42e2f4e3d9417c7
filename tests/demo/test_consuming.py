from __future__ import annotations

import pika
import pytest

from annulet.demo import consuming, topology
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.reconciliation import accounts_of


def publish(broker: BrokerProcess, carriers: list[str], tail_numbers: list[str]) -> None:
    connection = pika.BlockingConnection(broker.address.parameters())
    channel = connection.channel()
    channel.confirm_delivery()
    for row, (carrier, tail_number) in enumerate(zip(carriers, tail_numbers, strict=True)):
        headers = {"carrier": carrier, topology.TAIL_NUMBER: tail_number, topology.DELAY: 60 + row}
        properties = pika.BasicProperties(message_id=str(row), headers=headers, delivery_mode=2)
        channel.basic_publish(topology.EXCHANGE, "EWR", b"{}", properties)
    connection.close()


def test_consumers_share_the_aircraft_and_acknowledge_everything(
    empty_queues: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "ACKNOWLEDGED_AT_ONCE", 4)
    publish(empty_queues, [topology.LEGS_CARRIER] * 12 + ["UA"], [f"N{row % 3}" for row in range(13)])

    taken = consuming.take_all(empty_queues.address.parameters(), topology.LEGS, topology.LEGS_CONSUMERS)

    assert sorted(leg.row for leg in taken) == list(range(12))
    assert len({leg.consumer for leg in taken}) == 3
    for number in range(3):
        legs = [leg for leg in taken if leg.tail_number == f"N{number}"]
        assert [leg.row for leg in legs] == list(range(number, 12, 3))
        assert len({leg.consumer for leg in legs}) == 1
    account = accounts_of(empty_queues.get_json)[topology.LEGS]
    assert (account.added, account.acknowledged, account.kept, account.in_delivery) == (12, 12, 0, 0)


def test_an_empty_queue_is_done_at_once(empty_queues: BrokerProcess) -> None:
    assert consuming.take_all(empty_queues.address.parameters(), topology.SCHEDULE) == []


def test_what_does_not_come_is_told(empty_queues: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "SILENCE_SECONDS", 0.0)
    publish(empty_queues, [topology.LEGS_CARRIER], ["N1"])

    with pytest.raises(consuming.QueueStalledError, match="1 of 1 messages of queue 'legs'"):
        consuming.take_all(empty_queues.address.parameters(), topology.LEGS)  # it waits for three consumers
