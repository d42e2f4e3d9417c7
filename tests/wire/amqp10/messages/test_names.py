from __future__ import annotations

from annulet.core.host import dead_letters
from annulet.wire.amqp10.messages.names import (
    ANNOTATION_PREFIX,
    ANNOTATIONS,
    HEADERS,
    REJECTED_CONDITION,
    REJECTED_DESCRIPTION,
)


def test_every_header_of_dead_letters_is_an_annotation_and_back() -> None:
    originals = {
        dead_letters.ORIGINAL_ADDRESS, dead_letters.ORIGINAL_QUEUE, dead_letters.ORIGINAL_MESSAGE_ID,
        dead_letters.ACTUAL_EXPIRY,
    }  # fmt: skip
    assert {*originals, REJECTED_CONDITION, REJECTED_DESCRIPTION} <= set(ANNOTATIONS)
    assert all(annotation.startswith(ANNOTATION_PREFIX) for annotation in ANNOTATIONS.values())
    assert {HEADERS[annotation]: annotation for annotation in HEADERS} == ANNOTATIONS
