"""The refusals of the core. Each message names the object, the value and, if there is one, the remedy."""

from __future__ import annotations


class CoreError(Exception):
    """A request the core refuses. Nothing was changed. The protocols map the subclasses to their own codes."""


class NotFound(CoreError):
    """The named queue or exchange does not exist (AMQP 0-9-1: 404)."""


class PreconditionFailed(CoreError):
    """The object is not in the state required by the request (AMQP 0-9-1: 406)."""


class ContentUnavailable(PreconditionFailed):
    """A message's body is on disk only, and the disk does not give it: now, or because its record is damaged."""


class InvalidArgument(PreconditionFailed):
    """An argument is unknown, has the wrong type or an impossible value (RabbitMQ answers 406, so does this broker)."""


class AccessRefused(CoreError):
    """The object is reserved or in exclusive use (AMQP 0-9-1: 403)."""


class ResourceLocked(CoreError):
    """An exclusive queue belongs to another connection (AMQP 0-9-1: 405)."""


class LimitExceeded(CoreError):
    """A queue or address is full and refuses; none of the message's queues got it (Broker-J: all or nothing).

    AMQP 0-9-1: ``basic.nack`` where publishes are confirmed, else ``basic.return`` 506; AMQP 1.0: ``rejected`` with
    ``amqp:resource-limit-exceeded``.
    """


class RoutingTooLong(LimitExceeded):
    """The way of a message has more steps than it may take (:mod:`annulet.core.base.steps`); no queue has it."""


class TransactionRefused(CoreError):
    """A commit was refused as a whole: nothing was sent, nothing settled (AMQP 0-9-1: 406; AMQP 1.0: rollback)."""


class TransactionTooLarge(TransactionRefused):
    """A commit has more operations than one transaction may have."""
