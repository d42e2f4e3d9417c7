"""The rules of RabbitMQ 4.3 for clients of AMQP 0-9-1: what it refuses and this broker would take.

Taken from the source of RabbitMQ 4.3.5: ``rabbit_channel.erl``, ``rabbit_amqqueue.erl``, ``rabbit_queue_type_util.erl``
and the ``capabilities`` of ``rabbit_classic_queue.erl`` and ``rabbit_quorum_queue.erl``; ``docs/testing.md`` lists the
rules with the place of each. Reply codes are RabbitMQ's, and so are the first words of the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.broker.connections.dialect import ALL, Dialect
from annulet.core.configuration.arguments.values import shown
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.connections.dialect import QueueDeclaration
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"

_BOTH: Final = frozenset(
    {
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-expires", "x-max-length", "x-max-length-bytes",
        "x-message-ttl", "x-overflow", "x-queue-leader-locator", "x-queue-type", "x-single-active-consumer",
    }
)  # fmt: skip

QUEUE_ARGUMENTS: Final = {
    CLASSIC: _BOTH | {"x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version"},
    QUORUM: _BOTH
    | {
        "x-consumer-disconnected-timeout", "x-consumer-timeout", "x-dead-letter-strategy", "x-delayed-retry-max",
        "x-delayed-retry-min", "x-delayed-retry-type", "x-delivery-limit", "x-max-in-memory-bytes",
        "x-max-in-memory-length", "x-quorum-initial-group-size",
    },
    "stream": frozenset(
        {
            "x-initial-cluster-size", "x-max-age", "x-max-length-bytes", "x-queue-leader-locator", "x-queue-type",
            "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
        }
    ),
}  # fmt: skip
"""The arguments that a type of queue knows. One that only another type knows is refused, one that none knows is not."""

CONSUMER_ARGUMENTS: Final = {
    CLASSIC: frozenset({"x-priority"}),
    QUORUM: frozenset({"x-priority", "x-consumer-timeout"}),
    "stream": frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"}),
}
"""The same of consumers."""

EXCHANGE_TYPES: Final = frozenset({"direct", "fanout", "headers", "topic"})
"""Exchange types without plugins. That of ``x-delayed-message`` kept its messages in Mnesia, which 4.3 removed."""

OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders", "min-masters")


def _queue_type(arguments: Arguments) -> str:
    """Return the type of a queue; without one it is classic."""
    return str(arguments.get("x-queue-type", CLASSIC))


def _unknown_here(given: Arguments, known: dict[str, frozenset[str]], queue_type: str) -> list[str]:
    """Return the given arguments that only other types know."""
    everywhere = frozenset().union(*known.values())
    return [name for name in given if name in everywhere and name not in known.get(queue_type, everywhere)]


def _refuse(text: str) -> ChannelError:
    return ChannelError(constants.PRECONDITION_FAILED, text)


class RabbitMQ43(Dialect):
    """The rules of RabbitMQ 4.3 with the settings it is installed with."""

    def exchange(self, name: str, type_name: str) -> None:
        """Refuse types that it has not."""
        if type_name not in EXCHANGE_TYPES:
            known = ", ".join(sorted(EXCHANGE_TYPES))
            raise _refuse(f"unknown exchange type '{type_name}' of exchange '{name}'; RabbitMQ 4.3 has {known}")

    def queue(self, declared: QueueDeclaration) -> None:
        """Refuse arguments of other types of queue, wrong values, and what 4.3 removed."""
        arguments = declared.arguments
        queue_type = _queue_type(arguments)
        of_queue = f"for queue '{declared.name}' in vhost '{declared.vhost}'"
        if queue_type == QUORUM and not declared.name:
            raise _refuse("Cannot declare a server-named queue for type quorum; give the queue a name")
        for name, reason in _wrong_values(arguments):
            raise _refuse(f"invalid arg '{name}' {of_queue}: {reason}")
        for name in _unknown_here(arguments, QUEUE_ARGUMENTS, queue_type):
            raise _refuse(f"invalid arg '{name}' {of_queue} of queue type {queue_type}; leave it out")
        if not declared.durable and not declared.exclusive:
            raise ConnectionFault(
                constants.INTERNAL_ERROR,
                "Feature `transient_nonexcl_queues` is deprecated. By default, this feature is not permitted anymore: "
                f"declare queue '{declared.name}' durable or exclusive",
            )
        if queue_type == QUORUM:
            _refuse_quorum_flags(declared, of_queue)
        elif "x-queue-master-locator" in arguments:
            raise ConnectionFault(
                constants.INTERNAL_ERROR,
                "Feature `queue_master_locator` is deprecated. By default, this feature is not permitted anymore: "
                "give 'x-queue-leader-locator'",
            )

    def deletion(self, host: VirtualHost, name: str, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse conditions for quorum queues."""
        queue = host.queues.get(name)
        if queue is None or _queue_type(host.resolved_for(queue).arguments) != QUORUM:
            return
        for flag, given in (("if-unused", if_unused), ("if-empty", if_empty)):
            if given:
                raise ConnectionFault(
                    constants.NOT_IMPLEMENTED,
                    f"cannot delete queue '{name}' in vhost '{host.name}'. queue.delete operations with {flag} flag "
                    "set are not supported by quorum queues",
                )

    def get(self, host: VirtualHost, queue: Queue) -> None:
        """Refuse to read single messages from a quorum queue with a single active consumer."""
        if queue.settings.single_active_consumer and _queue_type(host.resolved_for(queue).arguments) == QUORUM:
            raise ChannelError(
                constants.RESOURCE_LOCKED,
                f"cannot obtain access to locked queue '{queue.name}' in vhost '{host.name}'. basic.get operations are "
                "not supported by quorum queues with single active consumer",
            )

    def consumer(self, host: VirtualHost, queue: Queue, arguments: Arguments) -> None:
        """Refuse arguments of consumers of other types of queue."""
        queue_type = _queue_type(host.resolved_for(queue).arguments)
        for name in _unknown_here(arguments, CONSUMER_ARGUMENTS, queue_type):
            raise _refuse(
                f"invalid arg '{name}' for queue '{queue.name}' in vhost '{host.name}' of queue type {queue_type}"
            )

    def shares_prefetch(self, size: int, *, shared: bool) -> bool:
        """Refuse a window in bytes, and read ``global`` as not given: 4.3 does so without an error."""
        del shared
        if size:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, f"prefetch_size!=0 ({size})")
        return False


def _refuse_quorum_flags(declared: QueueDeclaration, of_queue: str) -> None:
    """Refuse flags that a quorum queue cannot have."""
    for flag, given in (
        ("auto-delete", declared.auto_delete),
        ("exclusive-owner", declared.exclusive),
        ("non-durable", not declared.durable),
    ):
        if given:
            raise _refuse(f"invalid property '{flag}' {of_queue}; quorum queues are durable and shared")


def _wrong_values(arguments: Arguments) -> list[tuple[str, str]]:
    """Return the arguments whose values RabbitMQ refuses and this broker may take, with the reasons."""
    wrong = []
    version = arguments.get("x-queue-version", 2)
    if version != 2:
        wrong.append(("x-queue-version", f"unsupported queue version {shown(version)}; leave it out"))
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        wrong.append(("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined; give 'x-dead-letter-exchange'"))
    for name, known in (("x-overflow", OVERFLOWS), ("x-queue-leader-locator", LEADER_LOCATORS)):
        value = arguments.get(name, known[0])
        if value not in known:
            wrong.append((name, f"{shown(value)} is none of {', '.join(known)}"))
    return wrong


DIALECTS: Final[dict[str, Dialect]] = {"rabbitmq-4.3": RabbitMQ43()}
"""The rules by the value of ``strict``."""


def dialect_of(strict: str | None) -> Dialect:
    """Return the rules that a test asks for. Raises ``ValueError`` for a name that there is none of."""
    if strict is None:
        return ALL
    if strict not in DIALECTS:
        raise ValueError(
            f"strict={strict!r} is none of {', '.join(DIALECTS)}; leave it out for all that Annulet can do"
        )
    return DIALECTS[strict]
