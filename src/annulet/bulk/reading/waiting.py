"""Requests that wait at the broker for a message, so that an idle stream need not poll."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from annulet.bulk.protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

T = TypeVar("T")

WAIT_MILLISECONDS_MAX: Final = 10_000
"""Longest wait of one request: a stop of the broker or of a query has to wait for it, or cut it off."""

LOOK_SECONDS: Final = 0.1
"""Interval of checks of an awaited queue: a message is found that much later. A batch takes Spark longer."""


async def first_answer(
    queue: Queue,
    wait_milliseconds: int,
    ask: Callable[[], Awaitable[T]],
    has_something: Callable[[T], bool],
    stopping: Callable[[], bool],
) -> T:
    """Call ``ask``, and again when the queue has changed, until there is a result or the time is over. Returns the last
    answer.

    A broker that is ``stopping`` has no more time.

    Raises :class:`InvalidRequestError` for a wait that is too long, and exceptions of ``ask``.
    """
    if not 0 <= wait_milliseconds <= WAIT_MILLISECONDS_MAX:
        raise InvalidRequestError(
            f"wait_milliseconds {wait_milliseconds} is out of range; give 0 to {WAIT_MILLISECONDS_MAX}"
        )
    time = asyncio.get_running_loop().time
    deadline = time() + wait_milliseconds / 1000
    while True:
        before = _seen(queue)
        answer = await ask()
        if has_something(answer):
            return answer
        while _seen(queue) == before and time() < deadline and not stopping():  # noqa: ASYNC110 - queues tell nobody
            await asyncio.sleep(LOOK_SECONDS)
        if time() >= deadline or stopping():
            return answer


def _seen(queue: Queue) -> tuple[int, int, bool]:
    """Return a value that changes when a queue gets a message, new or returned, or is deleted."""
    return queue.next_sequence, queue.shown_count(), queue.deleted
