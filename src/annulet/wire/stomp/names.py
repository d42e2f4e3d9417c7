"""Names of headers with a meaning, as clients of RabbitMQ, ActiveMQ and Artemis know them.

The first of several names for one thing is the one the broker itself writes.
"""

from __future__ import annotations

from typing import Final

DESTINATION: Final = "destination"
PERSISTENT: Final = "persistent"
PRIORITY: Final = "priority"
MESSAGE_ID: Final = "message-id"  # of a delivery, given by the broker

EXPIRES: Final = "expires"  # ActiveMQ, Artemis: milliseconds since 1970; 0 is never
TIME_TO_LIVE: Final = "expiration"  # RabbitMQ: milliseconds; 0 is never

SENDER_MESSAGE_ID_NAMES: Final = ("amqp-message-id", "JMSMessageID")
"""The id the sender gave. On SEND ``message-id`` is one too, and becomes the first of these (RabbitMQ)."""

CORRELATION_ID_NAMES: Final = ("correlation-id", "JMSCorrelationID")
REPLY_TO_NAMES: Final = ("reply-to", "JMSReplyTo")
SUBJECT_NAMES: Final = ("type", "JMSType")
CONTENT_TYPE_NAMES: Final = ("content-type",)
CONTENT_ENCODING_NAMES: Final = ("content-encoding",)
GROUP_ID_NAMES: Final = ("JMSXGroupID", "_AMQ_GROUP_ID", "group-id")
USER_ID_NAMES: Final = ("user-id", "JMSXUserID")
TIMESTAMP_NAMES: Final = ("timestamp", "JMSTimestamp")  # milliseconds since 1970
APPLICATION_ID_NAMES: Final = ("app-id",)
GROUP_SEQUENCE_NAMES: Final = ("JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE")
REPLY_TO_GROUP_NAMES: Final = ("reply-to-group-id",)
TO_NAMES: Final = ("amqp-to",)  # AMQP 1.0's ``to`` where a message has one

DELAY_NAMES: Final = ("x-delay", "AMQ_SCHEDULED_DELAY")  # milliseconds from acceptance
DELIVER_AT_NAMES: Final = ("x-deliver-at", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY", "x-qpid-not-valid-before")
SCHEDULE_ID: Final = "x-schedule-id"
SCHEDULE_CANCEL: Final = "x-schedule-cancel"
SCHEDULE_NAMES: Final = (*DELAY_NAMES, *DELIVER_AT_NAMES, SCHEDULE_ID, SCHEDULE_CANCEL)
"""Headers removed from a copy, because it would be scheduled again."""

REFUSED_SCHEDULE_NAMES: Final = ("AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON")
"""ActiveMQ's repeated deliveries, which are not available: refused rather than delivered once."""

DUPLICATE_ID_NAMES: Final = ("_AMQ_DUPL_ID", "x-duplicate-id")

EXTEND_DELIVERY: Final = "x-extend-delivery"  # on a SEND that is not routed: the delivery whose timeout is restarted
DEATHS: Final = "x-death"
FIRST_DEATH: Final = "x-first-death-"
LAST_DEATH: Final = "x-last-death-"

BODY_KIND: Final = "amq-msg-type"  # ActiveMQ: text or bytes; here map, list, sequence and value too, written as JSON

BODY_KIND_ANNOTATION: Final = "x-opt-annulet-body-kind"  # in other protocols, of a body that was not decoded
CONTENT_TYPE_ANNOTATION: Final = "x-opt-content-type"  # the sender's, where the header says how the body is encoded

ANNOTATION_PREFIX: Final = "x-opt-"
OTHER_ANNOTATION_PREFIX: Final = "x-annotation-"  # of message annotations that are not called x-opt-...
FOOTER_PREFIX: Final = "x-footer-"
APPLICATION_PREFIX: Final = "x-application-"  # before application properties whose own name would mean something here

OF_A_DELIVERY: Final = frozenset(
    {"receipt", "transaction", "content-length", "subscription", "ack", "redelivered", "x-delivery-count"}
)
"""Headers of SEND that are not part of the message, and those that MESSAGE adds: a message keeps none."""

STANDARD: Final = frozenset(
    {
        DESTINATION,
        PERSISTENT,
        PRIORITY,
        MESSAGE_ID,
        EXPIRES,
        BODY_KIND,
        DEATHS,
        TIME_TO_LIVE,
        *SENDER_MESSAGE_ID_NAMES,
        *CORRELATION_ID_NAMES,
        *REPLY_TO_NAMES,
        *SUBJECT_NAMES,
        *CONTENT_TYPE_NAMES,
        *CONTENT_ENCODING_NAMES,
        *GROUP_ID_NAMES,
        *USER_ID_NAMES,
        *TIMESTAMP_NAMES,
        *APPLICATION_ID_NAMES,
        *GROUP_SEQUENCE_NAMES,
        *REPLY_TO_GROUP_NAMES,
        *TO_NAMES,
        *OF_A_DELIVERY,
    }
)
"""Headers that are no application properties."""
