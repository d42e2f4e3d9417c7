"""The error conditions of AMQP 1.0 (ISO 19464), each by the section that defines it."""

from __future__ import annotations

from typing import Final

# §2.8.15 amqp-error
INTERNAL_ERROR: Final[str] = "amqp:internal-error"
NOT_FOUND: Final[str] = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final[str] = "amqp:unauthorized-access"
DECODE_ERROR: Final[str] = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final[str] = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final[str] = "amqp:not-allowed"
INVALID_FIELD: Final[str] = "amqp:invalid-field"
NOT_IMPLEMENTED: Final[str] = "amqp:not-implemented"
RESOURCE_LOCKED: Final[str] = "amqp:resource-locked"
PRECONDITION_FAILED: Final[str] = "amqp:precondition-failed"
RESOURCE_DELETED: Final[str] = "amqp:resource-deleted"
ILLEGAL_STATE: Final[str] = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final[str] = "amqp:frame-size-too-small"

# §2.8.16 connection-error
CONNECTION_FORCED: Final[str] = "amqp:connection:forced"
CONNECTION_FRAMING_ERROR: Final[str] = "amqp:connection:framing-error"
CONNECTION_REDIRECT: Final[str] = "amqp:connection:redirect"

# §2.8.17 session-error
SESSION_WINDOW_VIOLATION: Final[str] = "amqp:session:window-violation"
SESSION_ERRANT_LINK: Final[str] = "amqp:session:errant-link"
SESSION_HANDLE_IN_USE: Final[str] = "amqp:session:handle-in-use"
SESSION_UNATTACHED_HANDLE: Final[str] = "amqp:session:unattached-handle"

# §2.8.18 link-error
LINK_DETACH_FORCED: Final[str] = "amqp:link:detach-forced"
LINK_TRANSFER_LIMIT_EXCEEDED: Final[str] = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final[str] = "amqp:link:message-size-exceeded"
LINK_REDIRECT: Final[str] = "amqp:link:redirect"
LINK_STOLEN: Final[str] = "amqp:link:stolen"

# §4.5.8 transaction-error
TRANSACTION_UNKNOWN_ID: Final[str] = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final[str] = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final[str] = "amqp:transaction:timeout"
