"""``GET /api/v1/queues``, ``GET /api/v1/queues/{vhost}/{name}`` and ``PATCH``, which changes its settings."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.interface.call import QUEUE
from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.bodies import OBJECT, SWITCH, arguments_of
from annulet.admin.requests.columns import Part
from annulet.admin.requests.paths import decode_segment
from annulet.admin.requests.responses import ResourceError, bad_request, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.observing.node_log import CHANGE_QUEUE
from annulet.broker.operation.durable_changes import durably
from annulet.broker.operation.queue_removal import DELETE_QUEUE, QueueRemoval, describe_keeper
from annulet.core.base.removal_reasons import LOSSES
from annulet.core.base.reply_names import is_reply_name
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments import describe
from annulet.core.queue.statistics import QueueStatistics, lag_of
from annulet.residency.bodies.memory_figures import residence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

SLICE_NAMES: Final = 1000
"""Names that are sorted or searched before other tasks get a turn: less than 1 ms."""

STATES: Final = ("running", "paused", "blocked")
KINDS: Final = ("fifo", "ring", "last-value", "priorities", "sorted", "groups", "fair", "limited")

NAMED_MAX: Final = 100
"""Queues that a list may be asked for by name: as many as a screen shows."""

FILTERS: Final = (
    Value("only", "these queues, as VHOST/NAME with commas between, each name percent-encoded; a list reads no other"),
    Value("state", f"one of {', '.join(STATES)}", choices=STATES),
    Value("kind", f"one of {', '.join(KINDS)}: what the settings of the queue ask for", choices=KINDS),
    Value("nonempty", "true for queues with messages only", SWITCH, default=False),
)

Row: TypeAlias = "tuple[VirtualHost, Queue]"

# dataclasses.asdict copies every value deeply, which made up most of a listing's time
STATISTIC_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueStatistics))
SETTING_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueSettings))
LOSS_NAMES: Final = tuple(sorted(reason.value for reason in LOSSES))


async def list_queues(call: Call) -> Response:
    """A page of queues, by virtual host and name if no other order is asked for.

    Reply queues of direct reply-to are in no list: with the name of one, others could answer in place of the server.
    """
    named = call.parameters.get("only")
    rows = _rows(call.hosts()) if named is None else _named(call.hosts(), named)
    return await LISTING.answer(call, rows, wanted=_filter(call.parameters))


def _named(hosts: list[VirtualHost], text: str) -> list[Row]:
    """Return the queues of a list of names that are there; 400 for a list that is too long or is none."""
    visible, parts = {host.name: host for host in hosts}, text.split(",", NAMED_MAX)
    if len(parts) > NAMED_MAX:
        raise ResourceError(400, f"query parameter 'only' has more than {NAMED_MAX} queues; ask for a page instead")
    rows = {}
    for part in parts:
        vhost, slash, name = (decode_segment("only", each) for each in part.partition("/"))
        if not slash or "/" in part.partition("/")[2]:
            raise bad_request("only", part, "give VHOST/NAME, each percent-encoded")
        queue = visible[vhost].queues.get(name) if vhost in visible else None
        if queue is not None and not is_reply_name(name):
            rows[queue] = visible[vhost], queue
    return list(rows.values())


def _filter(given: dict[str, Any]) -> Callable[[Row], bool] | None:
    """Return what the parameters ask of a queue besides its name; ``None`` when they ask nothing."""
    state, kind, nonempty = given.get("state"), given.get("kind"), given["nonempty"]
    if state is None and kind is None and not nonempty:
        return None

    def passes(row: Row) -> bool:
        queue = row[1]
        return (
            (state is None or state_of(queue) == state)
            and (kind is None or kind in kinds_of(queue.settings))
            and (not nonempty or queue.message_count() > 0)
        )

    return passes


def state_of(queue: Queue) -> str:
    """Return the state of a queue as one word of :data:`STATES`."""
    if queue.paused:
        return "paused"
    return "blocked" if queue.blocked else "running"


def kinds_of(settings: QueueSettings) -> list[str]:
    """Return the words of :data:`KINDS` for the settings of a queue; ``fifo`` when no other one fits."""
    found = {
        "ring": settings.ring_size >= 0,
        "last-value": settings.last_value_key != "",
        "priorities": settings.priorities > 0 or settings.max_priority > 0,
        "sorted": settings.sort_key != "",
        "groups": settings.group_mode not in {"", "off"},
        "fair": settings.fair_key != "",
        "limited": settings.max_length >= 0 or settings.max_bytes >= 0,
    }
    return [kind for kind, fits in found.items() if fits] or ["fifo"]


def _rows(hosts: list[VirtualHost]) -> Iterator[Row]:
    for host in hosts:
        for queue in list(host.queues.values()):
            if not (queue.deleted or is_reply_name(queue.name)):
                yield host, queue


async def sorted_names(host: VirtualHost) -> list[str]:
    """Return the names of the queues that may be listed. Other tasks get turns: 100,000 names take 50 ms to sort."""
    names = list(host.queues)
    listed: list[str] = []
    for first in range(0, len(names), SLICE_NAMES):
        listed += sorted([name for name in names[first : first + SLICE_NAMES] if not is_reply_name(name)])
        await asyncio.sleep(0)
    listed.sort()  # which only merges sorted parts
    return listed


async def get_queue(call: Call) -> Response:
    """One queue; 404 when it does not exist or is not visible to the user."""
    host, queue, broker = call.host(), call.queue(), call.broker
    more = {
        "body_bytes_in_memory": residence_of(
            queue, None if broker.pager is None else broker.pager.budget.front_of(queue)
        ).as_dict(),
        "lag_milliseconds": lag_of(queue, call.now),
        "lease_statistics": broker.leases.of_queue(queue),
    }
    return json_response({**describe_queue(host, queue), **more})


async def put_queue(call: Call) -> Response:
    """Create a queue: 201; or check that the one that is there is the same: 200."""
    host, name, given, now = call.host(), call.names[QUEUE], call.fields, call.now
    arguments = arguments_of("argument", given.get("arguments", {}))
    access, known = call.access(host), name in host.queues
    queue = await durably(
        call.broker.definitions,
        lambda: access.declare_queue(
            name,
            now=now,
            durable=given.get("durable", True),
            auto_delete=given.get("auto_delete", False),
            arguments=arguments,
        ),
    )
    if not known:
        audit(host, call.user, "create-queue", name, given, now)
    return json_response(describe_queue(host, queue), 200 if known else 201)


async def delete_queue(call: Call) -> Response:
    """Delete a queue with its messages, and answer how many there were, and how that can be undone."""
    host, queue, given, now = call.host(), call.queue_to_configure(), call.parameters, call.now
    messages = queue.message_count()
    keeper = await QueueRemoval(call.broker, call.access(host), call.user.name).remove(
        queue, if_unused=given["if_unused"], if_empty=given["if_empty"], undo=given["undo"]
    )
    undo = describe_keeper(keeper)
    kept = {} if keeper is None else {"undo": keeper.token}
    audit(host, call.user, DELETE_QUEUE, queue.name, {"messages": messages, **kept}, now)
    return json_response({"vhost": host.name, "name": queue.name, "deleted": True, "messages": messages, "undo": undo})


async def change_queue(call: Call) -> Response:
    """Change ``settings`` of an existing queue, by the names of its arguments; unchangeable ones are refused (400).

    Answers with the queue, and with ``durable_change``: whether the change outlives the broker.
    """
    host, queue = call.host(), call.queue_to_configure()
    changes = arguments_of("setting", call.fields["settings"])
    call.access().require_change(queue, changes)
    durable = call.broker.operator_settings.change_queue(host, queue, changes, call.now)
    audit(host, call.user, CHANGE_QUEUE, queue.name, changes, call.now)
    return json_response({**describe_queue(host, queue), "durable_change": durable})


def describe_queue(host: VirtualHost, queue: Queue) -> dict[str, Any]:
    """Return a queue's JSON: its properties, settings and their sources, RabbitMQ's four counts, all our counters."""
    return LISTING.item((host, queue))


def _name(row: Row) -> dict[str, Any]:
    return {"vhost": row[0].name, "name": row[1].name}


def _identity(row: Row) -> dict[str, Any]:
    queue = row[1]
    return {
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "paused": queue.paused,
        "blocked": queue.blocked,
        "leases": sorted(name for _, name in queue.leases),
    }


def _settings(row: Row) -> dict[str, Any]:
    host, queue = row
    return {
        "arguments": describe(queue.settings),
        "settings": {name: getattr(queue.settings, name) for name in SETTING_NAMES},
        "settings_from": queue.origins,
        "arguments_without_effect": [] if queue.deleted else list(host.resolved_for(queue).without_effect),
    }


def _counts(row: Row) -> dict[str, Any]:
    """Return the figures that listings are sorted by, without the others, which take five times as long."""
    queue = row[1]
    copies = queue.copies if queue.settings.non_destructive else None
    return {
        "messages": queue.message_count(),
        "messages_ready": queue.shown_count(),
        "messages_unacknowledged": len(queue.delivering) if copies is None else len(copies.out),
        "consumers": queue.consumers.count,
    }


def _figures(row: Row) -> dict[str, Any]:
    statistics = row[1].statistics()
    return {
        **{name: getattr(statistics, name) for name in STATISTIC_NAMES},
        "losses": {name: statistics.removed[name] for name in LOSS_NAMES if name in statistics.removed},
        "unaccounted": unaccounted(statistics),
    }


def _key(row: Row) -> tuple[str, str]:
    return row[0].name, row[1].name


def _name_of(row: Row) -> str:
    return row[1].name


LISTING: Final[Listing[Row]] = Listing(
    (
        Part(frozenset({"vhost", "name"}), _name),
        Part(frozenset({"durable", "auto_delete", "exclusive", "paused", "blocked", "leases"}), _identity),
        Part(frozenset({"arguments", "settings", "settings_from", "arguments_without_effect"}), _settings),
        Part(frozenset({"messages", "messages_ready", "messages_unacknowledged", "consumers"}), _counts),
        Part(frozenset({"losses", "unaccounted"}) | (frozenset(STATISTIC_NAMES) - {"name"}), _figures),
    ),
    _key,
    (str, str),
    _name_of,
)


def unaccounted(statistics: QueueStatistics) -> int:
    """Messages that were added but are neither there nor removed for a reason: 0, or the broker has a defect."""
    return statistics.messages_added - statistics.message_count - sum(statistics.removed.values())


def _revision(call: Call) -> Any:
    """Return the definition of a queue; ``None`` when there is none, and for reply queues."""
    host, name = call.host(), call.names[QUEUE]
    queue = host.queues.get(name)
    return None if queue is None or is_reply_name(name) else definition_of(queue)


def definition_of(queue: Queue) -> dict[str, Any]:
    """Return the definition of a queue: its properties and settings."""
    return {
        "queue_id": queue.queue_id,  # another queue of this name is no earlier state
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": describe(queue.settings),
        "settings_from": queue.origins,
        "paused": queue.paused,
    }


QUEUE_SCHEMA: Final = object_of(
    vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, durable=SWITCH_SCHEMA, messages=COUNT, messages_ready=COUNT, consumers=COUNT
)

RESOURCES: Final = (
    Resource(
        "queues",
        "queues",
        (
            Operation(
                "GET",
                "list_queues",
                "Queues by virtual host and name.",
                list_queues,
                parameters=(*LIST_PARAMETERS, VHOST, *FILTERS),
                answers={200: Answer("A page of queues.", page_of(QUEUE_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}",
        "queues",
        (
            Operation(
                "GET",
                "get_queue",
                "One queue with its settings and figures.",
                get_queue,
                answers={200: Answer("The queue.", QUEUE_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_queue",
                "Create a queue, or check that it is the same.",
                put_queue,
                needs=(Need("configure", QUEUE),),
                body=Fields(
                    (
                        Value("durable", "false for a queue that ends with the broker", SWITCH, default=True),
                        Value("auto_delete", "true to delete it after its last consumer", SWITCH, default=False),
                        Value("arguments", "an object of queue arguments", OBJECT, example={"ring-size": 100}),
                    )
                ),
                answers={200: Answer("The queue is the same.", QUEUE_SCHEMA), 201: Answer("The queue.", QUEUE_SCHEMA)},
                further="for arguments that name a target: read on the queue and write on the target",
            ),
            Operation(
                "DELETE",
                "delete_queue",
                "Delete a queue with its messages.",
                delete_queue,
                needs=(Need("configure", QUEUE),),
                parameters=(
                    Value("if_unused", "true to refuse it while there are consumers", SWITCH, default=False),
                    Value("if_empty", "true to refuse it while there are messages", SWITCH, default=False),
                    Value("undo", "false to keep nothing for an undo", SWITCH, default=True),
                ),
                answers={200: Answer("The queue is deleted.", object_of(name=TEXT_SCHEMA, messages=COUNT))},
            ),
            Operation(
                "PATCH",
                "change_queue",
                "Change settings of a queue.",
                change_queue,
                needs=(Need("configure", QUEUE),),
                body=Fields(
                    (
                        Value(
                            "settings",
                            "an object of arguments such as {'ring-size': 100}",
                            OBJECT,
                            required=True,
                            example={"ring-size": 100},
                        ),
                    )
                ),
                answers={200: Answer("The changed queue.", QUEUE_SCHEMA)},
                further="for settings that name a target: read on the queue and write on the target",
            ),
        ),
        _revision,
    ),
)
