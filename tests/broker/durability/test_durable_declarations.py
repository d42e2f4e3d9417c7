from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.core.base.errors import PreconditionFailed
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.node_effects import NodeEffects
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.definitions import SubscriptionRecord
from annulet.store.files.errors import CatalogueError


@pytest.fixture
def declarations(tmp_path: Path) -> DurableDeclarations:
    catalogue = Catalogue(tmp_path / "catalogue.sqlite")
    catalogue.add_virtual_host("/")
    return DurableDeclarations(VirtualHost("/", NodeEffects()), catalogue)


def declare_exchange(declarations: DurableDeclarations, name: str, *, durable: bool = True) -> None:
    declarations.exchange(name, "topic", durable=durable, auto_delete=False, internal=False, arguments={})


def declare_queue(declarations: DurableDeclarations, name: str, owner: object | None = None) -> None:
    declarations.queue(name, now=1, durable=True, auto_delete=False, arguments={"ring-size": 3}, owner=owner)


def test_durable_objects_are_written_down_once(declarations: DurableDeclarations) -> None:
    for _ in range(2):
        declare_exchange(declarations, "e")
        declare_exchange(declarations, "f")
        declare_queue(declarations, "q")
        declarations.bind_queue(declarations.host.queues["q"], "e", "k", {})
        declarations.bind_exchange("f", "e", "#", {})
    catalogue = declarations.catalogue
    assert [record.name for record in catalogue.exchanges("/")] == ["e", "f"]
    assert [(record.name, record.arguments) for record in catalogue.queues("/")] == [("q", {"ring-size": 3})]
    assert sorted(record.destination for record in catalogue.bindings("/")) == ["f", "q"]
    declarations.unbind_queue(declarations.host.queues["q"], "e", "k", {})
    declarations.unbind_exchange("f", "e", "#", {})
    assert catalogue.bindings("/") == []


def test_what_does_not_outlive_the_broker_is_not(declarations: DurableDeclarations) -> None:
    declare_exchange(declarations, "passing", durable=False)
    declare_queue(declarations, "owned", owner=object())
    assert declarations.catalogue.exchanges("/") == []
    assert declarations.catalogue.queues("/") == []


def test_another_declaration_of_the_name_changes_nothing(declarations: DurableDeclarations) -> None:
    declare_queue(declarations, "q")
    with pytest.raises(PreconditionFailed):
        declarations.queue("q", now=1, durable=True, auto_delete=False, arguments={"ring-size": 4})
    assert [record.arguments for record in declarations.catalogue.queues("/")] == [{"ring-size": 3}]


@pytest.mark.parametrize(
    ("method", "declare"),
    [
        ("add_exchange", lambda declarations: declare_exchange(declarations, "new")),
        ("add_queue", lambda declarations: declare_queue(declarations, "new")),
    ],
)
def test_what_cannot_be_written_down_does_not_exist(
    declarations: DurableDeclarations,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    declare: Callable[[DurableDeclarations], None],
) -> None:
    def refuse(*_: object) -> None:
        raise CatalogueError("disk full")

    monkeypatch.setattr(declarations.catalogue, method, refuse)
    with pytest.raises(CatalogueError):
        declare(declarations)
    assert "new" not in declarations.host.queues
    assert "new" not in declarations.host.exchanges


def test_a_subscription_is_written_down_with_its_queue_or_not_at_all(
    declarations: DurableDeclarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = SubscriptionMark("client", "s", "guest")
    options = {"now": 1, "durable": True, "auto_delete": False, "arguments": {}, "subscription": mark}
    queue = declarations.queue("client.s", **options)  # type: ignore[arg-type]
    assert declarations.host.lifetime_of(queue).subscription == mark
    assert declarations.catalogue.subscriptions("/") == [SubscriptionRecord("client.s", "client", "s", "guest")]
    ordinary = declarations.queue("q", **{**options, "subscription": None})  # type: ignore[arg-type]
    declarations.queue("q", **options)  # type: ignore[arg-type]
    assert declarations.host.lifetime_of(ordinary).subscription is None  # a queue that is there gets no mark

    def fail(*_: object) -> None:
        raise CatalogueError("no")

    monkeypatch.setattr(Catalogue, "set_subscription", fail)
    with pytest.raises(CatalogueError):
        declarations.queue("client.t", **options)  # type: ignore[arg-type]
    assert "client.t" not in declarations.host.queues
    assert [record.name for record in declarations.catalogue.queues("/")] == ["client.s", "q"]
