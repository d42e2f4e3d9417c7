"""The rows of a batch on their way into their queues, hidden, so many a turn; then the dead letters they cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.host.entering import Entering
from annulet.core.host.send_plan import Claims

if TYPE_CHECKING:
    from annulet.bulk.writing.encoding import PendingMessage
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.policies.staged_batches import HiddenBatch
    from annulet.core.routing.routes import Route


class RowFilling:
    """Fills the queues of one batch within a transaction of the effects.

    ``routes`` are the present ones of the messages: where one is the same for every message, a queue that was declared
    or bound since the batch began gets nothing of it, as it would get the end without the beginning. ``lost`` messages
    found no queue.
    """

    def __init__(
        self,
        host: VirtualHost,
        messages: list[tuple[PendingMessage, Route]],
        routes: dict[Route, Route | None],
        batch: HiddenBatch,
    ) -> None:
        self.lost = 0
        self._host = host
        self._messages = messages
        self._routes = routes
        self._batch = batch
        self._place = 0  # of the next message
        self._entering: Entering | None = None  # the one before, while it is not in all its queues
        self._letters = host.dead_letters.open_box()
        self._others = -1  # letters that left before those of this batch are sent

    def go_on(self, most: int, now: int) -> bool:
        """Put messages into ``most`` queues, or send dead letters. Returns whether there is more to do."""
        forwarder, batches = self._host.dead_letters, self._host.batches
        forwarder.collect(self._letters)
        batches.current = self._batch
        try:
            left = most
            while left > 0 and (self._entering is not None or self._place < len(self._messages)):
                left -= self._enter_some(left, now)
            if self._entering is not None or self._place < len(self._messages):
                return True
            if self._others < 0:
                self._others = forwarder.added()
            if not self._letters.empty and forwarder.sent_before(self._others):
                forwarder.send_inside(self._letters, now)
            return not self._letters.empty
        finally:
            batches.current = None
            forwarder.collect(None)

    def _enter_some(self, most: int, now: int) -> int:
        """Put the next message into some of its queues. Returns how many these were, at least 1."""
        if self._entering is None:
            item, known = self._messages[self._place]
            self._place += 1
            route = self._routes[known]
            current = route is not None and route.fixed and route.generation == self._host.generation
            if current and route is not None and len(route.queues) == 1:
                self._host.publisher.publish(item.message, route, now, forwarded=True)
                return 1
            self._entering = self._begin(item.message, route, now)
        entered = self._entering.go_on(most, now)
        if self._entering.done:
            self.lost += not self._entering.reached
            self._entering = None
        return max(1, entered)

    def _begin(self, message: Message, route: Route | None, now: int) -> Entering:
        entering = Entering(self._host.publisher)
        if route is None:
            return entering
        if route.fixed:
            entering.add_queues(message, route.queues)
            return entering
        current = self._host.renewed(route)
        if current is not None:
            for leg in self._host.publisher.plan(message, current, Claims(), forwarded=True):
                entering.add_leg(leg, now)
        return entering

    def end(self, now: int) -> None:
        """The transaction has ended, or has failed: nothing more is put into queues."""
        if self._entering is not None:
            self._entering.give_up()
            self._entering = None
        self._host.dead_letters.close_box(self._letters, now)
