from __future__ import annotations

import pytest

from annulet.broker.operation.bindings import (
    bindings_between,
    bindings_of_destination,
    bindings_of_queue,
    bindings_of_source,
    properties_key,
)
from annulet.core.base.errors import NotFound
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def test_bindings_of_each_end(site: Site) -> None:
    host = site.broker.hosts["/"]
    queue = site.queue("q")
    for name in ("a", "b"):
        host.declare_exchange(name, "direct")
    host.bind_queue(queue, "a", "k", {})
    host.bind_exchange("b", "a", "k", {})
    assert {(row.kind, row.destination) for row in bindings_of_source(host, "a")} == {("queue", "q"), ("exchange", "b")}
    assert [(row.source, row.routing_key) for row in bindings_of_queue(host, "q")] == [("", "q"), ("a", "k")]
    assert [row.source for row in bindings_of_destination(host, "b")] == ["a"]
    assert [row.source for row in bindings_between(host, "a", "queue", "q")] == ["a"]
    assert [row.destination for row in bindings_of_source(host, "")] == ["q"]
    assert list(bindings_of_source(host, "absent")) == []
    for rows in (bindings_of_queue(host, "absent"), bindings_of_destination(host, "absent")):
        with pytest.raises(NotFound, match="'absent'"):
            list(rows)


def test_names_of_bindings() -> None:
    assert properties_key("", {}) == "~"
    assert properties_key("a b~", {}) == "a+b%7E"
    assert properties_key("a", {"x": 1}) != properties_key("a", {"x": 2})
