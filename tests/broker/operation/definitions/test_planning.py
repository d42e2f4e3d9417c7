from __future__ import annotations

import json

from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.operation.definitions.planning import make_plan
from annulet.testing import broker


async def test_a_plan_shows_changes_in_order_and_no_hashes() -> None:
    async with broker(http=False) as running:
        document = {
            "bindings": [{"source": "e", "destination": "q", "destination_type": "queue", "routing_key": ""}],
            "queues": [{"name": "q"}],
            "exchanges": [{"name": "e", "type": "fanout"}],
            "policies": [{"name": "p", "pattern": "x", "definition": {"max-length": 1}}],
            "users": [
                {
                    "name": "guest",
                    "password_hash": "FRK5hvoc/2FfYfzbL81hxIMojAZIds0o3Cv5lNhjhet9JsNs",
                    "tags": ["administrator"],
                }
            ],
            "vhosts": [{"name": "/", "description": "described"}],
        }
        first = (await make_plan(running.broker, await read_document(json.dumps(document).encode()))).described()
        assert [(step["action"], step["kind"]) for step in first["steps"]] == [
            ("change", "virtual host"),
            ("change", "user"),
            ("create", "policy"),
            ("create", "exchange"),
            ("create", "queue"),
            ("create", "binding"),
        ]
        assert first["steps"][1]["changes"] == {"password_hash": ["…", "…"]}
        assert not running.broker.hosts["/"].queues
        await running.broker.definition_imports.apply(await read_document(json.dumps(document).encode()), None)
        document["policies"][0]["priority"] = 5
        second = (await make_plan(running.broker, await read_document(json.dumps(document).encode()))).described()
        assert [step["changes"] for step in second["steps"]] == [{"priority": [0, 5]}]
