"""Bindings of virtual hosts: those of a source, a queue, a destination or both ends, and the name of each.

Each queue is bound to the default exchange by its name; that binding is listed, and cannot be made or deleted.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote_plus

from annulet.core.base.errors import NotFound
from annulet.core.base.reply_names import is_reply_name
from annulet.core.routing.bindings import TO_EXCHANGE, TO_QUEUE, arguments_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost

DIGEST_BYTES: Final = 4
"""Of the arguments, in the name of a binding: RabbitMQ's names are as short. They have to differ among the bindings of
two ends with one routing key only."""


class BindingRow(NamedTuple):
    """One binding. ``kind``: of the destination, a queue or an exchange."""

    host: VirtualHost
    source: str
    kind: str
    destination: str
    routing_key: str
    arguments: Arguments


def properties_key(routing_key: str, arguments: Arguments) -> str:
    """Return the name of a binding among those of the same ends; ``~`` for none of both."""
    key = quote_plus(routing_key).replace("~", "%7E")
    if not arguments:
        return key or "~"
    digest = hashlib.blake2b(arguments_text(arguments).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    return f"{key}~{base64.urlsafe_b64encode(digest.digest()).decode('ascii').rstrip('=')}"


def bindings_of_source(host: VirtualHost, source: str) -> Iterator[BindingRow]:
    """Yield the bindings from an exchange or address; the empty name is the default exchange."""
    if not source:
        for name in list(host.queues):
            if not is_reply_name(name):
                yield BindingRow(host, "", TO_QUEUE, name, name, {})
        return
    exchange = host.exchanges.get(source)
    if exchange is not None:
        for binding in list(exchange.bindings.values()):
            if not binding.leads_nowhere:
                kind, name = binding.destination_kind, binding.destination_name
                yield BindingRow(host, source, kind, name, binding.routing_key, binding.arguments)


def bindings_of_queue(host: VirtualHost, name: str) -> Iterator[BindingRow]:
    """Yield the bindings to a queue. Raises :class:`~annulet.core.base.errors.NotFound`."""
    queue = host.queues.get(name)
    if queue is None or is_reply_name(name):
        raise NotFound(f"no queue {name!r}")
    yield BindingRow(host, "", TO_QUEUE, name, name, {})
    for binding in host.bindings_of_queue(queue):
        yield BindingRow(host, binding.source.name, TO_QUEUE, name, binding.routing_key, binding.arguments)


def bindings_of_destination(host: VirtualHost, name: str) -> Iterator[BindingRow]:
    """Yield the bindings to an exchange. Raises :class:`~annulet.core.base.errors.NotFound`."""
    exchange = host.exchanges.get(name)
    if exchange is None:
        raise NotFound(f"no exchange {name!r}")
    for binding in list(exchange.incoming):
        yield BindingRow(host, binding.source.name, TO_EXCHANGE, name, binding.routing_key, binding.arguments)


def bindings_between(host: VirtualHost, source: str, kind: str, destination: str) -> Iterator[BindingRow]:
    """Yield the bindings of two ends: found from the destination, which has fewer than a source may have."""
    rows = bindings_of_queue(host, destination) if kind == TO_QUEUE else bindings_of_destination(host, destination)
    return (row for row in rows if row.source == source)
