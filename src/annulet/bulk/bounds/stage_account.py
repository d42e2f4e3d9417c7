"""How many bytes of stages wait, of each user and of all, against the limits. Safe to use from several threads."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from annulet.bulk.protocol.errors import OverLimitError

LIMIT_USER: Final = "max_stage_bytes_per_user"
LIMIT_ALL: Final = "max_stage_bytes"

Place = tuple[str, str]
"""Folder and name of a stage."""


class StageAccount:
    """Bytes of the complete stages and of those being written.

    ``of_user_max`` and ``of_all_max`` are the settings of these limits, in bytes. ``remedy`` is the way to make more
    room other than raising them.
    """

    def __init__(self, of_user_max: int, of_all_max: int, remedy: str = "") -> None:
        self._remedy = remedy
        self._of_user_max = of_user_max
        self._of_all_max = of_all_max
        self._lock = threading.Lock()
        self._stages: dict[Place, tuple[str, int]] = {}  # owner and bytes
        self._by_owner: Counter[str] = Counter()
        self._total = 0

    def figures(self) -> tuple[int, int]:
        """Return the number of complete stages, and the bytes of all, including those being written."""
        with self._lock:
            return len(self._stages), self._total

    def begin(self, owner: str) -> StageEntry:
        """Return the entry of a new stage of ``owner``."""
        return StageEntry(self, owner)

    def restore(self, place: Place, owner: str, size: int) -> None:
        """Count a stage of an earlier run of the broker. It may exceed the limits, which apply to new ones only."""
        with self._lock:
            self._put(place, owner, size)
            self._add(owner, size)

    def reserve(self, owner: str, size: int) -> None:
        """Count ``size`` more bytes of ``owner``. Raises :class:`OverLimitError` when a limit does not allow them."""
        with self._lock:
            of_owner, of_all = self._by_owner[owner] + size, self._total + size
            if of_owner <= self._of_user_max and of_all <= self._of_all_max:
                self._add(owner, size)
                return
        remedy = "commit or abort batches under way, write smaller ones (maxMessagesPerTrigger, maxBytesPerTrigger)"
        if of_owner > self._of_user_max:
            raise OverLimitError(
                f"the stages of this user would need {of_owner} bytes, {self._of_user_max} are allowed "
                f"({LIMIT_USER}); {remedy}, or {self._remedy or f'raise limits.{LIMIT_USER}'}",
                LIMIT_USER,
            )
        raise OverLimitError(
            f"the stages of all users would need {of_all} bytes, {self._of_all_max} are allowed ({LIMIT_ALL}); "
            f"{remedy}, or {self._remedy or f'raise limits.{LIMIT_ALL}'}",
            LIMIT_ALL,
        )

    def keep(self, place: Place, owner: str, size: int) -> None:
        """Assign the reserved bytes to the complete stage, which replaces one of the same name."""
        with self._lock:
            self._put(place, owner, size)

    def release(self, owner: str, size: int) -> None:
        """Give reserved bytes back."""
        with self._lock:
            self._add(owner, -size)

    def drop(self, place: Place) -> None:
        """Forget a stage; an unknown one is ignored."""
        with self._lock:
            owner, size = self._stages.pop(place, ("", 0))
            self._add(owner, -size)

    def _put(self, place: Place, owner: str, size: int) -> None:
        before, former = self._stages.get(place, (owner, 0))
        self._add(before, -former)
        self._stages[place] = owner, size

    def _add(self, owner: str, size: int) -> None:
        self._total += size
        self._by_owner[owner] += size
        if not self._by_owner[owner]:
            del self._by_owner[owner]


class StageEntry:
    """The bytes of one stage while it is written. Used by one thread."""

    def __init__(self, account: StageAccount, owner: str) -> None:
        self._account = account
        self._owner = owner
        self._size = 0

    def add(self, size: int) -> None:
        """Count the next batch. Raises :class:`OverLimitError`; the count so far stays until :meth:`fail`."""
        self._account.reserve(self._owner, size)
        self._size += size

    def keep(self, place: Place) -> None:
        """The stage is whole."""
        self._account.keep(place, self._owner, self._size)

    def fail(self) -> None:
        """The stage was not written."""
        self._account.release(self._owner, self._size)
