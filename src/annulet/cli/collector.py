"""How often Python's cyclic garbage collector runs in a broker process.

A broker has many long-lived objects and makes few cycles: nearly everything is freed by reference count. With the
interpreter's defaults the collector walks every waiting message repeatedly.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 1500
"""Objects made and not freed before the young generation is looked through, a fifth of a millisecond; the interpreter's
default is 700."""

MIDDLE_COLLECTIONS_MAX: Final = 3
"""Collections of the young generation before one of the middle, which then examines 6,000 objects at most: 0.6 ms of
the loop, some ms where messages are scattered in memory. With 20,000 it was up to 4.5 ms, and 10 to 37 beside others
that keep the processor's caches busy, and took longer in all. The default is 10. Each object is examined as often."""

OLD_COLLECTIONS_MAX: Final = 50_000
"""Collections of the middle generation before a full one; the default is 10.

A full one blocks the loop 0.3 ms for each thousand messages in memory, so there is none in practice. Ended objects
break their own cycles; the broker checks occasionally, when that is short, whether a cycle was left
(``broker/turns/late_collection.py``).
"""


def settle_collector() -> None:
    """Exclude the objects of start-up and recovery from all further collections, and collect less often.

    Before the broker listens: the collection blocks the loop for about 25 ms, and longer with a backlog in memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, MIDDLE_COLLECTIONS_MAX, OLD_COLLECTIONS_MAX)
