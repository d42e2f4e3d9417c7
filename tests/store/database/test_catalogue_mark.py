from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_mark import (
    check_mark,
    mark_path,
    missing,
    open_catalogue,
    refuse_new_catalogue,
    start_mark,
)
from annulet.store.files.data_format import CATALOGUE_FILE, LOG_DIRECTORY
from annulet.store.files.errors import CatalogueError
from annulet.store.files.files import OsFileSystem
from annulet.store.files.marks import Mark, load_mark


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory whose catalogue has left its mark."""
    (tmp_path / LOG_DIRECTORY).mkdir()
    with closing(open_catalogue(tmp_path)) as catalogue:
        start_mark(catalogue, tmp_path)
        catalogue.add_virtual_host("/")
        catalogue.add_queue("/", "work", False, {})
    return tmp_path


def generation_of(data: Path) -> int:
    mark = load_mark(mark_path(data), OsFileSystem())
    assert mark is not None
    return mark.generation


def add_and_fail(catalogue: Catalogue) -> None:
    with catalogue.transaction():
        catalogue.add_virtual_host("c")
        raise CatalogueError("no")


def test_each_change_is_marked_and_nothing_else(data: Path) -> None:
    with closing(open_catalogue(data)) as catalogue:
        start_mark(catalogue, data)
        before = catalogue.generation
        assert generation_of(data) == before
        catalogue.add_virtual_host("/")
        catalogue.delete_queue("/", "unknown")
        assert catalogue.generation == before, "nothing changed"
        with catalogue.transaction():
            catalogue.add_virtual_host("a")
            catalogue.add_virtual_host("b")
        assert catalogue.generation == before + 1
        with pytest.raises(CatalogueError):
            add_and_fail(catalogue)
        assert generation_of(data) == catalogue.generation == before + 1
    with closing(open_catalogue(data)) as catalogue:
        assert catalogue.generation == before + 1


def test_a_catalogue_that_is_missing_is_refused_and_none_is_made(data: Path) -> None:
    (data / CATALOGUE_FILE).unlink()
    with pytest.raises(CatalogueError, match=r"missing beside a message log.*annulet doctor --rebuild"):
        open_catalogue(data)
    assert not (data / CATALOGUE_FILE).exists()
    assert "missing" in str(missing(data / CATALOGUE_FILE))


def test_an_older_catalogue_is_refused(data: Path) -> None:
    shutil.copy(data / CATALOGUE_FILE, data / "older")
    with closing(open_catalogue(data)) as catalogue:
        start_mark(catalogue, data)
        catalogue.add_queue("/", "later", False, {})
    shutil.copy(data / "older", data / CATALOGUE_FILE)
    with pytest.raises(CatalogueError, match="lacks its last 1 changes"):
        open_catalogue(data)


def test_another_catalogue_is_refused(data: Path) -> None:
    (data / CATALOGUE_FILE).unlink()
    with closing(Catalogue(data / CATALOGUE_FILE)) as catalogue:
        for number in range(9):
            catalogue.add_virtual_host(str(number))
        with pytest.raises(CatalogueError, match="not the one that the messages were written with"):
            check_mark(catalogue, Mark(0, b"another"))
    with pytest.raises(CatalogueError, match="not the one that the messages were written with"):
        open_catalogue(data)


def test_without_a_mark_a_catalogue_is_taken_as_it_is(data: Path) -> None:
    mark_path(data).unlink()
    with closing(open_catalogue(data)) as catalogue:
        assert [queue.name for queue in catalogue.queues("/")] == ["work"]


def test_one_that_was_made_and_is_refused_is_gone(tmp_path: Path) -> None:
    catalogue = open_catalogue(tmp_path)
    catalogue.add_virtual_host("/")
    assert "missing" in str(refuse_new_catalogue(catalogue))
    assert not list(tmp_path.iterdir())
