"""The two ends of a link and the coordinator of transactions: §3.5 and §4.5.1.

All fields can be given by position in the standard's order or by name. A missing list or map is empty, any other
missing field is ``None``.
"""
# ruff: noqa: FBT002, PLR0913, PLR0917 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.frames.outcomes import Outcome
from annulet.wire.amqp10.types.composite import (
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    STRING,
    SYMBOL,
    SYMBOLS,
    UNSIGNED_INT,
    Composite,
    Field,
    define,
)

# §3.5.5 terminus-durability
DURABLE_NONE: Final = 0
DURABLE_CONFIGURATION: Final = 1
DURABLE_UNSETTLED_STATE: Final = 2

# §3.5.6 terminus-expiry-policy
EXPIRE_LINK_DETACH: Final[str] = "link-detach"
EXPIRE_SESSION_END: Final[str] = "session-end"
EXPIRE_CONNECTION_CLOSE: Final[str] = "connection-close"
EXPIRE_NEVER: Final[str] = "never"

# §3.5.7 std-dist-mode
DISTRIBUTION_MOVE: Final[str] = "move"
DISTRIBUTION_COPY: Final[str] = "copy"

# §3.5.9 node-properties and §3.5.10 to §3.5.13, the codes of the lifetime policies
LIFETIME_POLICY: Final[str] = "lifetime-policy"
SUPPORTED_DISTRIBUTION_MODES: Final[str] = "supported-dist-modes"
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E


class Source(Composite):
    """The source of a link's messages (§3.5.3).

    ``timeout`` is in seconds. ``filter`` maps names to described values
    (:class:`~annulet.core.base.typed_values.Described`). ``dynamic_node_properties`` and ``filter`` keep the values'
    types.
    """

    __slots__ = (
        "address",
        "capabilities",
        "default_outcome",
        "distribution_mode",
        "durable",
        "dynamic",
        "dynamic_node_properties",
        "expiry_policy",
        "filter",
        "outcomes",
        "timeout",
    )

    def __init__(
        self,
        address: str | None = None,
        durable: int = DURABLE_NONE,
        expiry_policy: str = EXPIRE_SESSION_END,
        timeout: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[str, Any] | None = None,
        distribution_mode: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the standard's name
        default_outcome: Outcome | None = None,
        outcomes: list[str] | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout = timeout
        self.dynamic = dynamic
        self.dynamic_node_properties: dict[str, Any] = (
            {} if dynamic_node_properties is None else dynamic_node_properties
        )
        self.distribution_mode = distribution_mode
        self.filter: dict[str, Any] = {} if filter is None else filter
        self.default_outcome = default_outcome
        self.outcomes: list[str] = [] if outcomes is None else outcomes
        self.capabilities: list[str] = [] if capabilities is None else capabilities


class Target(Composite):
    """The target of a link's messages (§3.5.4). ``timeout`` is in seconds."""

    __slots__ = (
        "address",
        "capabilities",
        "durable",
        "dynamic",
        "dynamic_node_properties",
        "expiry_policy",
        "timeout",
    )

    def __init__(
        self,
        address: str | None = None,
        durable: int = DURABLE_NONE,
        expiry_policy: str = EXPIRE_SESSION_END,
        timeout: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[str, Any] | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout = timeout
        self.dynamic = dynamic
        self.dynamic_node_properties: dict[str, Any] = (
            {} if dynamic_node_properties is None else dynamic_node_properties
        )
        self.capabilities: list[str] = [] if capabilities is None else capabilities


class Coordinator(Composite):
    """The target of a link that controls transactions (§4.5.1)."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: list[str] | None = None) -> None:
        self.capabilities: list[str] = [] if capabilities is None else capabilities


_TERMINUS_FIELDS: Final = (
    # §3.5.3: address is of any type, but §2.8 and §3.5 define only the string as an address
    Field("address", STRING),
    Field("durable", UNSIGNED_INT, default=DURABLE_NONE, maximum=DURABLE_UNSETTLED_STATE),
    Field("expiry_policy", SYMBOL, default=EXPIRE_SESSION_END),
    Field("timeout", UNSIGNED_INT, default=0),
    Field("dynamic", BOOLEAN, default=False),
    Field("dynamic_node_properties", FIELDS),
)

define(
    "source",
    0x28,
    Source,
    (
        *_TERMINUS_FIELDS,
        Field("distribution_mode", SYMBOL),
        Field("filter", FIELDS),
        Field("default_outcome", COMPOSITE, allowed=(Outcome,)),
        Field("outcomes", SYMBOLS),
        Field("capabilities", SYMBOLS),
    ),
)
define("target", 0x29, Target, (*_TERMINUS_FIELDS, Field("capabilities", SYMBOLS)))
define("coordinator", 0x30, Coordinator, (Field("capabilities", SYMBOLS),))
