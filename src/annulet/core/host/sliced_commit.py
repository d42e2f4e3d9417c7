"""Commits that are too large for one turn of the event loop: done in slices, with nothing to be seen of them before.

The sends are decided first, then put into their queues as a hidden batch (:mod:`annulet.core.policies.staged_batches`),
then the deliveries are settled, all within one transaction of the effects that other work suspends. With its end the
sends are shown in one call. So the commit is durable as a whole or not at all, and no client gets, browses or counts a
part of it. Limits are asked for all of it before the first message enters; messages of others that arrive
meanwhile do not change the answer.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import CoreError
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.host.commit_plan import ALL_OPERATIONS, CommitPlan, renew
from annulet.core.host.dead_letters import FORWARDED_PER_SLICE
from annulet.core.host.entering import Entering
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.send_plan import ROUTED
from annulet.core.model.compact_messages import by_queue, entry_in
from annulet.core.policies.staged_batches import HiddenBatch, take_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.host.commit_plan import Operations, Send
    from annulet.core.host.letter_outbox import Outbox
    from annulet.core.host.send_plan import Leg
    from annulet.core.host.transaction import Transaction
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.routes import Route

COMMIT_AT_ONCE_MAX: Final = 1000
"""Operations up to which a commit is done in the call that asks for it: 5 to 10 ms of the loop."""

SLICE_PLANNED: Final = 500
"""Operations that are decided in one slice: 1 to 3 ms of the loop, where filters and limits have to be asked."""

SLICE_OPERATIONS: Final = 200
"""Messages for queues, or settlements, of one slice: 1 to 2 ms of the loop, rejections with their records 5 ms."""


class CommitWaiter:
    """Gets the result of a commit that is done in slices."""

    def committed(self, unroutable: list[Message]) -> None:
        """Everything took effect; no queue took these messages."""
        raise NotImplementedError

    def commit_failed(self, error: Exception) -> None:
        """Nothing took effect, for a reason of ``Transaction.commit``, of the effects, or a defect."""
        raise NotImplementedError


def commit_in_turns(
    transaction: Transaction,
    host: VirtualHost,
    now: int,
    waiter: CommitWaiter,
    *,
    operations_max: int = 0,
) -> list[Message] | None:
    """Commit a small transaction as ``Transaction.commit``, which says what this returns and raises.

    A larger one is done in slices and its result given to ``waiter``: then ``None`` is returned.
    """
    collected = transaction.hand_over()
    try:
        plan = CommitPlan(host, collected, operations_max)
        little = collected.count <= COMMIT_AT_ONCE_MAX and not plan.go_on(COMMIT_AT_ONCE_MAX)
    except CoreError:
        transaction.rolled_back(collected, now)
        raise
    if little and plan.operations <= COMMIT_AT_ONCE_MAX:
        return transaction.carry_out(host, collected, plan, now)
    host.effects.later(Committing(transaction, host, collected, plan, waiter), now)
    return None


def publish_in_turns(one: Transaction, host: VirtualHost, now: int, waiter: CommitWaiter) -> int:
    """Publish the one message of a transaction as ``VirtualHost.publish`` does, and return and raise as that.

    To very many queues it goes in slices, hidden until it is in all, and ``waiter`` gets the result: -1 is returned.
    """
    collected = one.hand_over()
    plan = CommitPlan(host, collected, 0, alone=True)
    plan.go_on(ALL_OPERATIONS)
    ((route, legs),) = plan.plans
    if plan.operations > COMMIT_AT_ONCE_MAX:
        host.effects.later(Committing(one, host, collected, plan, waiter), now)
        return -1
    if route is None:
        return 0
    return (
        host.publisher.publish(collected.sends[0].message, route, now)
        if legs is None
        else host.publisher.apply(legs, now)
    )


class Committing(SlicedWork):
    """One commit. Its sends are in the order of sending, and so are its settlements.

    Dead letters of it follow these, in the same transaction. ``unroutable`` are messages that no queue took.
    """

    def __init__(
        self,
        transaction: Transaction,
        host: VirtualHost,
        collected: Operations,
        plan: CommitPlan,
        waiter: CommitWaiter,
    ) -> None:
        super().__init__()
        self._transaction = transaction
        self._host = host
        self._collected = collected
        self._plan = plan
        self._waiter = waiter
        self._batch = HiddenBatch()
        self.unroutable: list[Message] = []
        self._planned = self._has_turn = self._began = self._closing = self._ended = False
        self._bracket = 0  # the suspended transaction of the effects
        self._sent = 0  # sends that are in their queues
        self._entering: Entering | None = None  # the next send, while it enters its queues
        self._promised = False  # the log has room for the rest
        self._remembers = False  # addresses remember ids of it
        self._settling, self._rejecting = collected.settlements.slots(), collected.dropped.slots()
        self._settled = self._rejected = 0  # of these
        self._letters: Outbox | None = None  # from the first slice to the last
        self._others = -1  # letters that left before those of this commit are sent

    def step(self, now: int) -> bool:
        """Do the next part."""
        if self._ended:
            return False
        try:
            if not self._planned:
                self._planned = not self._plan.go_on(SLICE_PLANNED)
                return True
            if not self._has_turn:
                self._has_turn = True
                return self._host.batches.begin(partial(self._host.effects.later, self, now))
            return self._carry_out(now)
        except Exception as error:  # noqa: BLE001 - a refusal, the disk's, or a defect: nothing may take effect
            self._fail(error, now)
            return False

    def abandon(self, now: int) -> None:
        """Undo the commit: the end of one that failed has met a defect."""
        if not self._ended:
            effects = self._host.effects
            if self._began and not effects.bracketed():
                effects.resume_transaction(self._bracket)
            self._fail(RuntimeError("the commit was abandoned"), now)

    def _carry_out(self, now: int) -> bool:
        """Do the next part within the transaction. After the last end it, and show all."""
        effects, forwarder = self._host.effects, self._host.dead_letters
        if self._only_letters and not forwarder.sent_before(self._others):
            return True
        if self._letters is None:
            self._letters = forwarder.open_box()
            self._began = True
            effects.begin_transaction()
        else:
            effects.resume_transaction(self._bracket)
        forwarder.collect(self._letters)
        try:
            if not self._do_part(now):
                self._send_letters(self._letters, now)
                if self._letters.empty:
                    self._closing = True
                    effects.end_transaction()
        finally:
            forwarder.collect(None)
        if self._closing:
            self._show(now)
            return False
        self._bracket = effects.suspend_transaction()
        return True

    @property
    def _only_letters(self) -> bool:
        """Return whether only its dead letters are left."""
        return self._others >= 0

    def _do_part(self, now: int) -> bool:
        """Do some of the sends or settlements. Returns whether there were any left."""
        collected, session = self._collected, self._transaction.session
        if self._sent < len(collected.sends):
            self._fill(partial(self._send_some, now))
            return True
        if not self._promised:
            self._promised = True
            self._plan.promise(sends=False)  # or what is settled from here on would come back with the next start only
        if self._settled < len(collected.settlements):
            following = [entry_in(slot) for slot in islice(self._settling, SLICE_OPERATIONS)]
            self._settled += len(following)
            session.acknowledge_entries(following, now)
        elif self._rejected < len(collected.dropped):
            dropped = collected.drop(islice(self._rejecting, SLICE_OPERATIONS // 2))
            self._rejected += len(dropped)
            self._fill(partial(session.reject_entries, dropped, now, requeue=False))
        else:
            return False
        return True

    def _send_letters(self, box: Outbox, now: int) -> None:
        """Send some of the dead letters, once those of others that left before are on their way."""
        forwarder = self._host.dead_letters
        if self._others < 0:
            self._others = forwarder.added()
        if not box.empty and forwarder.sent_before(self._others):
            self._fill(partial(forwarder.send_inside, box, now, FORWARDED_PER_SLICE))

    def _fill(self, arrive: Callable[[], object]) -> None:
        """Let messages enter queues, hidden."""
        batches = self._host.batches
        batches.current = self._batch
        try:
            arrive()
        finally:
            batches.current = None

    # ------------------------------------------------------------------ sends

    def _send_some(self, now: int) -> None:
        """Put messages into so many queues as fit a slice: the first ones of a message with very many of them."""
        left = SLICE_OPERATIONS
        while left > 0 and self._sent < len(self._collected.sends):
            if self._entering is None:
                self._entering = self._enter(self._collected.sends[self._sent], self._plan.plans[self._sent], now)
                left -= 1
            left -= self._entering.go_on(left, now)
            if self._entering.done:
                self._remembers = self._remembers or self._entering.remembers
                self._entering = None
                self._sent += 1

    def _enter(self, send: Send, plan: tuple[Route | None, list[Leg] | None], now: int) -> Entering:
        """Return what of a send enters queues; do the rest of it."""
        host, message, (route, legs) = self._host, send.message, plan
        entering = Entering(host.publisher)
        if send.cancels:
            cancel_scheduled(host, message, send.route, send.cancels, now, further_keys=send.further_keys)
            return entering
        if legs is not None:
            for leg in legs:
                renew(host.publisher, leg)
                entering.add_leg(leg, now)
        elif route is not None:
            entering.add_queues(message, route.queues)
        if not entering.reached:
            self.unroutable.append(message)
        return entering

    # ------------------------------------------------------------------ the end

    def _show(self, now: int) -> None:
        """Everything is done: return the requeued messages, and show the sends, in one call."""
        self._ended = True
        session, collected = self._transaction.session, self._collected
        try:
            if collected.requeued:
                session.requeue(list(collected.requeued.slots()), now)
            by_place: dict[tuple[QueueState, bool, Consumer | None], list[Slot]] = {}
            for back in collected.returns:
                exclude = None if back.exclude is None or back.exclude.cancelled else back.exclude
                for queue, slots in by_queue(back.taken.slots()).items():
                    by_place.setdefault((queue, back.counted, exclude), []).extend(slots)
            for (queue, counted, exclude), slots in by_place.items():
                queue.return_entries(slots, now, counted=counted, exclude=exclude)
            self._batch.show(now)
            if by_place:
                session.wake(now)
        finally:
            self._leave(now)
        self._waiter.committed(self.unroutable)

    def _leave(self, now: int) -> None:
        """Let the next batch have its turn."""
        if self._letters is not None:
            self._host.dead_letters.close_box(self._letters, now)
        if self._has_turn:
            self._host.batches.end()

    def _fail(self, error: Exception, now: int) -> None:
        """Undo all: the messages were hidden, and go; deliveries are unsettled again.

        Those that were settled already, before a defect or before the disk refused the end, come back with the next
        start.
        """
        if self._ended:
            raise error  # all is done, and what failed is its answer
        self._ended = True
        if self._began:
            if not self._closing:  # else the effects have aborted it
                self._host.effects.abort_transaction()
            self._forget()
            take_back(self._batch, self._host.effects, now)
        self._transaction.rolled_back(self._collected, now)
        self._leave(now)
        self._waiter.commit_failed(error)

    def _forget(self) -> None:
        """Let addresses count no queue that a message will not reach, and remember no id: all of it may be repeated."""
        host = self._host
        if self._entering is not None:
            self._remembers = self._remembers or self._entering.remembers
            self._entering.give_up()
        if not self._remembers:
            return
        for _, legs in self._plan.plans[: self._sent + 1]:
            for leg in legs or ():
                if leg.duplicate_id and leg.fate == ROUTED:
                    host.publisher.duplicates.take_back(leg.address, leg.duplicate_id)
