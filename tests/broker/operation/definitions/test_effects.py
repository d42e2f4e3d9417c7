"""Each kind of step is undone, wherever the plan fails: by the step itself, or by the disk that refuses its group."""

from __future__ import annotations

import json
from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.broker.connections.access import Access
from annulet.broker.operation.definitions.applying import TAKING, read_document
from annulet.broker.operation.definitions.current import export
from annulet.broker.operation.definitions.effects import Effects
from annulet.broker.operation.definitions.items import KINDS, QUEUE_SETTINGS
from annulet.broker.operation.definitions.planning import Plan, Step, make_plan
from annulet.broker.operation.publishing import publish
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.message.message import Message, Origin
from annulet.store.files.errors import CatalogueError
from annulet.testing import broker
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.operation.test_publishing import submission


def binding(source: str, destination: str, key: str = "", kind: str = "queue") -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": kind, "routing_key": key}


FORMER: dict[str, Any] = {
    "vhosts": [{"name": "shop", "description": "old", "tags": []}, {"name": "/"}],
    "users": [{"name": "ann", "password_hash": "", "tags": "monitoring", "limits": {"max-channels": 5}}],
    "permissions": [{"user": "ann", "vhost": "shop", "configure": "^a", "write": "", "read": ""}],
    "parameters": [
        {"component": "vhost-limits", "name": "limits", "vhost": "shop", "value": {"max-queues": 50}},
        {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": 90}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "old"}],
    "policies": [
        {"vhost": "shop", "name": "p", "pattern": "^x", "definition": {"max-length": 1}, "priority": 1},
        {"vhost": "/", "name": "gone", "pattern": "^g", "definition": {"max-length": 7}, "priority": 1},
    ],
    "address_settings": [
        {"vhost": "shop", "match": "a.#", "settings": {"max-delivery-attempts": 3}},
        {"vhost": "/", "match": "gone.#", "settings": {"max-delivery-attempts": 3}},
    ],
    "exchanges": [
        {"vhost": "shop", "name": "e", "type": "topic"},
        {"vhost": "/", "name": "from", "type": "topic"},
        {"vhost": "/", "name": "gone", "type": "topic"},
        {"vhost": "/", "name": "fleeting", "type": "fanout", "auto_delete": True},
    ],
    "queues": [
        {"vhost": "shop", "name": "q"},
        {"vhost": "/", "name": "g", "arguments": {"x-max-length": 9}},
        {"vhost": "/", "name": "stays"},
        {"vhost": "/", "name": "z"},
    ],
    "queue_settings": [
        {"vhost": "shop", "name": "q", "settings": {"max-length": 4}},
        {"vhost": "/", "name": "g", "settings": {"max-length": 5}},
    ],
    "bindings": [
        binding("from", "gone", "a", "exchange"),
        binding("gone", "g", "b"),
        binding("gone", "stays", "c"),
        binding("from", "stays", "gone"),
        binding("fleeting", "g"),
    ],
    "diverts": [
        {"vhost": "shop", "name": "d", "address": "a", "forwarding_addresses": ["b"]},
        {"vhost": "/", "name": "gone", "address": "a", "forwarding_addresses": ["b"]},
    ],
}

LATER: dict[str, Any] = {
    "vhosts": [{"name": "shop", "description": "new", "tags": ["t"]}, {"name": "other"}, {"name": "/"}],
    "users": [
        {"name": "ann", "password_hash": "", "tags": "management", "limits": {"max-channels": 6}},
        {"name": "bob", "password_hash": "", "tags": "", "limits": {"max-connections": 3}},
    ],
    "permissions": [
        {"user": "ann", "vhost": "shop", "configure": "^b", "write": "", "read": ""},
        {"user": "bob", "vhost": "other", "configure": "", "write": "", "read": ".*"},
    ],
    "parameters": [
        {"component": "vhost-limits", "name": "limits", "vhost": "shop", "value": {"max-queues": 60}},
        {"component": "vhost-limits", "name": "limits", "vhost": "other", "value": {"max-queues": 70}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "new"}, {"name": "mine", "value": 1}],
    "policies": [
        {"vhost": "shop", "name": "p", "pattern": "^y", "definition": {"max-length": 2}, "priority": 1},
        {"vhost": "other", "name": "p", "pattern": "^y", "definition": {"max-length": 2}, "priority": 1},
    ],
    "address_settings": [
        {"vhost": "shop", "match": "a.#", "settings": {"max-delivery-attempts": 4}},
        {"vhost": "other", "match": "b.#", "settings": {"max-delivery-attempts": 4}},
    ],
    "exchanges": [
        {"vhost": "shop", "name": "e", "type": "topic"},
        {"vhost": "shop", "name": "new", "type": "fanout"},
        {"vhost": "/", "name": "from", "type": "topic"},
        {"vhost": "/", "name": "fleeting", "type": "fanout", "auto_delete": True},
    ],
    "queues": [
        {"vhost": "shop", "name": "q"},
        {"vhost": "shop", "name": "new"},
        {"vhost": "other", "name": "x"},
        {"vhost": "/", "name": "stays"},
    ],
    "queue_settings": [
        {"vhost": "shop", "name": "q", "settings": {"max-length": 8}},
        {"vhost": "shop", "name": "new", "settings": {"max-length": 8}},
        {"vhost": "/", "name": "stays", "settings": {"max-length": 8}},
    ],
    "bindings": [
        {**binding("new", "q"), "vhost": "shop"},
        {**binding("e", "new", "k", "exchange"), "vhost": "shop"},
    ],
    "diverts": [
        {"vhost": "shop", "name": "d", "address": "a", "forwarding_addresses": ["c"]},
        {"vhost": "shop", "name": "new", "address": "a", "forwarding_addresses": ["c"]},
    ],
}


async def apply(running: Broker, document: Any, **options: bool) -> Plan:
    reading = await read_document(json.dumps(document).encode())
    return await running.definition_imports.apply(reading, None, **options)


async def own(running: Broker) -> dict[str, Any]:
    """Return all definitions; what was made again comes behind others of its kind."""
    document = await export(running, running.hosts.values(), own=True)
    return {name: sorted(each, key=json.dumps) if isinstance(each, list) else each for name, each in document.items()}


async def test_each_step_may_fail_and_nothing_has_changed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        assert (await apply(running.broker, FORMER)).not_taken == []
        before = await own(running.broker)
        plan = await make_plan(running.broker, await read_document(json.dumps(LATER).encode()), prune=True)
        assert (plan.conflicts, plan.not_taken) == ([], [])
        met = {(step.action, step.item.kind) for step in plan.steps}
        assert {kind for action, kind in met if action != "delete"} == set(KINDS)
        assert {kind for action, kind in met if action == "delete"} >= {
            "virtual host limit",
            "policy",
            "address settings",
            "exchange",
            "queue",
            "binding",
            "divert",
        }
        do = Effects.do
        done: list[Step] = []

        def refusing(effects: Effects, step: Step) -> None:
            if len(done) == number:
                raise CatalogueError("the disk is full")
            done.append(step)
            do(effects, step)

        monkeypatch.setattr(Effects, "do", refusing)
        for number in range(len(plan.steps)):
            done.clear()
            with pytest.raises(CatalogueError, match="disk is full") as refused:
                await apply(running.broker, LATER, prune=True)
            assert str(refused.value).startswith(f"step {number + 1} of {len(plan.steps)}, ")
            taking = any(each.item.kind in TAKING for each in done)
            assert ("but for messages that a setting expired" in str(refused.value)) == taking
            assert ("nothing was changed: all steps before it are undone" in str(refused.value)) == (not taking)
            assert await own(running.broker) == before
            assert running.broker.hosts["/"].queues["g"].settings.max_length == 5
            assert running.broker.hosts["/"].queues["stays"].settings.max_length == -1
        monkeypatch.setattr(Effects, "do", do)
        assert len((await apply(running.broker, LATER, prune=True)).steps) == len(plan.steps)
        again = await apply(running.broker, LATER, prune=True)
        assert (again.steps, again.conflicts) == ([], [])


async def test_a_defect_in_a_step_undoes_those_before_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        before = await own(running.broker)
        do = Effects.do

        def broken(effects: Effects, step: Step) -> None:
            do(effects, step)
            if step.item.kind == QUEUE_SETTINGS:
                raise KeyError("a defect")

        monkeypatch.setattr(Effects, "do", broken)
        with pytest.raises(KeyError):
            await apply(running.broker, LATER)
        assert await own(running.broker) == before


async def test_queues_come_back_as_subscriptions_and_the_report_names_lost_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with broker(http=False) as running:
        await apply(running.broker, {"queues": [{"name": "a"}, {"name": "b"}, {"name": "full"}]})
        host = running.broker.hosts["/"]
        mark = SubscriptionMark("client", "name", "guest")
        host.lifetime_of(host.queues["a"]).subscription = mark
        rights = Access(running.broker.authenticator, running.broker.catalogue, host, "guest")
        for key in ("full", "b"):
            await publish(running.broker, rights, submission(key=key))
        await publish(running.broker, rights, submission(key="full"))
        do = Effects.do

        def refusing(effects: Effects, step: Step) -> None:
            if step.item.name == "full":
                raise CatalogueError("the disk is full")
            do(effects, step)

        monkeypatch.setattr(Effects, "do", refusing)
        with pytest.raises(CatalogueError) as refused:
            await apply(running.broker, {"vhosts": [{"name": "/"}]}, prune=True)
        assert str(refused.value) == (
            "step 3 of 3, delete queue 'full' in vhost '/': the disk is full; the steps before it are undone "
            "but for 1: queue 'b': it is there again, without its 1 messages"
        )
        assert sorted(host.queues) == ["a", "b", "full"]
        assert host.lifetime_of(host.queues["a"]).subscription == mark
        assert host.queues["full"].statistics().message_count == 2


async def test_what_clients_made_or_filled_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        host = running.broker.hosts["/"]
        now = running.broker.clock()
        undo_of = Effects.undo_of

        def with_clients(effects: Effects, step: Step) -> Any:
            if step.item.name == "theirs":
                host.declare_queue("theirs", now=now, durable=True)
            if step.item.name == "z":
                host.queues["filled"].enqueue(Message(b"\0\0", b"x", Origin("", "filled", "", VIEW)), now)
            return undo_of(effects, step)

        def refusing(effects: Effects, step: Step) -> None:
            if step.item.name == "z":
                raise CatalogueError("the disk is full")
            do(effects, step)

        do = Effects.do
        monkeypatch.setattr(Effects, "undo_of", with_clients)
        monkeypatch.setattr(Effects, "do", refusing)
        document = {"queues": [{"name": name} for name in ("filled", "ours", "theirs", "z")]}
        with pytest.raises(CatalogueError, match="queue 'filled': queue 'filled' has 1 messages meanwhile"):
            await apply(running.broker, document)
        assert sorted(host.queues) == ["filled", "theirs"]


async def test_the_report_names_messages_that_came_after_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        host, now = running.broker.hosts["/"], running.broker.clock()
        await apply(running.broker, {"queues": [{"name": "a"}, {"name": "z"}]})
        undo_of, do = Effects.undo_of, Effects.do

        def with_clients(effects: Effects, step: Step) -> Any:
            if step.item.name == "a":
                host.queues["a"].enqueue(Message(b"\0\0", b"x", Origin("", "a", "", VIEW)), now)
            return undo_of(effects, step)

        def refusing(effects: Effects, step: Step) -> None:
            if step.item.name == "z":
                raise CatalogueError("the disk is full")
            do(effects, step)

        monkeypatch.setattr(Effects, "undo_of", with_clients)
        monkeypatch.setattr(Effects, "do", refusing)
        with pytest.raises(CatalogueError, match="queue 'a': it is there again, without its 1 messages"):
            await apply(running.broker, {"vhosts": [{"name": "/"}]}, prune=True)
