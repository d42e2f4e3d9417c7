from __future__ import annotations

from typing import Any

from annulet.cli.remote.exchange_commands import binding_text
from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, EXIT_USAGE


def test_an_exchange_is_created_bound_unbound_and_deleted(annulet: Any) -> None:
    assert annulet.json("exchange", "create", "events", "--type", "headers") == {"name": "events", "created": True}
    annulet.done("queue", "create", "bound")
    annulet.done("bind", "events", "bound", "-a", "x-match=all", "-a", "kind=5")
    annulet.done("bind", "events", "bound", "-k", "a/b c~")
    listed = annulet.json("bindings", "--to", "bound")
    assert [(each["routing_key"], each["arguments"]) for each in listed] == [
        ("", {"x-match": "all", "kind": 5}),
        ("a/b c~", {}),
    ]
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "unbind", "events", "bound", "-k", "a/b c~")
    assert "--to bound" in annulet.refused(EXIT_NOT_FOUND, "unbind", "events", "bound", "-k", "other", "-y")
    annulet.done("unbind", "events", "bound", "-k", "a/b c~", "-y")
    assert annulet.json("exchange", "delete", "events", "-y") == {"name": "events", "bindings": 1}
    assert annulet.json("exchanges", "--name", "events") == []


def test_exchanges_are_bound_to_exchanges(annulet: Any) -> None:
    for name in ("from", "to"):
        annulet.done("exchange", "create", name, "-t", "fanout")
    annulet.done("bind", "from", "to", "--exchange")
    assert [binding_text(each) for each in annulet.json("bindings", "--source", "from")] == ["'from' -> 'to', key ''"]
    annulet.done("unbind", "from", "to", "--exchange", "-y")
    assert annulet.json("bindings", "--source", "from") == []


def test_an_unknown_type_is_refused_by_the_broker(annulet: Any) -> None:
    assert "topik" in annulet.refused(EXIT_REFUSED_BY_BROKER, "exchange", "create", "e", "-t", "topik")
