"""Work that is too long for one turn of the event loop, done a slice at a time.

The state that others see is right before the first slice: the rest is never examined, or must not be seen half done.
The core has no loop, so it hands the work to ``Effects.later``.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

AT_ONCE_MAX: Final = 2000
"""Messages up to which work is done in the call that asks for it: some 5 ms of the loop."""

SLICE_MESSAGES: Final = 500
"""Messages of one slice: 1 to 2 ms of the loop."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SlicedWork:
    """One piece of work. ``reads`` says that it reads records which the log was told to let go."""

    def __init__(self) -> None:
        self.reads = False

    def step(self, now: int) -> bool:
        """Do one slice at ``now`` (milliseconds since 1970). Returns whether there is more to do."""
        raise NotImplementedError

    def abandon(self, now: int) -> None:
        """A defect has met a slice, and there will be no other: let no other work wait for this."""
