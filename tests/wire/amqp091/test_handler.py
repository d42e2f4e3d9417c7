"""The calls an engine makes, as the base class declares them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

import pytest

from annulet import _build
from annulet.wire.amqp091.handler import ConnectionHandler

SAMPLES: dict[str, object] = {"int": 1, "str": "q", "bool": True, "bytes": b"", "dict[str, PropertyValue]": {}}
"""A value for each type of parameter: compiled methods look at the types before anything else."""


def declared_calls() -> dict[str, list[object]]:
    """Return arguments for each call by its name, from the source: compiled methods carry no annotations."""
    source = _build.source_of(ConnectionHandler.__module__)
    (declaration,) = (node for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef))
    return {
        node.name: [SAMPLES[ast.unparse(item.annotation)] for item in node.args.args[1:] if item.annotation]
        for node in declaration.body
        if isinstance(node, ast.FunctionDef)
    }


CALLS = declared_calls()


@pytest.mark.parametrize("name", CALLS)
def test_the_base_class_serves_nothing_by_itself(name: str) -> None:
    method: Callable[..., object] = getattr(ConnectionHandler(), name)
    with pytest.raises(NotImplementedError):
        method(*CALLS[name])


def test_every_call_that_belongs_to_a_channel_names_it_first() -> None:
    of_the_connection = {
        *("authenticate", "respond", "update_secret"),
        *("open_virtual_host", "connection_opened", "connection_closed"),
    }
    for name in CALLS.keys() - of_the_connection:
        assert next(iter(inspect.signature(getattr(ConnectionHandler(), name)).parameters)) == "channel"
