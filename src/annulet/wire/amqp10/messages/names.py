"""Names the broker itself gives message annotations, and which of them other protocols know as headers.

Intermediaries may not change the bare message (§3.2), so all the broker adds to a message becomes an annotation.
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import GIVEN

ANNOTATION_PREFIX: Final = "x-opt-"
"""Prefix of the names of message annotations (§3.2.10), reserved for them."""

DEATHS: Final = "x-opt-deaths"
FIRST_DEATH: Final = "x-opt-first-death-"
LAST_DEATH: Final = "x-opt-last-death-"
GIVEN_DEATHS: Final = "x-opt-deaths-given"

RECORD: Final = "x-opt-annulet-content"
"""A map that records properties of a message that AMQP 1.0 cannot express:
:mod:`annulet.core.message.content_differences`.
"""

APP_ID: Final = "x-opt-app-id"
"""AMQP 0-9-1's app-id, for which AMQP 1.0 has no property."""

DATA_SECTIONS: Final = "x-opt-annulet-data-sections"
"""While a message of several data sections is in another protocol: their sizes, a list of octets."""

JMS_TYPE: Final = "x-opt-jms-msg-type"
"""AMQP JMS mapping §3.2: message 0, object 1, map 2, bytes 3, stream 4, text 5."""

REJECTED_CONDITION: Final = "x-opt-rejected-condition"
REJECTED_DESCRIPTION: Final = "x-opt-rejected-description"
"""The error with which a dead letter was rejected (§3.4.3)."""

ANNOTATIONS: Final[dict[str, str]] = {
    "_AMQ_ORIG_ADDRESS": "x-opt-ORIG-ADDRESS",
    "_AMQ_ORIG_QUEUE": "x-opt-ORIG-QUEUE",
    "_AMQ_ORIG_MESSAGE_ID": "x-opt-ORIG-MESSAGE-ID",
    "_AMQ_ACTUAL_EXPIRY": "x-opt-ACTUAL-EXPIRY",
    GIVEN: GIVEN_DEATHS,
    "x-first-death-queue": f"{FIRST_DEATH}queue",
    "x-first-death-reason": f"{FIRST_DEATH}reason",
    "x-first-death-exchange": f"{FIRST_DEATH}exchange",
    "x-last-death-queue": f"{LAST_DEATH}queue",
    "x-last-death-reason": f"{LAST_DEATH}reason",
    "x-last-death-exchange": f"{LAST_DEATH}exchange",
    REJECTED_CONDITION: REJECTED_CONDITION,
    REJECTED_DESCRIPTION: REJECTED_DESCRIPTION,
}
"""Headers of dead letters in other protocols (Artemis's, RabbitMQ's, ours), and the annotations they are here."""

HEADERS: Final[dict[str, str]] = {annotation: header for header, annotation in ANNOTATIONS.items()}
