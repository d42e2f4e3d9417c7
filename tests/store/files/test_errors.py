"""Errors of the store: one base to catch, and kinds that call for different answers."""

from __future__ import annotations

import inspect

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.files import errors
from annulet.store.files.lock import DirectoryLock

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__ and kind is not errors.StoreError
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_is_a_store_error_and_covers_no_other(kind):
    assert issubclass(kind, errors.StoreError)
    assert [other for other in KINDS if issubclass(other, kind)] == [kind]


def test_a_held_directory_and_a_damaged_catalogue_name_their_files(tmp_path):
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    with pytest.raises(errors.DirectoryInUseError, match=str(tmp_path)):
        DirectoryLock(tmp_path).acquire()
    lock.release()
    damaged = tmp_path / "catalogue"
    damaged.write_bytes(b"not SQLite " * 100)
    with pytest.raises(errors.CatalogueError, match=str(damaged)):
        Catalogue(damaged)
