from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.operation.definitions.items import BINDING, EXCHANGE, QUEUE, USER, USER_LIMIT
from annulet.broker.operation.definitions.reading import Reading
from annulet.core.base.errors import InvalidArgument

RABBITMQ = Path(__file__).with_name("rabbitmq_3_10.json")


async def test_an_export_of_rabbitmq_is_read_and_what_is_missing_here_is_named() -> None:
    reading = await read_document(RABBITMQ.read_bytes())
    assert {(each.kind, each.host, each.name) for each in reading.not_taken} == {
        ("topic_permissions", "shop", "app"),
        ("parameters", "shop", "operator_policy/ttl"),
        ("global_parameters", "", "internal_cluster_id"),
        ("policies", "shop", "alternate"),
        ("queues", "shop", "log"),
    }
    assert all(each.reason for each in reading.not_taken)
    names = {
        kind: {item.name for item in reading.items.values() if item.kind == kind} for kind in (QUEUE, EXCHANGE, USER)
    }
    assert names == {
        QUEUE: {"app.orders", "app.payments", "lost", "temporary"},
        EXCHANGE: {"events", "lost", "matching"},
        USER: {"guest", "reader", "app"},
    }
    assert reading.hosts == {"/", "shop"}


def read(section: str, value: object, host: str = "") -> Reading:
    reading = Reading(host)
    reading.read(section, value)
    reading.settle()
    return reading


@pytest.mark.parametrize(
    ("section", "value", "reason"),
    [
        ("users", {"name": "u", "password_hash": "x", "hashing_algorithm": "rabbit_password_hashing_md5"}, "md5"),
        ("users", {"name": "u", "password_hash": "x"}, "base64"),
        ("users", {"password_hash": ""}, "'name' is missing"),
        ("users", {"name": "u", "limits": {"max-x": 1}}, "limit 'max-x'"),
        ("users", {"name": "u", "tags": [5]}, "'tags'"),
        ("queues", {"name": "q", "arguments": {"x-max-length": "five"}}, "x-max-length"),
        ("queues", {"name": "q", "durable": "yes"}, "'durable'"),
        ("queues", {"name": "q", "arguments": {"x": {"y": [None]}}}, "null"),
        ("queues", {"name": "q\r\n"}, "q"),
        ("exchanges", {"name": "e", "type": "x-delayed-message"}, "unknown"),
        ("policies", {"name": "p", "pattern": "(", "definition": {"max-length": 1}}, "pattern"),
        ("policies", {"name": "p", "pattern": "x", "definition": {"federation-upstream-set": "all"}}, "federation"),
        ("bindings", {"source": "e", "destination": "q", "destination_type": "x"}, "'destination_type'"),
        ("diverts", {"name": "d", "address": "a", "forwarding_addresses": "b"}, "a list of texts"),
        ("diverts", {"name": "d", "address": "a", "forwarding_addresses": []}, "at least one forwarding address"),
        ("diverts", {"name": "d", "forwarding_addresses": ["b"]}, "'address' is missing"),
        ("diverts", {"name": "d", "address": "a", "forwarding_addresses": ["b"], "filter": "n >"}, "filter"),
        ("diverts", {"name": "d", "address": "a", "forwarding_addresses": ["b"], "fliter": ""}, "mean 'filter'?"),
        ("parameters", {"component": "shovel", "name": "s", "value": {}}, "no component 'shovel'"),
    ],
)
def test_what_cannot_be_taken_is_named_with_the_reason(section: str, value: object, reason: str) -> None:
    reading = read(section, value)
    assert not [item for item in reading.items.values() if item.kind != USER_LIMIT]
    assert [reason in each.reason for each in reading.not_taken] == [True], reading.not_taken


@pytest.mark.parametrize(("section", "value"), [("queue", {}), ("queues", 5), ("queues", [])])
def test_wrong_sections_are_errors(section: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match="queue"):
        read(section, value)


def test_what_needs_something_that_was_not_taken_is_not_taken_either() -> None:
    reading = Reading()
    reading.read("users", {"name": "u", "password_hash": "x"})
    reading.read("permissions", {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""})
    reading.read("queues", {"name": "q", "arguments": {"x-max-length": "five"}})
    reading.read(
        "bindings", {"source": "amq.topic", "destination": "q", "destination_type": "queue", "routing_key": ""}
    )
    reading.read("exchanges", {"name": "e", "type": "nix"})
    reading.read("bindings", {"source": "e", "destination": "other", "destination_type": "queue", "routing_key": ""})
    reading.settle()
    assert reading.items == {}
    assert [each.kind for each in reading.not_taken] == [
        "users",
        "queues",
        "exchanges",
        "permissions",
        "bindings",
        "bindings",
    ]


def test_a_thing_that_is_there_twice_with_different_values_is_named() -> None:
    reading = Reading()
    reading.read("queues", {"name": "q"})
    reading.read("queues", {"name": "q"})
    assert not reading.not_taken
    reading.read("queues", {"name": "q", "durable": False})
    assert "twice" in reading.not_taken[0].reason


def test_old_tags_and_a_document_of_one_virtual_host() -> None:
    reading = read("users", {"name": "u", "tags": "administrator, management"})
    assert reading.items[USER, "", ("u",)].value["tags"] == ["administrator", "management"]
    reading = read("queues", {"name": "q"}, host="shop")
    assert (QUEUE, "shop", ("q",)) in reading.items
    reading = read("bindings", {"source": "", "destination": "q", "destination_type": "queue"})
    assert not [item for item in reading.items.values() if item.kind == BINDING]
