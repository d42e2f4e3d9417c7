"""The reason for which a message leaves a queue decides where its copies go."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.model.forwarding_targets import targets_for

DEAD_LETTERED = RemovalReason.DEAD_LETTERED
EXPIRED = RemovalReason.EXPIRED
OVERFLOW = RemovalReason.OVERFLOW
RING = RemovalReason.REPLACED_RING
KEY = RemovalReason.REPLACED_KEY

ALL = QueueSettings(dead_letter_address="dla", expiry_address="exp", dropped_address="drop")
EXCHANGE = QueueSettings(dead_letter_exchange="dlx", dead_letter_routing_key="dead", dropped_address="drop")


@pytest.mark.parametrize(
    ("settings", "reason", "expected"),
    [
        (ALL, DEAD_LETTERED, ["dead-letter-address 'dla'"]),
        (ALL, EXPIRED, ["expiry-address 'exp'"]),
        (ALL, OVERFLOW, ["dead-letter-address 'dla'", "dropped-address 'drop'"]),
        (ALL, RING, ["dropped-address 'drop'"]),
        (ALL, KEY, ["dropped-address 'drop'"]),
        (EXCHANGE, DEAD_LETTERED, ["dead-letter-exchange 'dlx'"]),
        (EXCHANGE, EXPIRED, ["dead-letter-exchange 'dlx'"]),
        (EXCHANGE, OVERFLOW, ["dead-letter-exchange 'dlx'", "dropped-address 'drop'"]),
        (EXCHANGE, RING, ["dropped-address 'drop'"]),
        (QueueSettings(dead_letter_exchange="dlx", expiry_address="exp"), EXPIRED, ["expiry-address 'exp'"]),
        (QueueSettings(dead_letter_address="dla"), EXPIRED, []),
        (QueueSettings(dead_letter_address="dla"), RING, []),
        (QueueSettings(dropped_address="drop"), DEAD_LETTERED, []),
        (QueueSettings(dropped_address="drop"), EXPIRED, []),
        (QueueSettings(dead_letter_exchange=""), EXPIRED, ["dead-letter-exchange ''"]),
        *((settings, reason, []) for settings in (ALL, EXCHANGE) for reason in (
            RemovalReason.ACKNOWLEDGED, RemovalReason.REJECTED, RemovalReason.PURGED, RemovalReason.MOVED,
            RemovalReason.DELETED,
        )),
        *((QueueSettings(), reason, []) for reason in RemovalReason),
    ],
)  # fmt: skip
def test_the_reason_decides_the_target(settings: QueueSettings, reason: RemovalReason, expected: list[str]) -> None:
    assert [str(target) for target in targets_for(settings, reason)] == expected
