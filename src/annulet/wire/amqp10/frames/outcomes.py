"""Errors and delivery states: §2.8.14, §3.4 and §4.5.

All fields can be given by position in the standard's order or by name. A missing list or map is empty, any other
missing field is ``None``.
"""
# ruff: noqa: FBT002 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.types.composite import (
    BINARY,
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    STRING,
    SYMBOL,
    UNSIGNED_INT,
    UNSIGNED_LONG,
    Composite,
    Field,
    define,
)


class Error(Composite):
    """Why a link, session, connection or delivery failed (§2.8.14). ``condition`` is a symbol."""

    __slots__ = ("condition", "description", "info")

    def __init__(self, condition: str, description: str | None = None, info: dict[str, Any] | None = None) -> None:
        self.condition = condition
        self.description = description
        self.info: dict[str, Any] = {} if info is None else info


class DeliveryState(Composite):
    """The state of a delivery so far (§2.8.5, archetype delivery-state)."""

    __slots__ = ()


class Outcome(DeliveryState):
    """A terminal delivery state (§3.4, archetype outcome)."""

    __slots__ = ()


class Received(DeliveryState):
    """How far a delivery was received (§3.4.1): the section, counted from 0, and the octets of it."""

    __slots__ = ("section_number", "section_offset")

    def __init__(self, section_number: int, section_offset: int) -> None:
        self.section_number = section_number
        self.section_offset = section_offset


class Accepted(Outcome):
    """The message was taken (§3.4.2)."""

    __slots__ = ()


class Rejected(Outcome):
    """The message is invalid (§3.4.3)."""

    __slots__ = ("error",)

    def __init__(self, error: Error | None = None) -> None:
        self.error = error


class Released(Outcome):
    """The message was not and will not be acted upon (§3.4.4)."""

    __slots__ = ()


class Modified(Outcome):
    """The message was not acted upon but changes (§3.4.5)."""

    __slots__ = ("delivery_failed", "message_annotations", "undeliverable_here")

    def __init__(
        self,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        message_annotations: dict[str, Any] | None = None,
    ) -> None:
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here
        self.message_annotations: dict[str, Any] = {} if message_annotations is None else message_annotations


class Declare(Composite):
    """Body of the message that begins a transaction (§4.5.2)."""

    __slots__ = ("global_id",)

    def __init__(self, global_id: Any = None) -> None:
        self.global_id = global_id


class Discharge(Composite):
    """Body of the message that ends a transaction (§4.5.3); ``fail`` rolls it back."""

    __slots__ = ("fail", "txn_id")

    def __init__(self, txn_id: bytes, fail: bool = False) -> None:
        self.txn_id = txn_id
        self.fail = fail


class Declared(Outcome):
    """Outcome of a declare (§4.5.5): the transaction's id, at most 32 octets."""

    __slots__ = ("txn_id",)

    def __init__(self, txn_id: bytes) -> None:
        self.txn_id = txn_id


class TransactionalState(DeliveryState):
    """A state that applies once the transaction commits (§4.5.8); ``outcome`` is absent on a publish."""

    __slots__ = ("outcome", "txn_id")

    def __init__(self, txn_id: bytes, outcome: Outcome | None = None) -> None:
        self.txn_id = txn_id
        self.outcome = outcome


MAX_TRANSACTION_ID_OCTETS: Final = 32
"""§4.5.4: the longest transaction-id."""

define(
    "error",
    0x1D,
    Error,
    (
        Field("condition", SYMBOL, mandatory=True),
        Field("description", STRING),
        Field("info", FIELDS),
    ),
)
define(
    "received",
    0x23,
    Received,
    (
        Field("section_number", UNSIGNED_INT, mandatory=True),
        Field("section_offset", UNSIGNED_LONG, mandatory=True),
    ),
)
define("accepted", 0x24, Accepted, ())
define("rejected", 0x25, Rejected, (Field("error", COMPOSITE, allowed=(Error,)),))
define("released", 0x26, Released, ())
define(
    "modified",
    0x27,
    Modified,
    (
        Field("delivery_failed", BOOLEAN, default=False),
        Field("undeliverable_here", BOOLEAN, default=False),
        Field("message_annotations", FIELDS),
    ),
)
_TRANSACTION_ID: Final = Field("txn_id", BINARY, mandatory=True, maximum=MAX_TRANSACTION_ID_OCTETS)
# §4.5.2: the standard defines no type of archetype global-tx-id, so a global id is null
define("declare", 0x31, Declare, (Field("global_id", COMPOSITE, allowed=()),))
define("discharge", 0x32, Discharge, (_TRANSACTION_ID, Field("fail", BOOLEAN, default=False)))
define("declared", 0x33, Declared, (_TRANSACTION_ID,))
define(
    "transactional-state",
    0x34,
    TransactionalState,
    (_TRANSACTION_ID, Field("outcome", COMPOSITE, allowed=(Outcome,))),
)
