"""Filters of a source (§3.5.8): the ones brokers of the JMS world registered, as settings of a consumer."""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.typed_values import Described
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import LinkFault

SELECTOR: Final = "apache.org:selector-filter:string"
NO_LOCAL: Final = "apache.org:no-local-filter:list"
DIRECT_BINDING: Final = "apache.org:legacy-amqp-direct-binding:string"
TOPIC_BINDING: Final = "apache.org:legacy-amqp-topic-binding:string"
HEADERS_BINDING: Final = "apache.org:legacy-amqp-headers-binding:map"

DESCRIPTORS: Final[dict[object, str]] = {
    0x0000468C00000000: DIRECT_BINDING,
    0x0000468C00000001: TOPIC_BINDING,
    0x0000468C00000002: HEADERS_BINDING,
    0x0000468C00000003: NO_LOCAL,
    0x0000468C00000004: SELECTOR,
    DIRECT_BINDING: DIRECT_BINDING,
    TOPIC_BINDING: TOPIC_BINDING,
    HEADERS_BINDING: HEADERS_BINDING,
    NO_LOCAL: NO_LOCAL,
    SELECTOR: SELECTOR,
    "jms-selector": SELECTOR,  # its name in some clients and Broker-J's older ones
    "apache.org:jms-selector-filter:string": SELECTOR,
}
"""Descriptor, as a code or a symbol, to the filter it means."""


class SourceFilters:
    """The content of the filters of one source. ``echo`` are those that hold, to be told to the peer (§2.6.3)."""

    __slots__ = ("binding_arguments", "binding_key", "echo", "no_local", "selector")

    def __init__(self) -> None:
        self.selector = ""
        self.no_local = False
        self.binding_key: str | None = None
        self.binding_arguments: dict[str, Any] = {}
        self.echo: dict[str, Any] = {}


def read_filters(given: dict[str, Any]) -> SourceFilters:
    """Read a filter set.

    Raises LinkFault ``amqp:not-implemented`` for a filter that is not known here: to ignore it silently would deliver
    unwanted messages; InvalidArgument for a wrong value.
    """
    filters = SourceFilters()
    for name, value in given.items():
        if value is None:
            continue
        descriptor, content = (value[0], value[1]) if isinstance(value, Described) else (str(name), value)
        kind = DESCRIPTORS.get(descriptor)
        if kind is None and isinstance(descriptor, int | str):
            raise LinkFault(
                conditions.NOT_IMPLEMENTED,
                f"source: filter '{name}' is of type {descriptor!r}; served are {SELECTOR}, {NO_LOCAL}, "
                f"{DIRECT_BINDING}, {TOPIC_BINDING}, {HEADERS_BINDING}",
            )
        _apply(filters, str(name), str(kind), content)
        filters.echo[name] = value
    return filters


def _apply(filters: SourceFilters, name: str, kind: str, content: Any) -> None:
    if kind == NO_LOCAL:
        filters.no_local = True
    elif kind == HEADERS_BINDING:
        if not isinstance(content, dict):
            raise InvalidArgument(f"source: filter '{name}' holds {content!r}; give a map of headers")
        filters.binding_key = ""
        filters.binding_arguments = {str(key): value for key, value in content.items()}
    elif not isinstance(content, str):
        raise InvalidArgument(f"source: filter '{name}' holds {content!r}; give a string")
    elif kind != SELECTOR:
        filters.binding_key = content
    elif filters.selector and filters.selector != content:
        raise InvalidArgument(f"source: filter '{name}' is a second selector; join them with AND in one")
    else:
        filters.selector = content
