"""Arguments of queues, consumers and exchanges: the names peers use, read into one canonical form.

Nothing is ignored silently: an unknown queue argument is refused with the nearest known name, a value with the allowed
ones, and a contradictory combination with the remedy.
"""

from __future__ import annotations

from annulet.core.configuration.arguments.combinations import REFUSED, Combination, refusal_for
from annulet.core.configuration.arguments.consumers import parse_consumer_arguments, parse_consumer_priority
from annulet.core.configuration.arguments.exchanges import parse_alternate_exchange
from annulet.core.configuration.arguments.queues import describe, parse_queue_arguments, read_declaration
from annulet.core.configuration.arguments.table import CHANGEABLE
from annulet.core.configuration.arguments.values import Arguments

__all__ = [
    "CHANGEABLE",
    "REFUSED",
    "Arguments",
    "Combination",
    "describe",
    "parse_alternate_exchange",
    "parse_consumer_arguments",
    "parse_consumer_priority",
    "parse_queue_arguments",
    "read_declaration",
    "refusal_for",
]
