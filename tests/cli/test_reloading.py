"""What a reload changes while clients are connected, and what it leaves as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import msgspec
import pytest
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.operation.operator_settings import describe_pattern
from annulet.broker.settings.configuration import BrokerConfiguration, ConfigurationError
from annulet.broker.settings.limits import Limits
from annulet.broker.settings.static_definitions import (
    AddressDefinition,
    BindingDefinition,
    DivertDefinition,
    ExchangeDefinition,
    PolicyDefinition,
    QueueBinding,
    QueueDefinition,
    StaticDefinitions,
)
from annulet.cli.reloading import LIVE_LIMITS, LIVE_SETTINGS, Reloader, reload
from annulet.cli.service_manager import ServiceManager


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False) as running:
        connection = await aio_pika.connect(running.amqp_url)
        (ours,) = running.broker.connections
        yield running.broker
        assert list(running.broker.connections) == [ours], "a reload drops no connection"
        assert not ours.lost
        await connection.close()


async def reloaded(broker: Broker, **values: Any) -> dict[str, Any]:
    """Reload with changed values; return the lines of the log by part."""
    new = msgspec.structs.replace(broker.configuration, **values)
    with capture_logs() as lines:
        await reload(broker, lambda: new)
    return {line["event"].removeprefix("SIGHUP: "): line for line in lines if line["event"].startswith("SIGHUP")}


async def test_settings_take_effect_or_wait_for_a_restart_by_name(broker: Broker) -> None:
    limits = msgspec.structs.replace(broker.configuration.limits, max_connections=7, login_delay_most=1.0)
    said = await reloaded(
        broker, heartbeat=17, consumer_timeout=123_000, unknown_arguments="refuse", spill_limit_bytes=5, limits=limits
    )
    assert said["settings"]["changed"] == [
        "consumer_timeout",
        "heartbeat",
        "limits.max_connections",
        "unknown_arguments",
    ]
    assert said["settings"]["after_a_restart"] == ["limits.login_delay_most", "spill_limit_bytes"]
    assert broker.configuration.heartbeat == 17
    assert broker.admission.limits.max_connections == broker.configuration.limits.max_connections == 7
    assert broker.configuration.limits.login_delay_most == 4.0
    assert broker.hosts["/"].unknown_arguments == "refuse"
    again = await reloaded(broker)
    assert (again["settings"]["changed"], again["settings"]["after_a_restart"]) == ([], [])


async def test_the_level_of_the_log_is_one_of_them(broker: Broker) -> None:
    said = await reloaded(broker, log_level="warning")
    assert said["settings"]["changed"] == ["log_level"]
    assert broker.log_levels.current == "warning"
    broker.log_levels.stop()


def test_live_settings_are_settings() -> None:
    assert set(BrokerConfiguration.__struct_fields__) > LIVE_SETTINGS
    assert set(Limits.__struct_fields__) > LIVE_LIMITS


DEFINITIONS = StaticDefinitions(
    source="annulet.toml",
    exchanges=[ExchangeDefinition("shop", "topic")],
    addresses=[AddressDefinition("DLA", routing_types=["multicast"])],
    queues=[
        QueueDefinition("orders", arguments={"ring-size": 5}, bindings=[QueueBinding("shop", "order.*")]),
        QueueDefinition("dead", bindings=[QueueBinding("DLA")]),
    ],
    bindings=[BindingDefinition("shop", "orders", routing_key="reorder")],
    diverts=[DivertDefinition("large", "orders", ["DLA"], filter="amount > 5")],
    policies=[PolicyDefinition("short", "^t", {"message-ttl": 60_000})],
    address_settings=[{"match": "orders.#", "max-delivery-attempts": 5}],
)


async def test_definitions_of_the_file_are_made_changed_and_taken_back(broker: Broker) -> None:
    host = broker.hosts["/"]
    said = await reloaded(broker, definitions=DEFINITIONS)
    assert (said["definitions"]["made"], said["definitions"]["removed"]) == (9, 0)
    assert host.queues["orders"].settings.ring_size == 5
    assert host.lifetime_of(host.queues["orders"]).configured
    keys = {binding.routing_key for binding in host.bindings_of_queue(host.queues["orders"])}
    assert keys == {"order.*", "reorder"}
    assert describe_pattern(host, "orders.#") == {"max-delivery-attempts": 5}
    assert [policy.name for policy in host.policies.all()] == ["short"]
    assert len(host.diverts) == 1
    assert broker.catalogue.operator_settings("policy", "/") == {}, "the file's own are not written down"
    said = await reloaded(broker, definitions=DEFINITIONS)
    assert said["definitions"]["made"] == 0
    less = StaticDefinitions(source="annulet.toml", queues=DEFINITIONS.queues[1:], addresses=DEFINITIONS.addresses)
    said = await reloaded(broker, definitions=less)
    assert (said["definitions"]["made"], said["definitions"]["removed"]) == (0, 3)
    assert "orders" in host.queues, "what may have messages stays until it is deleted"
    assert host.policies.all() == []
    assert len(host.diverts) == 0
    assert describe_pattern(host, "orders.#") is None


async def test_a_conflict_leaves_all_definitions_as_they_were(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.declare_queue("dead", durable=True, auto_delete=False, owner=None, arguments={"x-ring-size": 9}, now=1)
    said = await reloaded(broker, definitions=DEFINITIONS, heartbeat=19)
    line = said["definitions stay as they were"]
    assert line["log_level"] == "error"
    assert "'dead'" in line["error"]
    assert line["file"] == "annulet.toml"
    assert set(host.queues) == {"dead"}
    assert "shop" not in host.exchanges
    assert broker.configuration.definitions == StaticDefinitions()
    assert broker.configuration.heartbeat == 19, "the other parts are reloaded"


async def test_a_file_with_an_error_leaves_everything_and_is_one_error(broker: Broker) -> None:
    before = broker.configuration

    def read() -> BrokerConfiguration:
        raise ConfigurationError("annulet.toml: 'heartbeat' is 'x'; give seconds")

    with capture_logs() as lines:
        await reload(broker, read)
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["event"] == "SIGHUP: the file has an error, everything stays as it was"
    assert "'heartbeat'" in line["error"]
    assert broker.configuration is before


async def test_requests_during_a_reload_are_one_more_reload(broker: Broker) -> None:
    configuration = broker.configuration
    finished = asyncio.Event()
    read: list[int] = []

    def count() -> BrokerConfiguration:
        read.append(1)
        if len(read) == 1:
            for _ in range(3):
                reloader.request()
        else:
            broker.loop.call_soon(finished.set)
        return configuration

    reloader = Reloader(broker, count, ServiceManager({}))
    reloader.request()
    await asyncio.wait_for(finished.wait(), 30)
    assert len(read) == 2
