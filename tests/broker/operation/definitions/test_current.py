from __future__ import annotations

import json

from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.operation.definitions.current import export
from annulet.testing import broker

DOCUMENT = {
    "queues": [
        {"name": "plain", "arguments": {"x-max-length": 5}},
        {"name": "ring", "arguments": {"x-ring-size": 5}},
        {"name": "lossy", "arguments": {"x-max-length": 5, "x-overflow": "ring"}},
    ],
    "exchanges": [{"name": "a", "type": "address"}, {"name": "e", "type": "topic"}],
    "policies": [
        {"name": "limits", "pattern": "x", "definition": {"max-length": 5}},
        {"name": "rings", "pattern": "x", "definition": {"ring-size": 5}},
    ],
    "bindings": [
        {"source": "e", "destination": name, "destination_type": "queue", "routing_key": "k", "arguments": {}}
        for name in ("plain", "ring")
    ],
    "diverts": [{"name": "copy", "address": "plain", "forwarding_addresses": ["e"]}],
    "parameters": [{"component": "vhost-limits", "name": "limits", "value": {"max-queues": 10, "max-connections": 5}}],
}


async def test_rabbitmqs_format_leaves_out_what_it_cannot_say_and_names_it() -> None:
    async with broker(http=False) as running:
        reading = await read_document(json.dumps(DOCUMENT).encode())
        await running.broker.definition_imports.apply(reading, None)
        document = await export(running.broker, running.broker.hosts.values(), own=False)
        assert [each["name"] for each in document["queues"]] == ["plain"]
        assert [each["name"] for each in document["exchanges"]] == ["e"]
        assert [each["name"] for each in document["policies"]] == ["limits"]
        assert [each["destination"] for each in document["bindings"]] == ["plain"]
        assert (document["users"], document["permissions"]) == ([], [])
        assert {each["name"] for each in document["left_out"]} == {
            "guest", "ring", "lossy", "a", "rings", "e -> ring, key 'k'", "copy",
        }  # fmt: skip
        assert all(each["reason"] for each in document["left_out"])
        assert document["parameters"][0]["value"] == {"max-queues": 10, "max-connections": 5}
        assert not {"address_settings", "diverts"} & document.keys()


async def test_a_document_of_one_virtual_host_names_it_nowhere() -> None:
    async with broker(http=False) as running:
        await running.broker.definition_imports.apply(await read_document(json.dumps(DOCUMENT).encode()), None)
        document = await export(running.broker, [running.broker.hosts["/"]], own=True, host="/")
        assert not {"users", "vhosts", "permissions", "global_parameters"} & document.keys()
        assert "vhost" not in json.dumps({name: items for name, items in document.items() if name != "parameters"})
        reading = await read_document(json.dumps(document).encode(), "/")
        assert not reading.not_taken
        await running.broker.definition_imports.apply(reading, None)
