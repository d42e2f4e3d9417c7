"""Compares the definitions of a document with those of a broker: the steps from one to the other, in order.

Queues and exchanges that exist with other properties cannot be changed while they are used: a conflict. A plan
with conflicts is not applied. ``prune`` deletes what the document does not name, in the virtual hosts that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.operation.definitions.current import current_items
from annulet.broker.operation.definitions.items import (
    BINDING,
    EXCHANGE,
    KINDS,
    PERMISSION,
    POLICY,
    QUEUE,
    QUEUE_SETTINGS,
    TURN_SECONDS,
    USER,
    USER_LIMIT,
    VIRTUAL_HOST,
    Item,
    NotTaken,
)
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.linear_expressions import LinearExpression
from annulet.core.configuration.arguments import parse_queue_arguments
from annulet.core.configuration.arguments.unknown import WARN
from annulet.core.configuration.arguments.values import shown
from annulet.core.routing.bindings import TO_QUEUE
from annulet.store.database.definitions import OF_FILE

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.operation.definitions.reading import Reading

CREATE: Final = "create"
CHANGE: Final = "change"
DELETE: Final = "delete"

ACCESS: Final = frozenset({USER, PERMISSION, USER_LIMIT})
"""Kinds that belong to users: a plan deletes none of them, because the document may be of another broker."""

KEPT: Final = ACCESS | {VIRTUAL_HOST, QUEUE_SETTINGS, "global parameter"}
"""Kinds that pruning leaves alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change. ``destroys``: messages that end with it; ``former``: the item before, ``None`` for a new one."""

    action: str
    item: Item
    former: Item | None = None
    destroys: int = 0


@dataclass(slots=True)
class Plan:
    """The steps in order, the conflicts, and what of the document was not taken."""

    steps: list[Step] = field(default_factory=list)
    conflicts: list[NotTaken] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)

    @property
    def destroys(self) -> int:
        """Messages that end with the plan."""
        return sum(step.destroys for step in self.steps)

    def described(self) -> dict[str, Any]:
        """Return the JSON of the plan."""
        return {
            "steps": [
                {
                    "action": step.action,
                    "kind": step.item.kind,
                    "vhost": step.item.host,
                    "name": step.item.name,
                    "changes": _changes(step),
                    "destroys": step.destroys,
                }
                for step in self.steps
            ],
            "destroys": self.destroys,
            "conflicts": [_described(each) for each in self.conflicts],
            "not_taken": [_described(each) for each in self.not_taken],
        }


def _described(each: NotTaken) -> dict[str, str]:
    return {"kind": each.kind, "vhost": each.host, "name": each.name, "reason": each.reason}


def _changes(step: Step) -> dict[str, Any]:
    """Return by member the value before and after; hashes of passwords are not shown."""
    if step.former is None or step.action == DELETE:
        return {}
    secret = {"password_hash", "scram"}
    names = sorted({*step.former.value, *step.item.value})
    return {
        name: ["…", "…"] if name in secret else [step.former.value.get(name), step.item.value.get(name)]
        for name in names
        if step.former.value.get(name) != step.item.value.get(name)
    }


async def make_plan(broker: Broker, reading: Reading, *, prune: bool = False) -> Plan:
    """Return what would be done. Nothing is changed; other tasks get turns."""
    turns = Turns(seconds=TURN_SECONDS)
    known: dict[tuple[str, str, tuple[str, ...]], Item] = {}
    hosts = [host for host in list(broker.hosts.values()) if host.name in reading.hosts or not host.name]
    for item in current_items(broker, hosts, whole=True):
        known[item.identity] = item
        await turns.look()
    plan = Plan(not_taken=list(reading.not_taken))
    order = {kind: number for number, kind in enumerate(KINDS)}
    for item in sorted(reading.items.values(), key=lambda each: order[each.kind]):
        await turns.look()
        step = _step(item, known.get(item.identity))
        if step is None:
            continue
        obstacle = _obstacle(broker, reading, step, known)
        if obstacle:
            plan.conflicts.append(NotTaken(item.kind, item.host, item.name, obstacle))
        else:
            plan.steps.append(step)
    plan.steps = await _takers_last(broker, plan.steps, turns)
    if prune:
        # queues last, and those with messages behind the others: an undo can restore all others
        surplus = [
            item
            for item in known.values()
            if item.identity not in reading.items and item.kind not in KEPT and item.host in reading.hosts
        ]
        steps = [
            Step(DELETE, item, item, _messages(broker, item))
            for item in surplus
            if not _goes_with_its_end(item, reading)
        ]
        plan.steps += sorted(steps, key=lambda each: (each.item.kind == QUEUE, -order[each.item.kind], each.destroys))
    return plan


async def _takers_last(broker: Broker, steps: list[Step], turns: Turns) -> list[Step]:
    """Put policies and settings of queues that have messages behind all that may be refused.

    A smaller bound takes messages that no undo brings back. Where queues are empty, new ones have their policies first.
    """
    full: dict[str, list[str]] = {}  # queues with messages by virtual host
    first: list[Step] = []
    last: list[Step] = []
    for step in steps:
        await turns.look()
        item = step.item
        if item.kind not in {POLICY, QUEUE_SETTINGS} or item.host not in broker.hosts:
            first.append(step)
            continue
        if item.host not in full:
            full[item.host] = names = []
            for name, queue in list(broker.hosts[item.host].queues.items()):
                if queue.message_count():
                    names.append(name)
                await turns.look()
        meant = LinearExpression(item.value["pattern"]).search if item.kind == POLICY else item.key[0].__eq__
        takes = False
        for name in full[item.host]:
            takes = meant(name)
            if takes:
                break
            await turns.look()
        (last if takes else first).append(step)
    return first + last


def _step(item: Item, former: Item | None) -> Step | None:
    if former is None:
        return Step(CREATE, item)
    return None if _same(item, former) else Step(CHANGE, item, former)


def _same(item: Item, former: Item) -> bool:
    if item.value == former.value or item.kind == BINDING:
        return True
    if item.kind == VIRTUAL_HOST:
        return not item.value  # the document says nothing of it but that it is there
    if item.kind == USER:
        former_value = {name: value for name, value in former.value.items() if name in item.value}
        return item.value == former_value
    if item.kind == QUEUE:
        name = item.key[0]
        return all(item.value[each] == former.value[each] for each in ("durable", "auto_delete")) and (
            parse_queue_arguments(item.value["arguments"], name, unknown=WARN)
            == parse_queue_arguments(former.value["arguments"], name, unknown=WARN)
        )
    return False


def _obstacle(broker: Broker, reading: Reading, step: Step, known: dict[tuple[str, str, tuple[str, ...]], Item]) -> str:
    """Return why a step cannot be done; empty when it can."""
    item = step.item
    if item.kind in {QUEUE, EXCHANGE} and step.former is not None:
        name, (before, after) = next(iter(_changes(step).items()))
        return f"it exists with {name} {shown(before)}, not {shown(after)}; delete it first, or write what it has"
    if item.kind in ACCESS:
        users = {user.name: user for user in broker.access_directory.users()}
        user = users.get(item.key[0])
        if user is not None and user.source == OF_FILE:
            return "the user is declared in the configuration file; change it there"
        if user is None and (USER, "", (item.key[0],)) not in reading.items:
            return f"there is no user {item.key[0]!r}, and the document has none"
    if item.host and item.host not in broker.hosts and (VIRTUAL_HOST, "", (item.host,)) not in reading.items:
        return f"there is no virtual host {item.host!r}, and the document has none"
    if item.kind == BINDING:
        source, kind, destination = item.key[:3]
        ends = ((EXCHANGE, source), (QUEUE if kind == TO_QUEUE else EXCHANGE, destination))
        for end, name in ends:
            there = (end, item.host, (name,)) in reading.items or (end, item.host, (name,)) in known
            if not there and not (end == EXCHANGE and name.startswith("amq.")):
                return f"there is no {end} {name!r}, and the document has none"
    if item.kind == QUEUE_SETTINGS and (QUEUE, item.host, item.key) not in reading.items | known:
        return "there is no such queue, and the document has none"
    return ""


def _goes_with_its_end(item: Item, reading: Reading) -> bool:
    """Return whether a binding is deleted with its queue or exchange anyway."""
    if item.kind != BINDING:
        return False
    source, kind, destination = item.key[:3]
    there = (QUEUE if kind == TO_QUEUE else EXCHANGE, item.host, (destination,)) in reading.items
    return not there or not (source.startswith("amq.") or (EXCHANGE, item.host, (source,)) in reading.items)


def _messages(broker: Broker, item: Item) -> int:
    if item.kind != QUEUE:
        return 0
    queue = broker.hosts[item.host].queues.get(item.key[0])
    return 0 if queue is None else queue.message_count()
