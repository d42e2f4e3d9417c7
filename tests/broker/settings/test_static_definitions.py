from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from annulet.broker.settings.configuration import ConfigurationError, load
from annulet.broker.settings.static_definitions import PolicyDefinition, QueueDefinition, StaticDefinitions, place

LONG = "ä" * 128
"""A name of 256 bytes."""


def refusal(folder: Path, text: str) -> str:
    file = folder / "annulet.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(file)
    return str(caught.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[queues]]\nname = ""', "[[queues]] '': 'name' is empty; give one"),
        ('[[queues]]\nname = "q"\narguments = { ring-size = 0 }', "[[queues]] 'q': argument 'ring-size' must be"),
        ('[[queues]]\nname = "q"\narguments = { sort-key = "a", priorities = 3 }', "[[queues]] 'q': "),
        ('[[queues]]\nname = "q"\narguments = { expires = 2020-01-01 }', "argument 'expires' cannot be a date or time"),
        ('[[exchanges]]\nname = "e"\ntype = "direkt"', "[[exchanges]] 'e': unknown type 'direkt'; known are address,"),
        (
            '[[addresses]]\nname = "a"\nrouting_types = ["unicast"]',
            "'x-routing-types' must be one of",
        ),
        ('[[diverts]]\nname = "d"\naddress = "a"\nforwarding_addresses = []', "[[diverts]] 'd': "),
        (
            '[[diverts]]\nname = "d"\naddress = "a"\nforwarding_addresses = ["b"]\nfilter = "x ="',
            "[[diverts]] 'd': filter of divert 'd' is no selector",
        ),
        ('[[policies]]\nname = "p"\npattern = "("\ndefinition = {}', "[[policies]] 'p': policy 'p': 'pattern'"),
        ('[[policies]]\nname = "p"\npattern = "x"\ndefinition = { max-lenth = 1 }', "did you mean"),
        ("[[address_settings]]\nmax-size-bytes = 1", "'match' must be a pattern such as 'orders.#', not None"),
        ('[[address_settings]]\nmatch = "a"\nmax-size-byts = 1', "[[address_settings]] 'a': unknown address setting"),
        ('[[address_settings]]\nmatch = "a#"', "[[address_settings]] 'a#': address pattern"),
        ('[[address_settings]]\nmatch = "a"\nvirtual_host = 1', "'virtual_host' must be a name, not 1"),
        (
            '[[bindings]]\nsource = "e"\ndestination = "q"\ndestination_type = "topic"',
            "bindings[0].destination_type: invalid enum value 'topic'; known here: exchange, queue",
        ),
        (f'[[queues]]\nname = "{LONG}"', "'name' has 256 bytes, a name has at most 255"),
        (f'[[addresses]]\nname = "{LONG}"', "'name' has 256 bytes"),
        (f'[[exchanges]]\nname = "{LONG}"\ntype = "direct"', "'name' has 256 bytes"),
        (
            f'[[diverts]]\nname = "d"\naddress = "a"\nforwarding_addresses = ["b", "{LONG}"]',
            "[[diverts]] 'd': 'forwarding_addresses' has 256 bytes",
        ),
        (
            '[[address_settings]]\nmatch = "a"\n[[address_settings]]\nmatch = "a"\nmax-size-bytes = 1',
            "[[address_settings]] 'a': is there twice in virtual host '/'; make one of both",
        ),
        (
            2 * '[[policies]]\nname = "p"\npattern = "a"\ndefinition = {}\n',
            "[[policies]] 'p': is there twice in virtual host '/'",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_the_start_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    found = refusal(tmp_path, text)
    assert words in found


def test_two_virtual_hosts_may_have_the_same_names() -> None:
    hosts = ("/", "sales")
    StaticDefinitions(
        policies=[PolicyDefinition("p", ".*", {"ring-size": 1}, virtual_host=host) for host in hosts],
        address_settings=[{"match": "#", "virtual_host": host} for host in hosts],
    ).check()


def test_virtual_hosts_are_those_that_any_table_names() -> None:
    definitions = StaticDefinitions(
        queues=[QueueDefinition("q"), QueueDefinition("q", virtual_host="sales")],
        address_settings=[{"match": "#", "virtual_host": "tests"}],
    )
    assert definitions.virtual_hosts() == ["/", "sales", "tests"]


def test_address_settings_are_those_of_their_virtual_host() -> None:
    text = '[[s]]\nmatch = "a.#"\nmax-size-messages = 5\n[[s]]\nmatch = "b"\nvirtual_host = "x"\nexpiry-address = "e"'
    definitions = StaticDefinitions(address_settings=tomllib.loads(text)["s"])
    [(pattern, settings)] = definitions.address_settings_of("/")
    assert (pattern, dict(settings.values)) == ("a.#", {"max_size_messages": 5})
    [(pattern, settings)] = definitions.address_settings_of("x")
    assert (pattern, dict(settings.values)) == ("b", {"expiry_address": "e"})


def test_places_name_table_and_object() -> None:
    assert place("queues", "orders") == "[[queues]] 'orders'"
