from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.broker.operation.definitions.applying import Effects, read_document
from annulet.broker.operation.definitions.current import export
from annulet.broker.operation.definitions.items import POLICY, QUEUE, QUEUE_SETTINGS, Item
from annulet.broker.operation.definitions.planning import Plan, Step, make_plan
from annulet.broker.operation.publishing import publish
from annulet.broker.security.authentication import User
from annulet.core.base.errors import AccessRefused, InvalidArgument, PreconditionFailed
from annulet.core.routing.diverts import Divert
from annulet.store.files.errors import CatalogueError
from annulet.testing import broker
from tests.broker.operation.test_publishing import access, submission

RABBITMQ = Path(__file__).with_name("rabbitmq_3_10.json")


async def apply(running: Broker, document: Any, **options: bool) -> Plan:
    octets = document if isinstance(document, bytes) else json.dumps(document).encode()
    return await running.definition_imports.apply(await read_document(octets), None, **options)


async def own(running: Broker) -> dict[str, Any]:
    return await export(running, running.hosts.values(), own=True)


def by_name(document: dict[str, Any], section: str) -> dict[str, Any]:
    return {item["name"]: item for item in document[section]}


async def test_an_export_of_rabbitmq_is_applied_once_and_survives(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        plan = await apply(running.broker, RABBITMQ.read_bytes())
        assert len(plan.steps) > 20
        again = await apply(running.broker, RABBITMQ.read_bytes())
        assert (again.steps, again.conflicts) == ([], [])
        document = await own(running.broker)
    async with broker(data_dir=tmp_path, http=False) as running:
        queue = running.broker.hosts["shop"].queues["app.orders"]
        assert (queue.settings.max_length, queue.settings.dead_letter_exchange) == (1000, "lost")
        assert running.broker.hosts["shop"].queues["app.payments"].settings.max_delivery_attempts == 4
        assert running.broker.access_directory.permission("app", "shop").configure == "^app[.].*"
        assert running.broker.access_directory.limits("user") == {"app": {"max-channels": 20}}
        restarted = await own(running.broker)
        assert {item["name"] for item in document["queues"]} - {item["name"] for item in restarted["queues"]} == {
            "temporary"
        }


async def test_our_own_export_makes_an_empty_broker_the_same(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path / "a", http=False) as running:
        await apply(running.broker, RABBITMQ.read_bytes())
        shop = running.broker.hosts["shop"]
        running.broker.operator_settings.change_queue(shop, shop.queues["lost"], {"max-length": 5}, 0)
        running.broker.operator_settings.set_address_settings(shop, "app.#", {"max-delivery-attempts": 7})
        document = await own(running.broker)
    async with broker(data_dir=tmp_path / "b", http=False) as running:
        plan = await apply(running.broker, document)
        assert (plan.not_taken, plan.conflicts) == ([], [])
        assert await own(running.broker) == document
        assert (
            await make_plan(running.broker, await read_document(json.dumps(document).encode()), prune=True)
        ).steps == []
        assert running.broker.hosts["shop"].queues["lost"].settings.max_length == 5


async def test_diverts_made_at_run_time_are_exported_planned_applied_and_kept(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path / "a", http=False) as running:
        settings = running.broker.operator_settings
        settings.set_divert(running.broker.hosts["/"], Divert("plain", "a", ("b",)))
        big = Divert("big", "orders.#", ("audit", "x::q"), selector="n > 5", exclusive=True, routing_type="pass")
        settings.set_divert(running.broker.hosts["/"], big)
        document = await own(running.broker)
    assert by_name(document, "diverts")["big"] == {
        "name": "big",
        "vhost": "/",
        "address": "orders.#",
        "forwarding_addresses": ["audit", "x::q"],
        "filter": "n > 5",
        "exclusive": True,
        "routing_type": "pass",
    }
    async with broker(data_dir=tmp_path / "b", http=False) as running:
        plan = await apply(running.broker, document)
        assert [(step.action, step.item.name) for step in plan.steps if step.item.kind == "divert"] == [
            ("create", "big"),
            ("create", "plain"),
        ]
        again = await apply(running.broker, document, prune=True)
        assert (again.steps, again.conflicts, again.not_taken) == ([], [], [])
    async with broker(data_dir=tmp_path / "b", http=False) as running:
        assert running.broker.hosts["/"].diverts.by_name["big"].same_as(big)
        short = {"diverts": [{"name": "plain", "address": "a", "forwarding_addresses": ["c"]}]}
        plan = await apply(running.broker, short, prune=True)
        assert [(step.action, step.item.name) for step in plan.steps] == [("change", "plain"), ("delete", "big")]
        assert plan.described()["steps"][0]["changes"] == {"forwarding_addresses": [["b"], ["c"]]}
        assert (await apply(running.broker, short, prune=True)).steps == []


async def test_a_refused_step_after_a_divert_brings_the_former_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        host = running.broker.hosts["/"]
        running.broker.operator_settings.set_divert(host, Divert("d", "a", ("b",)))
        put = running.broker.operator_settings.set_divert

        def refusing(there: Any, divert: Divert) -> bool:
            if divert.name == "z":
                raise CatalogueError("the disk is full")
            return put(there, divert)

        monkeypatch.setattr(running.broker.operator_settings, "set_divert", refusing)
        diverts = [{"name": name, "address": "a", "forwarding_addresses": ["c"]} for name in ("d", "new", "z")]
        with pytest.raises(CatalogueError, match="disk is full"):
            await apply(running.broker, {"diverts": diverts})
        assert {divert.name: divert.forwarding_addresses for divert in host.diverts} == {"d": ("b",)}


async def test_a_refused_step_undoes_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        before = await own(running.broker)
        done: list[str] = []
        do = Effects.do

        def refusing(effects: Effects, step: Step) -> Any:
            if step.item.kind == "binding":
                raise CatalogueError("the disk is full")
            done.append(step.item.kind)
            return do(effects, step)

        monkeypatch.setattr(Effects, "do", refusing)
        with pytest.raises(CatalogueError, match="disk is full"):
            await apply(running.broker, RABBITMQ.read_bytes())
        assert len(done) > 15
        await asyncio.sleep(0.05)  # the virtual host goes in the background
        assert await own(running.broker) == before


async def test_a_changed_queue_is_a_conflict_and_nothing_is_applied() -> None:
    async with broker(http=False) as running:
        await apply(running.broker, {"queues": [{"name": "q", "arguments": {"x-max-length": 5}}]})
        changed = {"queues": [{"name": "a"}, {"name": "q", "arguments": {"x-max-length": 6}}]}
        with pytest.raises(PreconditionFailed, match="queue 'q': it exists with arguments"):
            await apply(running.broker, changed)
        assert list(running.broker.hosts["/"].queues) == ["q"]
        plan = await apply(running.broker, changed, keep=True)
        assert [each.name for each in plan.conflicts] == ["q"]
        assert sorted(running.broker.hosts["/"].queues) == ["a", "q"]
        assert running.broker.hosts["/"].queues["q"].settings.max_length == 5


async def test_a_queue_that_says_the_same_in_other_words_is_the_same() -> None:
    async with broker(http=False) as running:
        await apply(running.broker, {"queues": [{"name": "q", "arguments": {"x-max-length": 5}}]})
        plan = await apply(running.broker, {"queues": [{"name": "q", "arguments": {"max-length": 5}}]})
        assert plan.steps == []


async def test_pruning_says_what_it_destroys_and_leaves_other_hosts_and_users_alone() -> None:
    async with broker(http=False) as running:
        document = {
            "vhosts": [{"name": "other"}],
            "exchanges": [{"name": "e", "type": "fanout"}],
            "queues": [{"name": "kept"}, {"name": "gone"}, {"name": "far", "vhost": "other"}],
            "bindings": [
                {"source": "e", "destination": name, "destination_type": "queue", "routing_key": ""}
                for name in ("kept", "gone")
            ],
            "policies": [{"name": "p", "pattern": "^x", "definition": {"max-length": 1}}],
        }
        await apply(running.broker, document)
        host = running.broker.hosts["/"]
        from annulet.broker.connections.access import Access
        from annulet.broker.operation.publishing import publish
        from tests.broker.operation.test_publishing import submission

        rights = Access(running.broker.authenticator, running.broker.catalogue, host, "guest")
        for _ in range(3):
            await publish(running.broker, rights, submission(key="gone"))
        fewer = {"exchanges": document["exchanges"], "queues": [{"name": "kept"}]}
        plan = await make_plan(running.broker, await read_document(json.dumps(fewer).encode()), prune=True)
        assert [(step.action, step.item.kind, step.item.name, step.destroys) for step in plan.steps] == [
            ("delete", "binding", "e -> kept, key ''", 0),
            ("delete", "policy", "p", 0),
            ("delete", "queue", "gone", 3),
        ]
        assert plan.described()["destroys"] == 3
        await apply(running.broker, fewer, prune=True)
        assert list(host.queues) == ["kept"]
        assert list(running.broker.hosts["other"].queues) == ["far"]
        assert [user.name for user in running.broker.access_directory.users()] == ["guest"]


async def test_what_needs_what_is_nowhere_is_a_conflict() -> None:
    async with broker(http=False) as running:
        wrong = {
            "queues": [{"name": "q", "vhost": "nix"}],
            "permissions": [{"user": "nix", "vhost": "/", "configure": "", "write": "", "read": ""}],
            "bindings": [{"source": "nix", "destination": "q", "destination_type": "queue", "routing_key": ""}],
        }
        plan = await make_plan(running.broker, await read_document(json.dumps(wrong).encode()))
        assert [each.reason.partition(",")[0] for each in plan.conflicts] == [
            "there is no user 'nix'",
            "there is no virtual host 'nix'",
            "there is no exchange 'nix'",
        ]


async def test_the_rights_are_asked_for_before_each_step() -> None:
    async with broker(http=False) as running:
        effects = Effects(running.broker, User("nobody"))
        with pytest.raises(AccessRefused, match="no administrator"):
            effects.do(
                Step("create", Item(QUEUE, "/", ("q",), {"durable": True, "auto_delete": False, "arguments": {}}))
            )
        assert not running.broker.hosts["/"].queues


async def test_what_is_no_document_changes_nothing() -> None:
    async with broker(http=False) as running:
        with pytest.raises(InvalidArgument):
            await apply(running.broker, b'{"queues": [{"name": "q"}], "queue": [{}]}')
        assert not running.broker.hosts["/"].queues


@pytest.mark.parametrize("setting", ["policies", "queue_settings"])
async def test_smaller_bounds_of_full_queues_come_after_all_that_may_be_refused(setting: str) -> None:
    document: dict[str, Any] = {
        "parameters": [{"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": 1}}],
        "policies": [{"name": "p", "pattern": "^q", "definition": {"max-length": 1}, "priority": 1}],
        "queue_settings": [{"name": "q", "settings": {"max-length": 1}}],
        "queues": [{"name": "q"}, {"name": "one too many"}],
    }
    del document["policies" if setting == "queue_settings" else "queue_settings"]
    async with broker(http=False, journal=False) as running:
        await apply(running.broker, {"queues": [{"name": "q"}]})
        queue, rights = running.broker.hosts["/"].queues["q"], access(running)
        for _ in range(3):
            await publish(running.broker, rights, submission(key="q"))
        with pytest.raises(PreconditionFailed, match="nothing was changed"):
            await apply(running.broker, document)
        assert queue.statistics().message_count == 3
        document["queues"].pop()
        assert (await apply(running.broker, document)).steps[-1].item.kind in {POLICY, QUEUE_SETTINGS}
        assert queue.statistics().message_count == 1


async def test_policies_come_before_new_queues_where_no_queue_has_messages() -> None:
    document = {
        "policies": [{"name": "p", "pattern": "^q", "definition": {"max-length": 1}, "priority": 1}],
        "queues": [{"name": "q"}],
    }
    async with broker(http=False, journal=False) as running:
        plan = await make_plan(running.broker, await read_document(json.dumps(document).encode()))
        assert [step.item.kind for step in plan.steps] == [POLICY, QUEUE]
