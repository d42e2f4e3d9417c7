"""Applies a plan, all or nothing: when a step is refused, those before it are undone, the latest first.

Deletions come last, of queues last of all: an undo brings queues back, but not their messages. A broker that ends in
the middle has a part of the plan; the next plan for the same document has the rest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.operation.definitions.artemis_xml import is_xml, read_broker_xml
from annulet.broker.operation.definitions.effects import Effects, Undo
from annulet.broker.operation.definitions.items import ADDRESS_SETTINGS, POLICY, QUEUE_SETTINGS, TURN_SECONDS
from annulet.broker.operation.definitions.planning import Plan, Step, make_plan
from annulet.broker.operation.definitions.reading import Reading
from annulet.broker.operation.definitions.splitting import split_document
from annulet.broker.operation.durable_changes import departure, durably
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.errors import CoreError, PreconditionFailed
from annulet.core.configuration.arguments.values import shown
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User

logger = structlog.get_logger(__name__)

CONFLICTS_SHOWN: Final = 5


async def read_document(octets: bytes, host: str = "") -> Reading:
    """Read a document of definitions, or a ``broker.xml`` of Artemis.

    ``host``: that it is of this virtual host alone, and does not name it.
    Raises :class:`~annulet.core.base.errors.InvalidArgument` for another document.
    """
    reading = Reading(host)
    turns = Turns(seconds=TURN_SECONDS)
    if is_xml(octets):
        for _ in read_broker_xml(octets, reading):
            await turns.look()
    else:
        for found in split_document(octets):
            if found is not None:
                reading.read(*found)
            await turns.look()
    reading.settle()
    return reading


class DefinitionImports:
    """Applies documents to one broker, one after the other. Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turn = asyncio.Lock()

    async def apply(self, reading: Reading, user: User | None, *, prune: bool = False, keep: bool = False) -> Plan:
        """Make the broker's definitions those of the document, and return the steps taken.

        ``user``: the administrator of the request; ``None`` at the start of the broker. ``prune``: delete what it does
        not name. ``keep``: existing definitions with other properties stay as they are (RabbitMQ),
        instead of refusing the document. Raises :class:`PreconditionFailed` for conflicts, and what a step raises; in
        both cases nothing has changed.
        """
        async with self._turn:
            plan = await make_plan(self._broker, reading, prune=prune)
            if plan.conflicts and not keep:
                listed = "; ".join(
                    f"{each.kind} {shown(each.name)}: {each.reason}" for each in plan.conflicts[:CONFLICTS_SHOWN]
                )
                raise PreconditionFailed(f"{len(plan.conflicts)} conflicts, nothing was changed: {listed}")
            await self._carry_out(plan, user)
        return plan

    async def _carry_out(self, plan: Plan, user: User | None) -> None:
        undone: list[tuple[Step, Undo]] = []
        turns = Turns(seconds=TURN_SECONDS)
        effects = Effects(self._broker, user)

        def do(step: Step) -> None:
            undone.append((step, effects.undo_of(step)))
            effects.do(step)

        for number, step in enumerate(plan.steps, 1):
            try:
                await durably(self._broker.definitions, lambda step=step: do(step))  # type: ignore[misc]
                await turns.look()
            except BaseException as error:
                left = await self._undo(undone)
                if isinstance(error, CoreError | CatalogueError):
                    before = [each for each, _ in undone if each is not step]
                    raise type(error)(_report(step, number, len(plan.steps), error, before, left)) from error
                raise  # a defect, or the end of the broker
        for host, queue in effects.deleted:
            await departure(host, queue)

    async def _undo(self, undone: list[tuple[Step, Undo]]) -> list[str]:
        """Undo steps, the latest first. Returns what could not be undone, and why."""
        turns = Turns(seconds=TURN_SECONDS)
        left: list[str] = []
        for step, undo in reversed(undone):
            try:
                further = await durably(self._broker.definitions, undo)
                if isinstance(further, asyncio.Task):
                    await further
            except (CoreError, CatalogueError) as error:
                left.append(f"{step.item.kind} {shown(step.item.name)}: {error}")
                logger.error("a step of refused definitions could not be undone", error=left[-1])  # noqa: TRY400 - the text says it all
            await turns.look()
        return left


TAKING: Final = frozenset({ADDRESS_SETTINGS, POLICY, QUEUE_SETTINGS})
"""Kinds whose steps may expire or drop messages, which no undo brings back."""


def _report(step: Step, number: int, total: int, error: Exception, before: list[Step], left: list[str]) -> str:
    """Return what a refused step was, and what of those before it stays."""
    item = step.item
    where = f" in vhost {shown(item.host)}" if item.host else ""
    what = f"step {number} of {total}, {step.action} {item.kind} {shown(item.name)}{where}: {error}"
    if not left and any(each.item.kind in TAKING for each in before):
        return f"{what}; all steps before it are undone, but for messages that a setting expired or dropped meanwhile"
    if not left:
        return f"{what}; nothing was changed: all steps before it are undone"
    listed = "; ".join(left[:CONFLICTS_SHOWN])
    return f"{what}; the steps before it are undone but for {len(left)}: {listed}"
