"""The parts of the broker that connections of AMQP 1.0 share."""

from __future__ import annotations

from annulet.broker.amqp10.services import Amqp10Services
from annulet.broker.settings.clock import system_clock
from annulet.broker.settings.configuration import BrokerConfiguration


def test_nothing_is_remembered_or_dynamic_at_first_nor_shared_by_two_brokers():
    one, other = (Amqp10Services(BrokerConfiguration(), system_clock) for _ in range(2))
    assert (one.dynamic_nodes, len(one.remembered_outcomes)) == ({}, 0)
    assert one.remembered_outcomes is not other.remembered_outcomes
    assert one.dynamic_nodes is not other.dynamic_nodes
