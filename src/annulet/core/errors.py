"""What the core refuses, and why. Each message names the object, the value and, where there is one, the remedy."""

from __future__ import annotations


class CoreError(Exception):
    """A request the core refuses. Nothing was changed. The protocols map the subclasses to their own codes."""


class NotFound(CoreError):
    """The named queue or exchange does not exist (AMQP 0-9-1: 404)."""


class PreconditionFailed(CoreError):
    """The object is not in the state the request asks for (AMQP 0-9-1: 406)."""


class InvalidArgument(PreconditionFailed):
    """An argument is unknown, has the wrong type or an impossible value (RabbitMQ answers 406, so does this broker)."""


class AccessRefused(CoreError):
    """The object is reserved or in exclusive use (AMQP 0-9-1: 403)."""


class ResourceLocked(CoreError):
    """An exclusive queue belongs to another connection (AMQP 0-9-1: 405)."""
