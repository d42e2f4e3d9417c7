"""``/api/queues``: lists, one queue, declaring, deleting, purging, and actions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.consumers import describe as describe_consumer
from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import node_name, queue_type
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import bad_request
from annulet.admin.resources.queues import sorted_names
from annulet.broker.connections.transport import ClientConnection
from annulet.broker.operation.durable_changes import departure, durably
from annulet.broker.operation.inventory import consumers_of, number_of
from annulet.broker.operation.rates import COUNTERS, NAMES, read_queue
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

NAME: Final = frozenset({"name", "vhost"})
IDENTITY: Final = frozenset({"durable", "auto_delete", "exclusive", "node", "state"})

STOCK: Final = NAMES[len(COUNTERS) :]
"""Counts of messages that are there; the others of a sample are counters."""

FIELDS: Final = ("durable", "auto_delete", "arguments", "exclusive")


class QueueColumns:
    """The columns of queues of one broker, in parts that are computed together."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._now = broker.clock()
        self.listing: Listing[tuple[VirtualHost, Queue]] = Listing(
            (
                Part(NAME, self.name),
                Part(IDENTITY, self.identity),
                Part(frozenset({"idle_since"}), self.idle),
                Part(frozenset({"arguments", "type"}), self.arguments),
                Part(frozenset({"policy", "operator_policy", "effective_policy_definition"}), self.policy),
                Part(frozenset({"owner_pid_details"}), self.owner),
                Part(frozenset(STOCK), self.counts, statistic=True),
                Part(frozenset([f"{name}_details" for name in STOCK] + ["message_stats"]), self.rates, statistic=True),
                Part(frozenset({"consumers", "exclusive_consumer_tag"}), self.consumers, statistic=True),
                Part(
                    frozenset(
                        {
                            "message_bytes",
                            "message_bytes_ready",
                            "message_bytes_unacknowledged",
                            "messages_paged_out",
                            "messages_ram",
                        }
                    ),
                    self.sizes,
                    statistic=True,
                ),
            ),
            lambda row: row[1].name,
        )

    def name(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the name, alone: lists are often sorted by it."""
        return {"name": row[1].name, "vhost": row[0].name}

    def identity(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the properties of a declaration, and where the queue is."""
        queue = row[1]
        return {
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.owner is not None,
            "node": node_name(),
            "state": "paused" if queue.paused else "running",
        }

    def idle(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return when the queue was last declared, got from or given a consumer."""
        at = datetime.fromtimestamp(row[1].last_used_at / 1000, UTC)
        return {"idle_since": at.isoformat(timespec="milliseconds")}

    def arguments(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the arguments of the declaration."""
        host, queue = row
        declared = {} if queue.deleted else host.resolved_for(queue).arguments
        return {"arguments": json_object(declared), "type": queue_type(declared)}

    def policy(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the policy that applies."""
        host, queue = row
        policy = host.policies.match(queue.name)
        return {
            "policy": None if policy is None else policy.name,
            "operator_policy": None,
            "effective_policy_definition": {} if policy is None else json_object(policy.definition),
        }

    def owner(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the connection that an exclusive queue belongs to; nothing of others."""
        owner = row[1].owner
        if not isinstance(owner, ClientConnection):
            return {}
        details = {"name": owner.name, "peer_host": owner.peer.address, "peer_port": owner.peer.port}
        return {"owner_pid_details": details}

    def counts(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return how many messages there are, and in which state."""
        queue = row[1]
        ready = queue.shown_count() + queue.shown_scheduled()
        held = len(queue.delivering)
        return {"messages": ready + held, "messages_ready": ready, "messages_unacknowledged": held}

    def rates(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return the counters of messages, and the rates of these and of the counts."""
        host, queue = row
        sample = read_queue(queue, self._now)
        rates = self._broker.rates.since(host.name, queue, sample)
        details = {name: {"rate": round(rates[name], 3)} for name in NAMES}
        stats: dict[str, Any] = {}
        for name, value in zip(COUNTERS, sample[1:], strict=False):
            stats[name] = value
            stats[f"{name}_details"] = details[name]
        return {
            "messages_details": details["messages"],
            "messages_ready_details": details["messages_ready"],
            "messages_unacknowledged_details": details["messages_unacknowledged"],
            "message_stats": stats,
        }

    def consumers(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return how many consumers there are, and the tag of one that excludes others."""
        queue = row[1]
        tag = None
        if queue.takers == 1:
            tag = next((consumer.tag for consumer in queue.consumers if consumer.exclusive), None)
        return {"consumers": queue.consumers.count, "exclusive_consumer_tag": tag}

    def sizes(self, row: tuple[VirtualHost, Queue]) -> dict[str, Any]:
        """Return bytes of bodies, and how many messages are on disk only."""
        queue = row[1]
        ready = queue.shown_bytes() + queue.shown_scheduled_bytes()
        paged = queue.order.paged_count()
        return {
            "message_bytes": ready + queue.delivering_bytes,
            "message_bytes_ready": ready,
            "message_bytes_unacknowledged": queue.delivering_bytes,
            "messages_paged_out": paged,
            "messages_ram": queue.message_count() - paged,
        }


def counters_of(queue: Queue) -> dict[str, int]:
    """Return the counters of a queue with RabbitMQ's names."""
    counters = queue.counters
    values = (
        counters.messages_added,
        counters.messages_delivered,
        counters.removed[RemovalReason.ACKNOWLEDGED],
        counters.messages_returned,
    )
    return dict(zip(COUNTERS, values, strict=True))


async def list_queues(call: Call) -> Response:
    """Queues of the virtual hosts that the user sees, or of one, by name."""
    names = [(host, await sorted_names(host)) for host in call.hosts()]
    return await QueueColumns(call.broker).listing.answer(call, _rows(names))


def _rows(names: list[tuple[VirtualHost, list[str]]]) -> Iterator[tuple[VirtualHost, Queue]]:
    """Yield the queues by name; those that are deleted in the meantime are left out."""
    for host, listed in names:
        for name in listed:
            queue = host.queues.get(name)
            if queue is not None:
                yield host, queue


async def get_queue(call: Call) -> Response:
    """One queue, with its consumers."""
    host, queue = chosen_queue(call)
    details = (
        describe_consumer((session, number_of(session), consumer, host)) for session, consumer in consumers_of(queue)
    )
    return await QueueColumns(call.broker).listing.one_with(call, (host, queue), "consumer_details", details)


async def declare_queue(call: Call) -> Response:
    """Declare a queue with the rules and permissions of AMQP 0-9-1. 201 for a new one, 204 for one that is the same."""
    host, name = call.host(), call.names["name"]
    access = call.access(host)
    access.require("configure", name)
    fields = await read_fields(call, FIELDS)
    durable = fields.switch("durable", default=False)
    auto_delete = fields.switch("auto_delete", default=False)
    if fields.switch("exclusive", default=False):
        raise bad_request("exclusive", True, "give false: a request over HTTP has no connection to own the queue")
    arguments = fields.arguments()
    known = name in host.queues
    now = call.broker.clock()
    await durably(
        call.broker.definitions,
        lambda: access.declare_queue(name, now=now, durable=durable, auto_delete=auto_delete, arguments=arguments),
    )
    return Response(status_code=204 if known else 201)


async def delete_queue(call: Call) -> Response:
    """Delete a queue; ``if-unused`` and ``if-empty`` ask for that first."""
    host, name = call.host(), call.names["name"]
    access = call.access(host)
    access.require("configure", name)
    unused, empty = call.query.switch("if-unused"), call.query.switch("if-empty")
    _, queue = chosen_queue(call)
    now = call.broker.clock()
    await durably(call.broker.definitions, lambda: access.delete_queue(name, now, if_unused=unused, if_empty=empty))
    await departure(host, queue)
    return Response(status_code=204)


async def purge_queue(call: Call) -> Response:
    """Drop the pending messages of a queue."""
    host, name = call.host(), call.names["name"]
    access = call.access(host)
    access.require("read", name)
    chosen_queue(call)
    access.purge_queue(name, call.broker.clock())
    return Response(status_code=204)


async def act_on_queue(call: Call) -> Response:
    """``sync`` and ``cancel_sync`` of mirrors, of which there are none: nothing is to be done."""
    host, name = call.host(), call.names["name"]
    call.access(host).require("configure", name)
    chosen_queue(call)
    action = (await read_fields(call, ("action",))).text("action", remedy="give 'sync' or 'cancel_sync'")
    if action not in ("sync", "cancel_sync"):
        raise bad_request("action", action, "give 'sync' or 'cancel_sync'")
    return Response(status_code=204)


def chosen_queue(call: Call) -> tuple[VirtualHost, Queue]:
    """Return the queue that the path names, with its virtual host; 404 when there is none, or it is a reply queue."""
    host, name = call.host(), call.names["name"]
    queue = host.queues.get(name)
    if queue is None or is_reply_name(name):
        raise not_found("queue", name)
    return host, queue


ROUTES: Final = (
    Route("queues", {"GET": list_queues}),
    Route("queues/{vhost}", {"GET": list_queues}),
    Route("queues/{vhost}/{name}", {"GET": get_queue, "PUT": declare_queue, "DELETE": delete_queue}),
    Route("queues/{vhost}/{name}/contents", {"DELETE": purge_queue}),
    Route("queues/{vhost}/{name}/actions", {"POST": act_on_queue}),
)
