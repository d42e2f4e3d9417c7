"""The one table of permissions: each operation, what it takes on which name, and the protocols that have it.

``test_permission_matrix.py`` runs every row over every protocol as every role, and compares ``docs/security.md`` with
:func:`document`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CONFIGURE, WRITE, READ, BROWSE, MANAGE = KINDS = ("configure", "write", "read", "browse", "manage")
IMPLIED_BY: Final = {BROWSE: READ, MANAGE: CONFIGURE}

AMQP_0, AMQP_1, ANONYMOUS_TERMINUS, STOMP, HTTP, RABBITMQ_HTTP, BULK = (
    "AMQP 0-9-1",
    "AMQP 1.0",
    "AMQP 1.0, anonymous terminus",
    "STOMP",
    "HTTP",
    "RabbitMQ's API",
    "bulk",
)
SENDERS: Final = (AMQP_1, ANONYMOUS_TERMINUS, STOMP)

ALLOWED: Final = "allowed"
REFUSED: Final = "refused"  # for want of a permission, or of a tag
NO_ENTRY: Final = "no entry"  # the virtual host cannot be opened, or is not there
LOCKED: Final = "locked"  # an exclusive queue of another connection

NAMES: Final = {
    "queue": "queue{number}",
    "exchange": "exchange{number}",
    "destination": "destination{number}",
    "address": "address{number}",
    "target": "target{number}",
    "new name": "new{number}",
    "`amq.default`": "amq.default",
    "generated name": r"(amq\.gen|amq\.dynamic|dynamic)-[\w-]+",
    "subscription": "client.subscription{number}",
}
"""Expression of each name of the table, for the case of this number."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A row. ``needs``: permission and name; ``changes``: over HTTP a user tagged ``monitoring`` may not."""

    identifier: str
    text: str
    needs: tuple[tuple[str, str], ...]
    protocols: tuple[str, ...]
    changes: bool = True
    for_administrators: bool = False  # over HTTP no permission is enough

    def pattern(self, kind: str, number: int, without: tuple[str, str] | None = None) -> str:
        """Return the expression that gives exactly what is needed of a kind; empty for nothing."""
        needs = [need for need in self.needs if need[0] == kind and need != without]
        names = [NAMES[name].format(number=number) for _, name in needs]
        return f"^({'|'.join(names)})$" if names else ""


OPERATIONS: Final = (
    Operation("declare_queue", "declare a queue", ((CONFIGURE, "new name"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation(
        "declare_queue_with_target",
        "declare a queue with a dead-letter, expiry or dropped target",
        ((CONFIGURE, "new name"), (READ, "new name"), (WRITE, "target")),
        (AMQP_0, RABBITMQ_HTTP),
    ),
    Operation("await_replies", "consume answers from `amq.rabbitmq.reply-to`", (), (AMQP_0,)),
    Operation(
        "declare_generated", "declare a queue that the broker names", ((CONFIGURE, "generated name"),), (AMQP_0,)
    ),
    Operation("delete_queue", "delete a queue", ((CONFIGURE, "queue"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation("purge_queue", "purge a queue", ((READ, "queue"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation("bind_queue", "bind a queue, unbind it", ((WRITE, "queue"), (READ, "exchange")), (AMQP_0, RABBITMQ_HTTP)),
    Operation("unbind_queue", "", ((WRITE, "queue"), (READ, "exchange")), (AMQP_0, RABBITMQ_HTTP)),
    Operation("declare_exchange", "declare an exchange", ((CONFIGURE, "new name"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation(
        "declare_exchange_with_target",
        "declare an exchange with an alternate exchange",
        ((CONFIGURE, "new name"), (READ, "new name"), (WRITE, "target")),
        (AMQP_0, RABBITMQ_HTTP),
    ),
    Operation("delete_exchange", "delete an exchange", ((CONFIGURE, "exchange"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation(
        "bind_exchange",
        "bind an exchange to an exchange, unbind it",
        ((WRITE, "destination"), (READ, "exchange")),
        (AMQP_0, RABBITMQ_HTTP),
    ),
    Operation("unbind_exchange", "", ((WRITE, "destination"), (READ, "exchange")), (AMQP_0, RABBITMQ_HTTP)),
    Operation(
        "look_at_queue", "declare passively; see figures of a queue", (), (AMQP_0, HTTP, RABBITMQ_HTTP), changes=False
    ),
    Operation(
        "publish", "publish to an exchange or address", ((WRITE, "exchange"),), (AMQP_0, *SENDERS, RABBITMQ_HTTP, BULK)
    ),
    Operation(
        "publish_to_queue",
        "publish to a queue by its name",
        ((WRITE, "`amq.default`"),),
        (AMQP_0, *SENDERS, RABBITMQ_HTTP, BULK),
    ),
    Operation("consume", "consume from a queue", ((READ, "queue"),), (AMQP_0, AMQP_1, STOMP, BULK)),
    Operation("get", "get a message", ((READ, "queue"),), (AMQP_0, RABBITMQ_HTTP)),
    Operation("browse", "browse a queue", ((READ, "queue"),), (AMQP_0, AMQP_1, STOMP, BULK), changes=False),
    Operation("look", "look at messages of a queue", ((BROWSE, "queue"),), (HTTP,), changes=False),
    Operation("queue_status", "ask for a queue's depth and positions", ((READ, "queue"),), (BULK,)),
    Operation("lease_status", "see or end a lease of a queue", ((READ, "queue"),), (BULK,)),
    Operation(
        "make_by_consuming",
        "consume from a name that is not there, which makes a queue",
        ((CONFIGURE, "new name"), (READ, "new name")),
        (AMQP_1, STOMP),
    ),
    Operation(
        "make_by_sending",
        "send to a name that is not there, which makes a queue",
        ((CONFIGURE, "new name"), (WRITE, "`amq.default`")),
        SENDERS,
    ),
    Operation(
        "make_topic_by_sending",
        "send to a topic that is not there, which makes an address",
        ((CONFIGURE, "new name"), (WRITE, "new name")),
        SENDERS,
    ),
    Operation(
        "make_topic_by_subscribing",
        "subscribe to a topic that is not there, which makes an address",
        ((CONFIGURE, "new name"), (READ, "new name")),
        (AMQP_1, STOMP),
    ),
    Operation(
        "declare_by_consuming",
        "SUBSCRIBE with queue arguments in its headers, a target among them",
        ((CONFIGURE, "new name"), (READ, "new name"), (WRITE, "target")),
        (STOMP,),
    ),
    Operation(
        "declare_by_sending",
        "SEND with queue arguments in its headers, a target among them",
        ((CONFIGURE, "new name"), (READ, "new name"), (WRITE, "`amq.default`"), (WRITE, "target")),
        (STOMP,),
    ),
    Operation("subscribe", "subscribe to an exchange or address", ((READ, "address"),), (AMQP_1, STOMP)),
    Operation(
        "subscribe_durably",
        "make or continue a durable subscription",
        ((READ, "address"), (CONFIGURE, "subscription")),
        (AMQP_1, STOMP),
    ),
    Operation(
        "subscribe_durably_with_target",
        "make a durable subscription with a target",
        ((READ, "address"), (CONFIGURE, "subscription"), (READ, "subscription"), (WRITE, "target")),
        (STOMP,),
    ),
    Operation(
        "temporary_queue",
        "make a dynamic node or temporary queue to read from",
        ((CONFIGURE, "generated name"), (READ, "generated name")),
        (AMQP_1, STOMP),
    ),
    Operation(
        "dynamic_queue_to_send_to",
        "make a dynamic node to send to",
        ((CONFIGURE, "generated name"), (WRITE, "`amq.default`")),
        (AMQP_1,),
    ),
    Operation(
        "dynamic_topic_to_send_to",
        "make a dynamic topic to send to",
        ((CONFIGURE, "generated name"), (WRITE, "generated name")),
        (AMQP_1,),
    ),
    Operation(
        "temporary_queue_with_target",
        "make a dynamic node with a target",
        ((CONFIGURE, "generated name"), (READ, "generated name"), (WRITE, "target")),
        (AMQP_1,),
    ),
    Operation(
        "reply_address",
        "SEND with a temporary queue as `reply-to`",
        ((WRITE, "exchange"), (CONFIGURE, "generated name"), (READ, "generated name")),
        (STOMP,),
    ),
    Operation("why_not", "ask why consumers get nothing", ((READ, "queue"),), (HTTP,), changes=False),
    Operation("losses", "see records of losses of a queue", ((READ, "queue"),), (HTTP,), changes=False),
    Operation("change_settings", "change settings of a queue", ((CONFIGURE, "queue"),), (HTTP,)),
    Operation(
        "change_target",
        "give a queue another target",
        ((CONFIGURE, "queue"), (READ, "queue"), (WRITE, "target")),
        (HTTP,),
    ),
    Operation("pause", "pause, resume, end groups of a queue", ((MANAGE, "queue"),), (HTTP,)),
    Operation(
        "operate",
        "purge a queue, delete, expire, dead-letter or change its messages",
        ((MANAGE, "queue"),),
        (HTTP,),
    ),
    Operation(
        "operate_by_content",
        "the same on messages selected by selector, text, key or routing key, and its preview",
        ((MANAGE, "queue"), (BROWSE, "queue")),
        (HTTP,),
    ),
    Operation("preview_by_content", "", ((MANAGE, "queue"), (BROWSE, "queue")), (HTTP,)),
    Operation(
        "copy",
        "move or copy messages of a queue",
        ((MANAGE, "queue"), (BROWSE, "queue"), (WRITE, "target")),
        (HTTP,),
    ),
    Operation("set_policy", "set policies and address settings", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation(
        "see_users",
        "see users, permissions, limits of users",
        (),
        (HTTP, RABBITMQ_HTTP),
        changes=False,
        for_administrators=True,
    ),
    Operation("put_user", "make, change, delete users", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation("delete_user", "", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation(
        "put_permission",
        "give permissions, take them away, set limits",
        (),
        (HTTP, RABBITMQ_HTTP),
        for_administrators=True,
    ),
    Operation("delete_permission", "", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation("put_limit", "", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation("put_host", "make, delete virtual hosts", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation("delete_host", "", (), (HTTP, RABBITMQ_HTTP), for_administrators=True),
    Operation("make_token", "make, revoke tokens of others", (), (HTTP,), for_administrators=True),
    Operation("delete_token", "", (), (HTTP,), for_administrators=True),
)


@dataclass(frozen=True, slots=True)
class Role:
    """A user. ``entry``: the permissions of :data:`KINDS` for the virtual host, ``None`` for no entry."""

    name: str
    tag: str
    entry: tuple[str, str, str, str, str] | None


ROLES: Final = (
    Role("no-entry", "management", None),
    Role("nothing", "management", ("", "", "", "", "")),
    Role("read-only", "management", ("", "", ".*", "", "")),
    Role("write-only", "management", ("", ".*", "", "", "")),
    Role("configure-only", "management", (".*", "", "", "", "")),
    Role("browse-only", "management", ("", "", "", ".*", "")),
    Role("manage-only", "management", ("", "", "", "", ".*")),
    Role("all", "management", (".*", ".*", ".*", "", "")),
    Role("administrator", "administrator", None),
    Role("monitoring", "monitoring", None),
)

EXACT: Final = Role("exact", "management", ("", "", "", "", ""))
"""What it may is set for each case."""


def expected(operation: Operation, protocol: str, role: Role) -> str:
    """Return what the table says of an operation over a protocol as a role."""
    if protocol in {HTTP, RABBITMQ_HTTP}:
        if role.tag == "administrator":
            return ALLOWED
        if role.tag == "monitoring" and (operation.changes or operation.needs or operation.for_administrators):
            return REFUSED
        if role.tag == "monitoring":
            return ALLOWED
        if role.entry is None:
            return REFUSED if operation.for_administrators else NO_ENTRY
        if operation.for_administrators:
            return REFUSED
    if role.entry is None:
        return NO_ENTRY
    kinds = dict(zip(KINDS, role.entry, strict=True))
    allowed = all(
        re.search(kinds[kind] or kinds[IMPLIED_BY.get(kind, kind)] or "^$", name) for kind, name in operation.needs
    )
    return ALLOWED if allowed else REFUSED


def document() -> str:
    """Return the table as the page of documentation has it."""
    lines = ["| operation | takes | over |", "| --- | --- | --- |"]
    for operation in OPERATIONS:
        if not operation.text:
            continue
        takes = ", ".join(f"`{kind}` {name}" for kind, name in operation.needs)
        if not takes:
            takes = "the tag `administrator`" if operation.for_administrators else "an entry"
        over = ", ".join(protocol for protocol in operation.protocols if protocol != ANONYMOUS_TERMINUS)
        lines.append(f"| {operation.text} | {takes} | {over} |")
    return "\n".join(lines)
