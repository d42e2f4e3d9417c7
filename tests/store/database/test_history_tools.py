"""Losses as the history's tests need them."""

from __future__ import annotations

from typing import Any

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.loss_ledger import LossRecord


def loss(sequence: int, **values: Any) -> LossRecord:
    """A loss whose fields differ from each other, so that a mix-up shows."""
    fields = {
        "queue": "q", "reason": RemovalReason.REPLACED_RING, "key": "k", "size": 11, "priority": 5,
        "accepted_at": 1000, "at": 2000, "publisher": "guest@test", "replaced_by": sequence + 1,
        "rule": "ring-size=1", "forwarded_to": "late",
    }  # fmt: skip
    return LossRecord(sequence=sequence, **{**fields, **values})
