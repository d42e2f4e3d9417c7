from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from annulet import testing
from annulet.broker.settings.configuration import BrokerConfiguration, Endpoint, StartError, load
from annulet.broker.settings.static_definitions import StaticDefinitions
from annulet.core.routing.exchanges.address import Address

TEXT = """
[[address_settings]]
match = "orders.#"
max-delivery-attempts = 3
dead-letter-address = "DLA"

[[policies]]
name = "short"
pattern = "^short"
definition = { max-length = 2 }

[[exchanges]]
name = "shop"
type = "topic"

[[exchanges]]
name = "copies"
type = "fanout"

[[addresses]]
name = "DLA"

[[addresses]]
name = "jobs"
routing_types = ["anycast"]

[[queues]]
name = "orders.new"
arguments = { ring-size = 100, x-priorities = 5 }
bindings = [{ exchange = "shop", routing_key = "order.*" }]

[[queues]]
name = "short.lived"
durable = false
bindings = [{ exchange = "jobs", arguments = { x-routing-type = "anycast" } }]

[[queues]]
name = "orders.new"
virtual_host = "tests"

[[bindings]]
source = "shop"
destination = "copies"
destination_type = "exchange"
routing_key = "#"

[[bindings]]
source = "copies"
destination = "orders.new"

[[diverts]]
name = "audit"
address = "jobs"
forwarding_addresses = ["DLA"]
filter = "amount > 10"
"""


def definitions(folder: Path, text: str = TEXT) -> StaticDefinitions:
    file = folder / "annulet.toml"
    file.write_text(text)
    return load(file).definitions


async def state(folder: Path, given: StaticDefinitions) -> dict[str, Any]:
    async with testing.broker(http=False, data_dir=folder / "data", definitions=given) as running:
        host = running.broker.hosts["/"]
        queue = host.queues["orders.new"]
        address = host.exchanges["jobs"]
        assert isinstance(address, Address)
        return {
            "ring": (queue.settings.ring_size, queue.settings.priorities, queue.durable, queue.queue_id > 0),
            "setting": (queue.settings.max_delivery_attempts, queue.origins["max_delivery_attempts"]),
            "policy": host.queues["short.lived"].settings.max_length,
            "routing": (address.routing_types, [found.name for found in address.queues()]),
            "reached": sorted(found.name for found in host.route("shop", "order.1").queues),
            "bindings": [binding.source.name for binding in host.bindings_of_queue(queue)],
            "diverts": [divert.name for divert in host.diverts],
            "other host": list(running.broker.hosts["tests"].queues),
            "catalogue": sorted(record.name for record in running.broker.catalogue.queues("/")),
        }


async def test_everything_of_the_file_is_there_and_again_after_a_restart(tmp_path: Path) -> None:
    given = definitions(tmp_path)
    first = await state(tmp_path, given)
    assert first == {
        "ring": (100, 5, True, True),
        "setting": (3, "address setting 'orders.#'"),
        "policy": 2,
        "routing": (("anycast",), ["short.lived"]),
        "reached": ["orders.new"],
        "bindings": ["shop", "copies"],
        "diverts": ["audit"],
        "other host": ["orders.new"],
        "catalogue": ["orders.new"],
    }
    again = await state(tmp_path, given)
    assert again | {"bindings": sorted(again["bindings"])} == first | {"bindings": sorted(first["bindings"])}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (TEXT.replace("ring-size = 100", "ring-size = 50"), "[[queues]] 'orders.new': inequivalent arg 'x-ring-size'"),
        (TEXT.replace('type = "topic"', 'type = "direct"'), "[[exchanges]] 'shop': inequivalent arg 'type'"),
        (TEXT.replace('routing_types = ["anycast"]', 'routing_types = ["multicast"]'), "[[addresses]] 'jobs': "),
        (TEXT.replace('exchange = "shop"', 'exchange = "shops"'), "[[queues]] 'orders.new': no exchange 'shops'"),
        (TEXT.replace('destination = "orders.new"', 'destination = "old"'), "[[bindings]] 'old': no queue 'old'"),
    ],
)
async def test_a_conflict_with_what_is_there_names_file_table_and_object(
    tmp_path: Path, second: str, words: str
) -> None:
    await state(tmp_path, definitions(tmp_path))
    changed = definitions(tmp_path, second)
    with pytest.raises(StartError) as caught:
        await state(tmp_path, changed)
    assert str(caught.value).startswith(f"{changed.source}: {words}"), caught.value


async def test_an_address_without_routing_types_takes_its_setting_and_later_what_it_is(tmp_path: Path) -> None:
    text = '[[addresses]]\nname = "work"\n[[address_settings]]\nmatch = "work"\ndefault-address-routing-type = "{}"'
    for routing_type in ("anycast", "multicast"):
        given = definitions(tmp_path, text.format(routing_type))
        async with testing.broker(http=False, data_dir=tmp_path / "data", definitions=given) as running:
            assert running.broker.hosts["/"].nodes.address_for("work").routing_types == ("anycast",)


async def test_what_the_file_declares_is_never_taken_away_for_lack_of_use(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(
        '[[queues]]\nname = "kept"\n[[addresses]]\nname = "news"\n'
        '[[address_settings]]\nmatch = "#"\nauto-delete-created-queues = true\n'
        "auto-delete-queues-skip-usage-check = true\nauto-delete-addresses-skip-usage-check = true\n"
    )
    first = True
    for _ in range(2):
        definitions = load(file).definitions if not first else StaticDefinitions()
        async with testing.broker(http=False, data_dir=tmp_path / "data", definitions=definitions) as running:
            host = running.broker.hosts["/"]
            now = running.broker.clock()
            if first:  # somebody named them before the file did
                host.nodes.resolve_node("kept", now)
                host.nodes.resolve_node("topic://news", now)
            else:
                host.declare_queue("unused", now=now)
                host.tick(now + 1)
                assert (set(host.queues), set(host.addresses)) == ({"kept"}, {"news"})
        first = False


def test_a_configuration_without_a_file_defines_nothing() -> None:
    configuration = BrokerConfiguration(amqp=Endpoint("127.0.0.1", 0))
    assert configuration.definitions.virtual_hosts() == []


PAGE = Path(__file__).resolve().parents[3] / "docs" / "operation.md"


async def test_the_example_of_the_documentation_starts(tmp_path: Path) -> None:
    page = PAGE.read_text()
    found = re.search(r"<!-- test: definitions -->\s*```toml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    async with testing.broker(http=False, definitions=definitions(tmp_path, found[1])) as running:
        host = running.broker.hosts["/"]
        assert [queue.name for queue in host.route("DLA", "").queues] == ["dead"]
        assert host.queues["orders.new"].settings.ring_size == 1000
