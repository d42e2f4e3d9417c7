from __future__ import annotations

import gc

import pytest

from annulet.cli.collector import MIDDLE_COLLECTIONS_MAX, OLD_COLLECTIONS_MAX, YOUNG_OBJECTS_MAX, settle_collector


@pytest.fixture
def collector():
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("collector")
def test_what_start_up_made_is_left_out_and_collections_are_rarer():
    settle_collector()
    assert gc.get_threshold() == (YOUNG_OBJECTS_MAX, MIDDLE_COLLECTIONS_MAX, OLD_COLLECTIONS_MAX)
    assert gc.get_freeze_count() > 1000


@pytest.mark.usefixtures("collector")
def test_cycles_made_afterwards_are_still_collected():
    settle_collector()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
