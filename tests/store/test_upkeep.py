from __future__ import annotations

import errno

import pytest

from annulet.store.checkpoint import BALLAST_FILE
from annulet.store.upkeep import BALLAST_BYTES, RemoveTask, SpareTask, allocate_file, ensure_ballast
from tests.store.log_tools import DIRECTORY
from tests.store.simulated_files import SimulatedFiles


def test_a_spare_that_does_not_fit_leaves_nothing() -> None:
    files = SimulatedFiles(BALLAST_BYTES + 100)
    task = SpareTask(DIRECTORY / "spare", 1000, files)
    task.run()
    assert task.error is not None
    assert task.error.errno == errno.ENOSPC
    assert task.file is None
    assert list(files.names_now) == [BALLAST_FILE]


def test_the_ballast_is_made_once() -> None:
    files = SimulatedFiles()
    ensure_ballast(DIRECTORY, files)
    ensure_ballast(DIRECTORY, files)
    assert files.used == BALLAST_BYTES


def test_removal_tells_what_went_before_it_failed() -> None:
    files = SimulatedFiles()
    for name in ("a", "b", "c"):
        allocate_file(DIRECTORY / name, 10, files)
    task = RemoveTask({1: DIRECTORY / "a", 2: DIRECTORY / "b", 3: DIRECTORY / "c"}, DIRECTORY, files)
    files.fail_at = files.operations + 2
    task.run()
    assert task.error is not None
    assert task.removed == [1]
    assert sorted(files.names_now) == ["b", "c"]


def test_allocation_reserves_the_whole_size() -> None:
    files = SimulatedFiles(100)
    with pytest.raises(OSError, match="No space"):
        allocate_file(DIRECTORY / "a", 101, files)
    assert allocate_file(DIRECTORY / "a", 100, files).size() == 100
