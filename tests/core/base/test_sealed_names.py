"""Names of queues that belong to the broker alone."""

from __future__ import annotations

import pytest

from annulet.core.base.sealed_names import UNDO_QUEUE, is_sealed_name


def test_the_undo_queue_is_sealed() -> None:
    assert is_sealed_name(UNDO_QUEUE)


@pytest.mark.parametrize("name", ["", "undo", "amq.undo.", "amq.ledger", "Amq.undo"])
def test_others_are_not(name: str) -> None:
    assert not is_sealed_name(name)
