"""The services of the broker for connections: every declared call is implemented, and nothing is shared by two."""

from __future__ import annotations

import inspect

import pytest

from annulet.broker.broker import Broker
from annulet.broker.connections.services import SERVER_CAPABILITIES, BrokerServices
from annulet.broker.settings.clock import system_clock
from annulet.broker.settings.configuration import BrokerConfiguration

OWN = {"__init__", "accepted"}
"""Calls that the services answer themselves; the test kit puts another answer before ``accepted``."""


def test_a_broker_implements_every_declared_call():
    calls = [name for name, value in vars(BrokerServices).items() if inspect.isfunction(value) and name not in OWN]
    assert {"flush_later", "accepts_durable", "look_drained"} <= set(calls)
    assert [name for name in calls if getattr(Broker, name) is getattr(BrokerServices, name)] == []


@pytest.mark.parametrize("call", ["look_drained"])
def test_the_services_alone_do_nothing(call):
    with pytest.raises(NotImplementedError):
        getattr(BrokerServices(BrokerConfiguration(), system_clock), call)()


def test_each_broker_has_its_own_capabilities_and_connections():
    one, other = (BrokerServices(BrokerConfiguration(), system_clock) for _ in range(2))
    one.server_properties["capabilities"]["extra"] = True
    assert other.server_properties["capabilities"] == SERVER_CAPABILITIES
    assert one.connections is not other.connections
    assert one.consumer_timeouts is not other.consumer_timeouts
