"""Changes that are committed together: in order, whole or not at all, whoever runs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.definition_groups import DefinitionGroup, DefinitionGroups
from annulet.store.files.errors import CatalogueError
from annulet.store.segments.queue_names import QueueName


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    with closing(Catalogue(tmp_path / "catalogue.sqlite")) as catalogue:
        catalogue.add_virtual_host("/")
        yield catalogue


def names_on_disk(catalogue: Catalogue) -> set[str]:
    with closing(Catalogue(catalogue.path)) as other:
        return {queue.name for queue in other.queues("/")}


def test_groups_are_run_in_order_and_numbered() -> None:
    ran: list[int] = []

    def run(group: DefinitionGroup) -> None:
        ran.append(group.number)
        if group.number == 2:
            group.error = CatalogueError("refused")

    groups = DefinitionGroups(run)
    assert not groups.waiting
    groups.seal()
    groups.run_all()
    assert ran == [], "nothing was changed"
    for _ in range(3):
        groups.add("statement", ())
        groups.seal()
    assert groups.waiting
    groups.run_all()
    assert (ran, groups.done, groups.changes, groups.waiting) == ([1, 2, 3], 3, 3, False)
    assert [group.number for group in groups.take_failed()] == [2]
    assert groups.take_failed() == []


def test_a_group_is_one_change_of_the_catalogue_and_can_be_committed_elsewhere(catalogue: Catalogue) -> None:
    told: list[QueueName] = []
    catalogue.on_queue = told.append
    generation = catalogue.generation
    catalogue.grouping = True
    ids = [catalogue.add_queue("/", f"q{number}", False, {}) for number in range(3)]
    catalogue.add_exchange("/", "e", "direct", False, False, {})
    catalogue.delete_queue("/", "q1")
    catalogue.grouping = False
    assert ids == [name.queue_id for name in told] == [1, 2, 3]
    assert names_on_disk(catalogue) == set()
    catalogue.groups.seal()
    thread = threading.Thread(target=catalogue.groups.run_all)
    thread.start()
    thread.join()
    assert names_on_disk(catalogue) == {"q0", "q2"}
    assert catalogue.generation == generation + 1
    assert catalogue.deleted_queues() == {2}
    assert catalogue.add_queue("/", "next", False, {}) == 4


def test_whoever_reads_or_changes_at_once_has_the_group_committed_first(catalogue: Catalogue) -> None:
    catalogue.grouping = True
    catalogue.add_queue("/", "first", False, {})
    catalogue.grouping = False
    assert [queue.name for queue in catalogue.queues("/")] == ["first"]
    catalogue.grouping = True
    catalogue.add_queue("/", "second", False, {})
    catalogue.grouping = False
    catalogue.add_queue("/", "third", False, {})
    assert names_on_disk(catalogue) == {"first", "second", "third"}
    catalogue.grouping = True
    catalogue.add_queue("/", "last", False, {})
    catalogue.close()
    assert names_on_disk(catalogue) == {"first", "second", "third", "last"}


def test_what_an_exception_ended_is_not_in_the_group(catalogue: Catalogue) -> None:
    undone: list[str] = []
    catalogue.grouping = True
    catalogue.add_queue("/", "kept", False, {})
    with pytest.raises(CatalogueError):
        add_and_fail(catalogue, undone)
    catalogue.grouping = False
    catalogue.settle()
    assert names_on_disk(catalogue) == {"kept"}
    assert undone == []


def add_and_fail(catalogue: Catalogue, undone: list[str]) -> None:
    with catalogue.transaction():
        catalogue.add_queue("/", "dropped", False, {})
        catalogue.if_refused(lambda: undone.append("dropped"))
        raise CatalogueError("no")


def test_a_group_that_is_refused_leaves_nothing_behind(catalogue: Catalogue) -> None:
    generation = catalogue.generation
    catalogue.grouping = True
    catalogue.add_queue("/", "first", False, {})
    catalogue.if_refused(lambda: None)
    catalogue.groups.add("INSERT INTO no_table VALUES (1)", ())
    catalogue.grouping = False
    catalogue.if_refused(lambda: None)
    catalogue.settle()
    (failed,) = catalogue.groups.take_failed()
    assert len(failed.undo) == 1, "outside of a group everything is durable already"
    assert "refuses 2 changes" in str(failed.error)
    assert names_on_disk(catalogue) == set()
    assert catalogue.generation == generation
