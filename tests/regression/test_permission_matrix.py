"""A3, A10: every operation over every protocol as every role is allowed or refused as the one table says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.server import BulkService
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import queue_of
from tests.regression import permission_clients
from tests.regression.permission_matrix import (
    ALLOWED,
    AMQP_0,
    AMQP_1,
    ANONYMOUS_TERMINUS,
    BULK,
    EXACT,
    HTTP,
    KINDS,
    LOCKED,
    OPERATIONS,
    RABBITMQ_HTTP,
    REFUSED,
    ROLES,
    STOMP,
    Operation,
    Role,
    document,
    expected,
)

CLIENTS: Final[dict[str, Any]] = {
    AMQP_0: permission_clients.Amqp091Client,
    AMQP_1: permission_clients.Amqp10Client,
    ANONYMOUS_TERMINUS: permission_clients.AnonymousTerminusClient,
    STOMP: permission_clients.StompClient,
    HTTP: permission_clients.HttpClient,
    RABBITMQ_HTTP: permission_clients.RabbitMqHttpClient,
    BULK: permission_clients.BulkTransferClient,
}

WITHOUT_EFFECT: Final = {
    "look_at_queue",
    "browse",
    "look",
    "preview_by_content",
    "queue_status",
    "lease_status",
    "why_not",
    "losses",
    "see_users",
}
"""Operations that change nothing that is compared."""

ROWS: Final = [(operation, protocol) for operation in OPERATIONS for protocol in operation.protocols]

BY_PERMISSION: Final = [row for row in ROWS if not row[0].for_administrators]

EFFECT_TURNS: Final = 500
"""Turns of the loop within which an operation that was accepted shows."""

NUMBERS: Final = itertools.count(1)

Shared = tuple[asyncio.Runner, Broker]


def users() -> dict[str, UserDeclaration]:
    return {
        role.name: UserDeclaration(
            HASHER.hash(role.name),
            (role.tag,),
            {} if role.entry is None else {"/": PermissionDeclaration(*role.entry)},
        )
        for role in (*ROLES, EXACT)
    }


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """One broker for all cases, each with names of its own."""
    with asyncio.Runner() as runner:
        context = testing.broker(http=False, bulk=True, users=users())
        broker = runner.run(context.__aenter__()).broker
        (bulk,) = [service for service in broker.services if isinstance(service, BulkService)]
        permission_clients.BulkTransferClient.port = bulk.port
        try:
            yield runner, broker
        finally:

            async def stop() -> None:
                for connection in list(broker.connections):
                    connection.abort()
                await context.__aexit__(None, None, None)

            runner.run(stop())


class Case:
    """One case: what is there before, what a client does, what is there afterwards."""

    def __init__(self, broker: Broker, *, owner: object | None = None) -> None:
        self.broker = broker
        self.host = broker.hosts["/"]
        self.number = next(NUMBERS)
        number, host = self.number, self.host
        if owner is None:
            self.queue = queue_of(broker, f"queue{number}", {"x-ring-size": 1})
        else:
            self.queue = host.declare_queue(f"queue{number}", now=1, owner=owner, arguments={"x-ring-size": 1})
        self.target = queue_of(broker, f"target{number}", durable=False)
        for name in ("exchange", "destination"):
            host.declare_exchange(f"{name}{number}", "direct")
        host.nodes.declare_address(f"address{number}", ("multicast",), durable=False)
        for key in ("k", "bound"):
            host.bind_queue(self.queue, f"exchange{number}", key, {})
        host.bind_exchange(f"destination{number}", f"exchange{number}", "bound", {})
        header = encode_properties(BasicProperties())
        for _ in range(2):  # the ring keeps one of them: a loss
            now = broker.clock()
            message = Message(header, b"x", Origin("", self.queue.name, "somebody@test", VIEW), accepted_at=now)
            host.publisher.publish(message, host.route("", self.queue.name), now)

    def state(self) -> tuple[Any, ...]:
        """Return all definitions, and what is in the queues of the case."""
        host = self.host
        return (
            sorted(host.queues),
            sorted(host.exchanges),
            sorted(f"{item.source.name} {item.key}" for item in host.bindings()),
            sorted(record.name for record in self.broker.catalogue.queues("/")),
            [policy.name for policy in host.policies.all()],
            self.access(),
            [
                (
                    queue.deleted,
                    queue.paused,
                    queue.settings,
                    queue.consumers.count,
                    len(queue.leases),
                    queue.counters.messages_added,
                    queue.statistics().message_count,
                    queue.statistics().delivering_count,
                )
                for queue in (self.queue, self.target)
            ],
        )

    def access(self) -> tuple[Any, ...]:
        """Return users, permissions, limits, tokens and virtual hosts."""
        directory = self.broker.access_directory
        return (
            directory.users(),
            directory.permissions(),
            directory.limits("user"),
            directory.tokens(),
            sorted(self.broker.hosts),
        )

    async def run(self, operation: str, protocol: str, user: str) -> str:
        """Carry an operation out, and check that it had its effect if it was allowed, and none if it was not."""
        if operation == "lease_status":
            wanted = LeaseRequest("/", f"there{self.number}", self.queue.name, owner="other", fresh=True)
            await self.broker.leases.open(wanted)
        if operation in permission_clients.ON_A_USER:
            permission_clients.make_user(self.broker, self.number)
        if operation == "delete_host":
            self.broker.virtual_hosts.put(f"host{self.number}")
        before = self.state()
        client = CLIENTS[protocol](self.broker, user, self.number)
        try:
            outcome: str = await client.run(operation)
            await turns()
            if outcome == ALLOWED and operation not in WITHOUT_EFFECT:
                for _ in range(EFFECT_TURNS):
                    if self.state() != before:
                        break
                    await asyncio.sleep(0)
                else:
                    raise AssertionError("it was allowed and had no effect")
            elif outcome != ALLOWED:
                assert self.state() == before
        finally:
            await client.end()
        return outcome

    async def end(self) -> None:
        """Delete what the case has made."""
        host, now = self.host, self.broker.clock()
        for name in [name for name in host.queues if name.endswith(str(self.number)) or name.startswith("amq.")]:
            host.delete_queue(host.queues[name], now)
        for name in [name for name in host.exchanges if name.endswith(str(self.number))]:
            host.delete_exchange(name)
        for policy in host.policies.all():
            self.broker.operator_settings.remove_policy(host, policy.name)
        directory = self.broker.access_directory
        directory.delete_users([user.name for user in directory.users() if user.name == f"user{self.number}"])
        await turns()


async def outcome_of(broker: Broker, operation: Operation, protocol: str, role: Role) -> str:
    case = Case(broker)
    try:
        return await case.run(operation.identifier, protocol, role.name)
    finally:
        await case.end()


def identifiers(rows: list[tuple[Operation, str]]) -> list[str]:
    return [f"{operation.identifier}-{protocol}" for operation, protocol in rows]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
@pytest.mark.parametrize(("operation", "protocol"), ROWS, ids=identifiers(ROWS))
def test_the_table_holds(shared: Shared, operation: Operation, protocol: str, role: Role) -> None:
    """A3, A10: operation, protocol, role."""
    runner, broker = shared
    outcome = runner.run(outcome_of(broker, operation, protocol, role))
    assert outcome == expected(operation, protocol, role)


async def exact_outcomes(broker: Broker, operation: Operation, protocol: str) -> dict[tuple[str, str] | None, str]:
    """Return what came of an operation with exactly what it needs, and with each need left out."""
    outcomes: dict[tuple[str, str] | None, str] = {}
    for without in (None, *operation.needs):
        case = Case(broker)
        rights = [operation.pattern(kind, case.number, without) for kind in KINDS]
        configure, write, read, browse, manage = rights
        broker.catalogue.access.set_permission(EXACT.name, "/", configure, write, read, browse=browse, manage=manage)
        broker.authenticator.reload()
        try:
            outcomes[without] = await case.run(operation.identifier, protocol, EXACT.name)
        finally:
            await case.end()
    return outcomes


@pytest.mark.parametrize(("operation", "protocol"), BY_PERMISSION, ids=identifiers(BY_PERMISSION))
def test_each_permission_is_for_the_name_that_the_table_says(
    shared: Shared, operation: Operation, protocol: str
) -> None:
    """A3: no more than that is needed, and nothing of it can be left out."""
    runner, broker = shared
    outcomes = runner.run(exact_outcomes(broker, operation, protocol))
    assert outcomes == {None: ALLOWED, **dict.fromkeys(operation.needs, REFUSED)}


LOCKED_ROWS: Final = {
    AMQP_0: (
        "declare_again",
        "look_at_queue",
        "delete_queue",
        "purge_queue",
        "bind_queue",
        "unbind_queue",
        "consume",
        "browse",
        "get",
    ),
    AMQP_1: ("consume", "browse"),
    STOMP: ("consume", "browse"),
    HTTP: ("look", "why_not", "change_settings", "change_target", "pause", "operate", "operate_by_content", "copy"),
    RABBITMQ_HTTP: ("delete_queue", "purge_queue", "bind_queue", "unbind_queue", "get"),
    BULK: ("consume", "browse", "queue_status"),
}
"""Operations on an exclusive queue that only its own connection may do, whatever the user may."""

SENDING: Final = (AMQP_0, AMQP_1, ANONYMOUS_TERMINUS, STOMP, RABBITMQ_HTTP, BULK)

ON_EXCLUSIVE: Final = [
    *((name, protocol, "all", LOCKED) for protocol, names in LOCKED_ROWS.items() for name in names),
    *((name, HTTP, "administrator", LOCKED) for name in LOCKED_ROWS[HTTP]),
    *((name, HTTP, "monitoring", REFUSED) for name in LOCKED_ROWS[HTTP]),
    *((name, RABBITMQ_HTTP, "administrator", LOCKED) for name in LOCKED_ROWS[RABBITMQ_HTTP]),
    *((name, RABBITMQ_HTTP, "monitoring", REFUSED) for name in LOCKED_ROWS[RABBITMQ_HTTP]),
    ("look_at_queue", HTTP, "all", ALLOWED),
    ("look_at_queue", RABBITMQ_HTTP, "all", ALLOWED),
    ("losses", HTTP, "administrator", REFUSED),
    *(("publish_to_queue", protocol, "all", ALLOWED) for protocol in SENDING),
    *(("publish_to_queue", protocol, "read-only", REFUSED) for protocol in SENDING),
]


async def exclusive_outcome(broker: Broker, operation: str, protocol: str, user: str) -> str:
    case = Case(broker, owner=object())
    try:
        return await case.run(operation, protocol, user)
    finally:
        await case.end()


@pytest.mark.parametrize(("operation", "protocol", "user", "outcome"), ON_EXCLUSIVE)
def test_an_exclusive_queue_of_another_connection(
    shared: Shared, operation: str, protocol: str, user: str, outcome: str
) -> None:
    """A10: is neither read nor changed, and all who may write to the default exchange may send to it."""
    runner, broker = shared
    assert runner.run(exclusive_outcome(broker, operation, protocol, user)) == outcome


def test_every_client_does_what_the_table_says() -> None:
    """No row is left out, and no client has an operation that no row is about."""
    for operation, protocol in ROWS:
        assert hasattr(CLIENTS[protocol], operation.identifier), (operation, protocol)
    named = {operation.identifier for operation in OPERATIONS} | {"declare_again", "run", "end"}
    for client in CLIENTS.values():
        assert {name for name in vars(client) if name.islower() and not name.startswith("_")} <= named | {
            "anonymous",
            "port",
        }


def test_the_page_has_the_table() -> None:
    """B26: the table in the documentation is this one."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
    assert f"<!-- table: permissions -->\n{document()}\n<!-- end of table -->" in page
