"""Reply queues: the form of RabbitMQ's direct reply-to here.

A channel that consumes from :data:`REPLY_QUEUE` gets a queue of its own, whose name ends in a token that cannot be
guessed, and its requests carry that name as their reply-to. For replies by any protocol it is a queue like any other;
only its channel consumes from it, and it is deleted with that consumer. Policies and address settings are not for it:
an answer that a ring drops or a filter keeps out is lost to a client that waits.

The token is what keeps other clients from answering, so no list, metric, event or loss names it: figures of queues have
the sums of all reply queues, and losses :data:`REPLY_QUEUE` as their queue.
"""

from __future__ import annotations

import secrets
from typing import Final

REPLY_QUEUE: Final = "amq.rabbitmq.reply-to"
"""The name a client consumes from, and gives as the reply-to of its requests (RabbitMQ)."""

REPLY_PREFIX: Final = f"{REPLY_QUEUE}."

TOKEN_BYTES: Final = 24
"""Random bytes in a name: it is all that keeps others from sending answers, and 192 bits are not guessed."""


def new_reply_name() -> str:
    """Return a name for the reply queue of one channel."""
    return f"{REPLY_PREFIX}{secrets.token_urlsafe(TOKEN_BYTES)}"


def is_reply_name(name: str) -> bool:
    """Return whether a queue of this name is, or was, the reply queue of a channel."""
    return name.startswith(REPLY_PREFIX)


def public_name(name: str) -> str:
    """Return the name of a queue as others than its clients may see it: that of a reply queue without the token."""
    return REPLY_QUEUE if is_reply_name(name) else name
