"""The contents of the catalogue: plain records, one per row. Names are unique within their virtual host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.message.message import PropertyValue


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user; ``scram`` has the texts of verifiers with blanks between.

    ``password_hash`` is argon2's encoded form, or that of an imported hash (``broker/security/password_hashes.py``);
    empty for a user without a password. ``source``: :data:`OF_FILE` while the configuration file has the user.
    """

    name: str
    password_hash: str
    tags: tuple[str, ...] = ()
    scram: str = ""
    source: str = ""


OF_FILE: Final = "file"
"""The source of users that the configuration file has; that of all others, made at run time, is empty."""


@dataclass(frozen=True, slots=True)
class PermissionRecord:
    """The permissions of a user in a virtual host: regular expressions for names.

    ``browse`` and ``manage`` are beside RabbitMQ's three; empty they add nothing to ``read`` and ``configure``.
    """

    user: str
    virtual_host: str
    configure: str
    write: str
    read: str
    browse: str = ""
    manage: str = ""


@dataclass(frozen=True, slots=True)
class VirtualHostRecord:
    """A virtual host; ``deleting``: its deletion has begun, and goes on after a restart."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """A limit of a user or a virtual host (``kind``): the highest number of what ``limit`` names."""

    kind: str
    name: str
    limit: str
    value: int


USER: Final = "user"
VIRTUAL_HOST: Final = "vhost"
"""Kinds of :class:`LimitRecord`."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token of a user. Times are milliseconds since 1970; ``expires_at`` 0 for never.

    ``digest``: SHA-256 of its text, hexadecimal; ``scope``: JSON, see ``broker/security/tokens.py``.
    """

    user: str
    name: str
    digest: str
    scope: str
    created_at: int
    expires_at: int = 0


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """A durable exchange or address. ``auto_created``: the broker made it, and may take it away again."""

    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: dict[str, PropertyValue] = field(default_factory=dict)
    auto_created: bool = False


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A durable queue. ``id`` identifies it in the message log; it is never given to another queue.

    ``address``: the address whose settings apply, empty for its own name; ``auto_created`` as for exchanges.
    """

    id: int
    name: str
    auto_delete: bool
    arguments: dict[str, PropertyValue] = field(default_factory=dict)
    address: str = ""
    auto_created: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A durable queue that was made as a subscription. ``user`` is empty for one older than these records."""

    queue: str
    client: str
    name: str
    user: str


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A binding between durable ends; ``destination_type`` is ``queue`` or ``exchange``."""

    source: str
    destination_type: str
    destination: str
    routing_key: str
    arguments: dict[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease: a durable list of positions over one queue. Times are milliseconds since 1970."""

    name: str
    virtual_host: str
    queue_id: int
    generation: int  # fencing token: the latest one handed out
    created_at: int
    active_at: int
    acknowledged: int  # positions up to here are done
    last: int  # highest position given out
    owner: str  # the checkpoint it belongs to
    generated: bool = False  # the name was generated for a checkpoint
    user: str = ""  # that used it last; empty: none since an older version stored it


@dataclass(frozen=True, slots=True)
class LeaseRange:
    """Positions ``first`` to ``last`` of a lease; ``sequences`` holds one unsigned 64-bit number for each."""

    first: int
    last: int
    sequences: bytes


@dataclass(frozen=True, slots=True)
class QueueName:
    """A durable queue as the catalogue had it. ``arguments``: JSON, as :mod:`annulet.store.database.argument_json`
    writes it.
    """

    queue_id: int
    virtual_host: str
    name: str
    auto_delete: bool
    arguments: str
    address: str = ""
    auto_created: bool = False


@dataclass(slots=True)
class KnownQueues:
    """The queues in the message log by id, the ids of deleted ones, and the number of invalid lines."""

    queues: dict[int, QueueName] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    damaged: int = 0
