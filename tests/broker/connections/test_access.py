from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import annulet
from annulet.broker.broker import Broker
from annulet.broker.connections.access import (
    GENERATED,
    READ,
    WRITE,
    Access,
    end_address,
    end_queue,
    generated_name,
    targets_of,
)
from annulet.broker.security.authentication import User
from annulet.core.base.errors import AccessRefused, CoreError, InvalidArgument, NotFound, ResourceLocked
from annulet.core.base.settings import BROWSE_FOLLOW, ConsumerSettings
from annulet.core.configuration.arguments import parse_queue_arguments
from tests.broker.amqp10.peer import permit, queue_of

SOURCE = Path(annulet.__file__).parent
ROOMS = ("broker", "bulk", "admin", "cli", "demo", "testing")

DECLARING = {
    "attach_queue",
    "bind_exchange",
    "bind_queue",
    "declare_address",
    "declare_exchange",
    "declare_queue",
    "delete_address",
    "delete_exchange",
    "delete_queue",
    "purge",
    "resolve_node",
    "unbind_exchange",
    "unbind_queue",
}
"""Methods of the core, and of declarations that are written down, that have an effect on definitions."""

ADMINISTRATOR = User("guest", frozenset({"administrator"}))

WITHOUT_A_USER = {
    "broker/connections/access.py",  # the check itself
    "broker/recovery/declaring.py",  # the configuration file
    "broker/durability/durable_declarations.py",
    "broker/durability/effects.py",  # tells the catalogue what the core did
    "broker/durability/event_log.py",  # the broker's own queues
    "broker/durability/ledger_queue.py",
    "broker/operation/definitions/effects.py",  # documents of administrators, who are asked for before each step
    "broker/operation/undo_window.py",  # the broker's own queue
    "broker/operation/virtual_hosts.py",  # the end of a virtual host, which takes all of it along
    "broker/recovery/recovery.py",  # what was declared before
}


WAYS_OF_MESSAGES = {
    "browse": {"bulk/reading/snapshots.py"},
    "enqueue": {"broker/durability/event_log.py", "broker/durability/ledger_queue.py"},
    "enqueue_all": set(),
    "publish": {
        "broker/amqp091/channel.py",
        "broker/amqp091/handler.py",
        "broker/connections/sending.py",
        "broker/operation/publishing.py",
        "bulk/writing/row_filling.py",
    },
    "queue_for": {
        "broker/connections/access.py",
        "broker/recovery/declaring.py",
        "broker/durability/event_log.py",
        "broker/durability/ledger_queue.py",
        "broker/operation/definitions/effects.py",  # documents of administrators
        "broker/stomp/commands.py",  # temporary queues
        "broker/stomp/subscribing.py",  # the same
        "bulk/reading/leases.py",
    },
    "route": {
        "admin/resources/publishing.py",  # asks for reading of the exchange: the way is explained, nothing is sent
        "broker/amqp091/publishing.py",
        "broker/connections/sending.py",
        "broker/operation/publishing.py",
        "broker/operation/route_explaining.py",  # the same
        "bulk/writing/publisher.py",
    },
}
"""Methods that let messages in and out, and the modules that call them, each after it has asked an access."""


def access_of(broker: Broker, *, owner: object | None = None, records: bool = False, **rights: str) -> Access:
    permit(broker, **{"configure": "", "write": "", "read": "", **rights})
    return Access(broker.authenticator, broker.catalogue, broker.hosts["/"], "guest", owner=owner, records=records)


def declare(access: Access, name: str = "q", **options: Any) -> None:
    access.declare_queue(name, **{"now": 1, "durable": True, "auto_delete": False, "arguments": {}, **options})


def names(broker: Broker) -> tuple[set[str], set[str], int]:
    host = broker.hosts["/"]
    return set(host.queues), set(host.exchanges), len(list(host.bindings()))


def refused(broker: Broker, kind: str, name: str, work: Callable[[], Any]) -> None:
    """The work is refused for want of this permission, and has no effect."""
    before = names(broker)
    with pytest.raises(AccessRefused, match=f"^{kind} access to '{name}' in vhost '/' refused for user 'guest'$"):
        work()
    assert names(broker) == before


# ---------------------------------------------------------------------- the one way


def declaring_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of calls of declaring methods on anything but an access."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DECLARING):
            continue
        receiver = node.func.value
        if isinstance(receiver, ast.Call):
            receiver = receiver.func
        if not (isinstance(receiver, ast.Name | ast.Attribute) and ast.unparse(receiver).endswith("access")):
            yield node.lineno, node.func.attr


def test_nothing_that_serves_clients_declares_but_through_an_access() -> None:
    found = []
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            place = path.relative_to(SOURCE).as_posix()
            if place in WITHOUT_A_USER:
                continue
            text = path.read_text()
            found += [f"{place}:{line} calls {name}" for line, name in declaring_calls(ast.parse(text))]
            if "import DurableDeclarations" in text:
                found.append(f"{place} imports DurableDeclarations")
    assert not [call for call in found if not call.startswith("testing/oracle/")]


def test_messages_come_and_go_by_ways_that_ask_for_permission() -> None:
    found: dict[str, set[str]] = {name: set() for name in WAYS_OF_MESSAGES}
    for room in ("broker", "bulk", "admin"):
        for path in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in found:
                    found[node.func.attr].add(path.relative_to(SOURCE).as_posix())
    assert found == WAYS_OF_MESSAGES


def test_the_search_finds_such_calls() -> None:
    tree = ast.parse("host.declare_queue('q')\nself.access.declare_queue('q')\nself.host.queues['q'].purge(1)")
    assert list(declaring_calls(tree)) == [(1, "declare_queue"), (3, "purge")]


# ---------------------------------------------------------------------- targets


TARGETS = {
    "x-dead-letter-exchange": "t",
    "x-dead-letter-address": "t",
    "x-expiry-address": "t",
    "x-dropped-address": "t",
    "dead-letter-address": "t",
}


@pytest.mark.parametrize("argument", TARGETS)
async def test_a_queue_that_sends_messages_on_takes_reading_it_and_writing_there(broker: Broker, argument: str) -> None:
    arguments = {argument: "t"}
    refused(broker, READ, "q", lambda: declare(access_of(broker, configure="^q$", write="^t$"), arguments=arguments))
    refused(broker, WRITE, "t", lambda: declare(access_of(broker, configure="^q$", read="^q$"), arguments=arguments))
    declare(access_of(broker, configure="^q$", read="^q$", write="^t$"), arguments=arguments)
    declare(access_of(broker, configure="^q$"), arguments=arguments)  # it is there already: nothing happens (RabbitMQ)


async def test_the_default_exchange_is_a_target_too(broker: Broker) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}
    access = access_of(broker, configure="^q$", read="^q$", write="^other$")
    refused(broker, WRITE, "amq.default", lambda: declare(access, arguments=arguments))


async def test_qpids_dead_letter_switch_is_a_target_too(broker: Broker) -> None:
    access = access_of(broker, configure="^q$", read="^q$")
    refused(broker, WRITE, "q_DLQ", lambda: declare(access, arguments={"x-qpid-dlq-enabled": True}))


def test_all_targets_of_settings() -> None:
    settings = parse_queue_arguments(
        {
            "x-dead-letter-exchange": "a",
            "x-expiry-address": "b",
            "x-dropped-address": "c",
        }
    )
    assert sorted(targets_of(settings)) == ["a", "b", "c"]
    assert targets_of(parse_queue_arguments({})) == []


async def test_an_alternate_exchange_takes_reading_and_writing(broker: Broker) -> None:
    def make(access: Access, target: str = "t") -> None:
        access.declare_exchange(
            "e", "fanout", durable=True, auto_delete=False, internal=False, arguments={"alternate-exchange": target}
        )

    refused(broker, READ, "e", lambda: make(access_of(broker, configure="^e$", write="^t$")))
    refused(broker, WRITE, "t", lambda: make(access_of(broker, configure="^e$", read="^e$")))
    refused(broker, WRITE, "amq.default", lambda: make(access_of(broker, configure="^e$", read="^e$", write="^t$"), ""))
    make(access_of(broker, configure="^e$", read="^e$", write="^t$"))
    make(access_of(broker, configure="^e$"))


async def test_a_change_of_a_live_queue_takes_its_new_targets(broker: Broker) -> None:
    queue = queue_of(broker, "q")
    changes = {"x-dead-letter-address": "t"}
    access = access_of(broker, read="^q$", write="^t$")
    refused(broker, "configure", "q", lambda: access.require_change(queue, changes))
    access = access_of(broker, configure="^q$", read="^q$")
    refused(broker, WRITE, "t", lambda: access.require_change(queue, changes))
    access_of(broker, configure="^q$", read="^q$", write="^t$").require_change(queue, changes)


# ---------------------------------------------------------------------- who learns what


async def test_existence_is_told_to_those_with_permission_only(broker: Broker) -> None:
    queue_of(broker, "there")
    access = access_of(broker)
    for name in ("there", "missing"):
        refused(broker, READ, name, lambda name=name: access.queue_to_read(name))  # type: ignore[misc]
        refused(broker, "configure", name, lambda name=name: access.delete_queue(name, 1))  # type: ignore[misc]
        refused(broker, READ, name, lambda name=name: access.source(f"/exchanges/{name}/k", 1, create=False))  # type: ignore[misc]
        refused(broker, WRITE, name, lambda name=name: access.bind_queue(name, "amq.fanout", "", {}))  # type: ignore[misc]
    refused(broker, WRITE, "amq.default", lambda: access.target("missing", 1, create=False))
    refused(broker, WRITE, "nowhere", lambda: access.target("/exchanges/nowhere/k", 1))
    refused(broker, READ, "nowhere", lambda: access.source("/exchanges/nowhere/k", 1))


async def test_an_exclusive_queue_is_open_to_its_connection_only(broker: Broker) -> None:
    owner = object()
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    declare(access_of(broker, owner=owner, **rights), durable=False, exclusive=True)
    queue = broker.hosts["/"].queues["q"]
    for access in (
        access_of(broker, **rights),
        access_of(broker, owner=object(), **rights),
        Access(broker.authenticator, broker.catalogue, broker.hosts["/"], "guest", administrator=ADMINISTRATOR),
    ):
        works: list[Callable[[Access], Any]] = [
            declare,
            lambda access: access.delete_queue("q", 1),
            lambda access: access.purge_queue("q", 1),
            lambda access: access.bind_queue("q", "amq.fanout", "", {}),
            lambda access: access.look_at_queue("q"),
            lambda access: access.queue_to_read("q"),
            lambda access: access.queue_to_configure("q"),
            lambda access: access.require_change(queue, {}),
            lambda access: access.require_consumer(queue, ConsumerSettings()),
            lambda access: access.require_consumer(queue, ConsumerSettings(browse=BROWSE_FOLLOW)),
            lambda access: access.source("q", 1),
        ]
        for work in works:
            with pytest.raises(ResourceLocked):
                work(access)
        assert access.target("q", 1).exchange == ""  # all may send there: replies go to such queues
    assert not queue.deleted


async def test_an_administrator_needs_no_permission(broker: Broker) -> None:
    permit(broker, configure="", write="", read="")
    access = Access(broker.authenticator, broker.catalogue, broker.hosts["/"], "operator", administrator=ADMINISTRATOR)
    declare(access, arguments={"x-dead-letter-exchange": "t"})
    assert access.allowed(READ, "anything")


async def test_figures_take_no_permission(broker: Broker) -> None:
    queue_of(broker, "q")
    access = access_of(broker)
    assert access.look_at_queue("q").name == "q"
    access.look_at_exchange("amq.fanout", "fanout")
    with pytest.raises(NotFound):
        access.look_at_queue("none")


# ---------------------------------------------------------------------- names that come with their use


async def test_what_is_made_for_a_command_takes_what_the_command_does_with_it(broker: Broker) -> None:
    refused(broker, READ, "q", lambda: access_of(broker, configure="^q$").source("q", 1))
    refused(broker, "configure", "q", lambda: access_of(broker, read="^q$").source("q", 1))
    refused(broker, WRITE, "amq.default", lambda: access_of(broker, configure="^q$", write="^q$").target("q", 1))
    refused(broker, WRITE, "t", lambda: access_of(broker, configure="^t$", write="^amq").target("topic://t", 1))
    refused(broker, WRITE, "amq.default", lambda: declare(access_of(broker, configure="^q$", read="^q$"), then=WRITE))
    refused(broker, READ, "q", lambda: declare(access_of(broker, configure="^q$", write="^q$"), then=READ))
    assert access_of(broker, configure="^q$", read="^q$").source("q", 1).created
    assert access_of(broker, configure="^t$", write="^t$").target("topic://t", 1).created


async def test_names_of_management_are_not_there_for_any_user(broker: Broker) -> None:
    access = access_of(broker)
    for work in (access.source, access.target):
        with pytest.raises(NotFound):
            work("$management", 1)


async def test_a_reply_queue_takes_no_permission_and_is_the_connections(broker: Broker) -> None:
    owner = object()
    queue = access_of(broker, owner=owner).reply_queue(1)
    assert queue.owner is owner


async def test_a_subscription_takes_reading_and_for_a_name_configuring(broker: Broker) -> None:
    access = access_of(broker, read="^amq.fanout$")
    access.require_subscription("amq.fanout", "s", {}, named=False)
    refused(broker, "configure", "s", lambda: access.require_subscription("amq.fanout", "s", {}, named=True))
    refused(broker, READ, "amq.topic", lambda: access.require_subscription("amq.topic", "s", {}, named=False))
    arguments = {"x-dead-letter-address": "t"}
    access = access_of(broker, configure="^s$", read=".*")
    refused(broker, WRITE, "t", lambda: access.require_subscription("amq.fanout", "s", arguments, named=True))
    with pytest.raises(InvalidArgument):
        access.require_subscription("amq.fanout", "s", {"x-ring-size": "many"}, named=True)


async def test_a_subscription_is_bound_to_what_its_user_may_read(broker: Broker) -> None:
    access, queue = access_of(broker, configure=".*", write=".*"), queue_of(broker, "s")
    refused(broker, READ, "amq.fanout", lambda: access.bind_subscription(queue, "amq.fanout", "", {}))


async def test_a_dynamic_address_takes_writing(broker: Broker) -> None:
    refused(broker, WRITE, "t", lambda: access_of(broker, configure="^t$").declare_dynamic_address("t"))
    refused(broker, "configure", "t", lambda: access_of(broker, write="^t$").declare_dynamic_address("t"))
    assert access_of(broker, configure="^t$", write="^t$").declare_dynamic_address("t").name == "t"


# ---------------------------------------------------------------------- taking back


async def test_a_refused_command_leaves_nothing(broker: Broker) -> None:
    access = access_of(broker, records=True, configure=".*", write=".*", read=".*")
    before = names(broker)
    access.source("q", 1)
    access.target("topic://t", 1)
    declare(access, "r")
    queue = access.subscription_queue(
        "s", now=1, durable=True, arguments={}, exclusive=False, server_named=False, subscription=None
    )
    access.bind_subscription(queue, "t", "", {})
    access.declare_dynamic_address("dynamic")
    assert names(broker) != before
    access.take_back(2)
    assert names(broker) == before
    assert not access.made
    assert not broker.catalogue.queues("/")


async def test_what_was_there_and_what_is_kept_stays(broker: Broker) -> None:
    queue_of(broker, "q")
    access = access_of(broker, records=True, configure=".*", write=".*", read=".*")
    declare(access)
    access.source("q", 1)
    declare(access, "kept")
    access.keep()
    access.take_back(2)
    assert {"q", "kept"} <= set(broker.hosts["/"].queues)


async def test_without_records_nothing_is_remembered(broker: Broker) -> None:
    access = access_of(broker, configure=".*")
    declare(access)
    assert not access.made


async def test_what_had_its_time_ends_once(broker: Broker) -> None:
    host = broker.hosts["/"]
    queue, address = queue_of(broker, "q"), host.nodes.declare_address("a", durable=False)
    for _ in range(2):
        end_queue(host, queue, 1)
        end_address(host, address)
    assert queue.deleted
    assert "a" not in host.exchanges


async def test_an_ended_connection_is_let_go(broker: Broker) -> None:
    access = access_of(broker, owner=object(), records=True, configure=".*")
    declare(access)
    access.connection_ended()
    assert access.owner is None
    assert not access.made


def test_generated_names_differ_and_say_whose_they_are() -> None:
    assert len({generated_name() for _ in range(100)}) == 100
    assert generated_name().startswith(GENERATED)
    assert generated_name("amq.dynamic-").startswith("amq.dynamic-")


async def test_errors_of_the_core_come_after_the_permission(broker: Broker) -> None:
    access = access_of(broker, configure=".*", write=".*", read=".*")
    with pytest.raises(CoreError):
        declare(access, arguments={"x-ring-size": "many"})
    with pytest.raises(NotFound):
        access.source("/exchanges/nowhere/k", 1)
    with pytest.raises(InvalidArgument):
        access.source("", 1)
