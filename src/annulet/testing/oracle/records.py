"""The records of the oracle: messages, deliveries, sessions and consumers, without rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from annulet.core.base.settings import BROWSE_OFF, UNLIMITED
from annulet.core.message.message import PropertyValue

ARRIVING: Final = "arriving"
PENDING: Final = "pending"
SCHEDULED: Final = "scheduled"
DELIVERING: Final = "delivering"
GONE: Final = "gone"

Rank: TypeAlias = "tuple[int] | tuple[Fraction, int] | tuple[int, PropertyValue] | tuple[()]"


@dataclass(eq=False)
class OracleMessage:
    """One message, from its arrival on. ``number`` is the caller's identifier."""

    number: int
    size: int = 1
    priority: int | None = None  # None: the sender gave none
    accepted_at: int = 0
    own_expiry: int = 0  # when the sender wants it to expire; 0 = never
    deliver_at: int = 0  # not before this; 0 = at once
    properties: dict[str, PropertyValue] = field(default_factory=dict)
    group: str = ""  # the protocol's group property
    group_sequence: int = 0
    connection: object | None = None  # its publisher

    # the changing part
    state: str = ARRIVING
    accepted: int = 0  # its sequence: counts acceptances, and moves to the tail by an operator
    level: int = 0
    rank: Rank = ()
    place: tuple[int, ...] = ()
    arrived: int = 0  # how many messages had become pending for the first time, this included; 0 = it has not yet
    life_from: int = 0  # a tombstone's life counts from when it was wanted to be delivered
    pending_since: int = 0  # when it may be delivered for the first time, in the past or not
    returns: int = 0

    @property
    def position(self) -> tuple[Rank, tuple[int, ...]]:
        """Its position among the pending: smaller is next."""
        return self.rank, self.place


@dataclass(eq=False)
class OracleDelivery:
    """A message in delivery, or a copy of it for a browser or non-destructive consumer."""

    message: OracleMessage
    session: OracleSession
    consumer: OracleConsumer | None  # None: it was pulled
    copied: bool = False
    before_reset: bool = False  # its group was reset since

    @property
    def browsed(self) -> bool:
        """Return whether it is a browser's, which counts for nothing but the browser's own credit."""
        return self.consumer is not None and bool(self.consumer.browse)


@dataclass(eq=False)
class OracleSession:
    """One client: its deliveries by tag, and the common limits of its consumers."""

    messages_max: int = UNLIMITED
    bytes_max: int = UNLIMITED
    writable: bool = True
    connection: object | None = None
    last_tag: int = 0
    held: dict[int, OracleDelivery] = field(default_factory=dict)
    in_transaction: list[tuple[int, OracleDelivery, str]] = field(default_factory=list)
    received: list[tuple[int, str, int]] = field(default_factory=list)  # (tag, consumer's tag or "", number)


def everything(properties: dict[str, PropertyValue]) -> bool:
    """The selector of a consumer that has none."""
    del properties
    return True


@dataclass(eq=False)
class OracleConsumer:
    """One subscription. ``selector`` decides by a message's properties whether the consumer gets it."""

    session: OracleSession
    tag: str
    messages_max: int = UNLIMITED
    bytes_max: int = UNLIMITED
    automatic: bool = False
    priority: int = 0
    selector: Callable[[dict[str, PropertyValue]], bool] = everything
    browse: str = BROWSE_OFF
    no_local: bool = False
    replay_period: int = UNLIMITED

    # the changing part
    attached_at: int = 0
    arrivals_before: int = 0  # messages that had arrived when it attached
    there_at_attach: set[int] = field(default_factory=set)  # numbers of the messages pending then
    seen: set[int] = field(default_factory=set)  # numbers a browser or non-destructive consumer was shown
    refused: set[int] = field(default_factory=set)  # numbers that must not return to it
    batch: set[int] | None = None  # messages that a reader of rows sees before all others; None: in the queue's order
