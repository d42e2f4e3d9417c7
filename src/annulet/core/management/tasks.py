"""The operations and previews of a virtual host that are under way: each gets a slice in its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from annulet.core.base.errors import NotFound, PreconditionFailed

if TYPE_CHECKING:
    from annulet.core.management.operation import Operation, Preview

    Task: TypeAlias = Operation | Preview

RUNNING_MAX: Final = 100
"""Running tasks. Each has a reference to every message that was in its queue, or a row of it."""

ENDED_MAX: Final = 100
"""Tasks remembered after their end; the oldest is forgotten."""


class Tasks:
    """Tasks by number, from 1. The broker calls :meth:`step` once per turn while it returns true."""

    def __init__(self, *, running_max: int = RUNNING_MAX, ended_max: int = ENDED_MAX) -> None:
        self._running: dict[int, Task] = {}
        self._ended: dict[int, Task] = {}
        self._last = 0
        self._running_max = running_max
        self._ended_max = ended_max

    def add(self, task: Task) -> int:
        """Take a task and return its number. Raises :class:`PreconditionFailed` when too many are under way."""
        if len(self._running) >= self._running_max:
            raise PreconditionFailed(
                f"{len(self._running)} operations are under way, which is the most; wait for one or cancel one"
            )
        self._last += 1
        self._running[self._last] = task
        return self._last

    def step(self, now: int) -> bool:
        """Give one slice to the task whose turn it is. Returns whether there is more to do.

        A task that raises is cancelled, and its error passed on.
        """
        if not self._running:
            return False
        number = next(iter(self._running))
        task = self._running.pop(number)
        try:
            ended = task.step(now)
        except BaseException:  # a defect: it is not tried again
            task.cancel(now)
            self._remember(number, task)
            raise
        if ended:
            self._remember(number, task)
        else:
            self._running[number] = task
        return bool(self._running)

    def task(self, number: int) -> Task:
        """Return a task, under way or ended. Raises :class:`NotFound`."""
        task = self._running.get(number) or self._ended.get(number)
        return self.unknown(number) if task is None else task

    def unknown(self, number: int) -> NoReturn:
        """Raise :class:`NotFound` for a task that does not exist, or that the user may not see."""
        raise NotFound(f"no operation {number}; the last one is {self._last}, and {self._ended_max} are remembered")

    def cancel(self, number: int, now: int) -> Task:
        """End a task where it is; one that has ended stays as it is. Raises :class:`NotFound`."""
        task = self.task(number)
        task.cancel(now)
        if self._running.pop(number, None) is not None:
            self._remember(number, task)
        return task

    def cancel_all(self, now: int) -> None:
        """End everything, so that its progress is in the audit trail: the broker is about to stop."""
        for number in list(self._running):
            self.cancel(number, now)

    def numbers(self) -> list[int]:
        """Return the numbers of all tasks, those under way first."""
        return [*self._running, *self._ended]

    @property
    def running(self) -> int:
        """How many are under way."""
        return len(self._running)

    @property
    def waiting(self) -> bool:
        """Return whether none of these has anything to do until the disk gives more."""
        return all(task.waiting for task in self._running.values())

    def _remember(self, number: int, task: Task) -> None:
        self._ended[number] = task
        if len(self._ended) > self._ended_max:
            del self._ended[next(iter(self._ended))]
