"""Changes of the catalogue that are committed together: those of one turn of the event loop, in a thread.

Changes take effect in memory at once; the answer to the client waits until the group is durable. Groups are run in
their order by the first of these: the thread of definitions, the thread that writes the message log (no message is
durable before its queue is), or the loop itself, where it reads the catalogue.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.store.files.errors import CatalogueError

    Statement = tuple[str, tuple[object, ...]]


class DefinitionGroup:
    """Statements of one transaction, and the actions, in reverse order, if the disk refuses them."""

    __slots__ = ("error", "number", "statements", "undo")

    def __init__(self, number: int) -> None:
        self.number = number
        self.statements: list[Statement] = []
        self.undo: list[Callable[[], None]] = []
        self.error: CatalogueError | None = None


class DefinitionGroups:
    """The open group, and those that wait to be run. All but :meth:`run_all` belongs to the loop.

    ``run`` commits one group and sets its ``error``.
    """

    def __init__(self, run: Callable[[DefinitionGroup], None]) -> None:
        self.changes = 0  # statements ever added
        self.done = 0  # number of the last group that was run
        self.open = DefinitionGroup(1)
        self._run = run
        self._sealed: deque[DefinitionGroup] = deque()
        self._failed: list[DefinitionGroup] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> bool:
        """Something is not durable yet."""
        return bool(self.open.statements) or self.done < self.open.number - 1

    def add(self, statement: str, values: tuple[object, ...]) -> None:
        """Add a statement to the open group."""
        self.open.statements.append((statement, values))
        self.changes += 1

    def seal(self) -> None:
        """Seal the open group; later statements are in another one."""
        if self.open.statements:
            self._sealed.append(self.open)
            self.open = DefinitionGroup(self.open.number + 1)

    def run_all(self) -> None:
        """Run the sealed groups in order, and return when they are durable. From any thread."""
        with self._lock:
            while self._sealed:
                group = self._sealed.popleft()
                self._run(group)
                if group.error is not None:
                    self._failed.append(group)
                self.done = group.number

    def take_failed(self) -> list[DefinitionGroup]:
        """Return the groups that the disk refused since the last call."""
        failed, self._failed = self._failed, []
        return failed
