"""Transactions of one session (part 4 of the standard): declared, joined, discharged over a coordinator link."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Final

from annulet.broker.amqp10.errors import condition_for
from annulet.broker.amqp10.outcomes import revise_for_rejection
from annulet.broker.connections.sending import SendingCommit
from annulet.core.base.errors import CoreError
from annulet.core.base.sliced_work import AT_ONCE_MAX, SlicedWork
from annulet.core.host.transaction import Transaction
from annulet.wire.amqp10.frames import terminus as standard
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Declare,
    Declared,
    Discharge,
    Error,
    Modified,
    Outcome,
    Rejected,
    TransactionalState,
)
from annulet.wire.amqp10.messages.sections import VALUE, split_message
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.composite import decode_composite
from annulet.wire.amqp10.types.errors import DecodeError, LinkFault, SessionFault

if TYPE_CHECKING:
    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link

CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn")
"""§4.5.7: several at a time in a session; none spans sessions or brokers."""

TRANSACTIONS_MAX: Final = 256
"""Open transactions of a session; clients use one or a few, and each may hold as much as the broker has memory."""

COORDINATOR_CREDIT: Final = 64
"""Declares and discharges a client may have under way."""


class Reasons:
    """Why deliveries of a transaction are rejected, in the order in which it took them: told when it is committed."""

    def __init__(self) -> None:
        self.any = False
        self._left: deque[tuple[int, Rejected]] = deque()  # how many, and why
        self._told = 0  # of the first of these

    def add(self, count: int, outcome: Rejected) -> None:
        """So many further ones are rejected for this reason."""
        if count:
            self._left.append((count, outcome))
            self.any = self.any or outcome.error is not None

    def tell(self, entry: QueueEntry) -> None:
        """Let the next message, which is about to be rejected, tell why."""
        count, outcome = self._left[0]
        self._told += 1
        if self._told == count:
            self._left.popleft()
            self._told = 0
        revise_for_rejection(entry, outcome)


class OpenTransaction:
    """A transaction with its part of the session's deliveries."""

    __slots__ = ("core", "count", "failure", "link", "outcomes", "reasons")

    def __init__(self, core: Transaction, link: Link) -> None:
        self.core = core
        self.link = link  # the coordinator link it was declared over
        self.outcomes: list[tuple[Outcome, list[int]]] = []  # with the delivery ids that come to it
        self.count = 0  # of these ids
        self.reasons = Reasons()
        self.failure = ""  # why it can only be rolled back


class Discharging(SendingCommit):
    """The discharge of a transaction, answered when it is done and durable, or refused."""

    def __init__(
        self,
        coordinator: Coordinator,
        session: Amqp10Session,
        identifier: bytes,
        transaction: OpenTransaction,
        number: int,
    ) -> None:
        super().__init__(session)
        self._session = session
        self._coordinator = coordinator
        self._identifier = identifier
        self._transaction = transaction
        self._number = number  # delivery id of the discharge
        self._needs_disk = transaction.core.durable_bytes > 0

    def tell_done(self) -> None:
        """Settle the deliveries, and accept the discharge."""
        self._coordinator.discharged(self._identifier, self._transaction)
        self._session.answer_when_durable(self._number, stored=self._needs_disk)

    def refuse(self, error: Exception) -> None:
        """Reject the discharge."""
        session = self._session
        if session.closed:
            return
        answer = self._coordinator.refused(self._identifier, self._transaction, error)
        session.transfers.settle_incoming(session.engine_session, self._number, self._number, answer)
        session.connection.mark_dirty()


class Orphans(SlicedWork):
    """Deliveries of a transaction that was rolled back: those that the peer cannot settle any more come to the default
    outcomes of their sources (§4.4.4.2). It has settled them, or their link is gone.

    Found in slices, and returned together: later messages must not come between them.
    """

    def __init__(self, session: Amqp10Session, numbers: list[int]) -> None:
        super().__init__()
        self._session = session
        self._outcomes = session.outcomes
        self._numbers = numbers
        self._looked_at = 0  # of these
        self._found: list[tuple[Outcome, list[Slot]]] = []

    def step(self, now: int) -> bool:
        """Look at the next ones; after the last let those that were found come to their outcomes."""
        if self._session.closed:  # which returned what was in its table
            self.abandon(now)
            return False
        outcomes, start = self._outcomes, self._looked_at
        self._looked_at += AT_ONCE_MAX
        some = self._numbers[start : self._looked_at]
        for default, group in outcomes.by_default([number for number in some if not outcomes.linked(number)]):
            taken = outcomes.take(group)
            if self._found and self._found[-1][0] is default:
                self._found[-1][1].extend(taken)
            else:
                self._found.append((default, taken))
        if self._looked_at < len(self._numbers):
            return True
        for default, taken in self._found:
            outcomes.end(taken, default)
        return False

    def abandon(self, now: int) -> None:
        """Return those that were found: they are in no table."""
        for _, taken in self._found:
            self._session.give_back(taken, now)


class Coordinator:
    """The transactions of one session."""

    def __init__(self, session: Amqp10Session) -> None:
        self._session = session
        self._open: dict[bytes, OpenTransaction] = {}
        self._enlisted: dict[int, OpenTransaction] = {}  # by delivery id, deliveries that are in one of these
        self._declared = 0

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    # ------------------------------------------------------------------ links

    def attach(self, link: Link) -> None:
        """Accept a coordinator link."""
        engine = self._session.engine
        link.owner = self
        engine.endpoints.settle_first(link)  # the answers to declare and discharge are settled at once (§4.1)
        accepted = engine.endpoints.accept_attach(
            link, source=link.source, target=standard.Coordinator(capabilities=list(CAPABILITIES))
        )
        if accepted:
            engine.credit.grant_credit(link, COORDINATOR_CREDIT)

    def detached(self, link: Link) -> None:
        """Roll back transactions declared over a link and not discharged (§4.3)."""
        for identifier, transaction in list(self._open.items()):
            if transaction.link is link:
                self._rollback(identifier, transaction)

    def receive(self, link: Link, delivery: IncomingDelivery) -> None:
        """Declare or discharge. Raises LinkFault for any other message."""
        session = self._session
        if delivery.settled:  # §4.2, §4.3: the answer could not be told
            raise LinkFault(conditions.NOT_ALLOWED, "message to the coordinator is settled; send it unsettled")
        try:
            command = read_command(delivery.payload)
        except DecodeError as error:
            raise LinkFault(conditions.DECODE_ERROR, f"message to the coordinator: {error.description}") from error
        if isinstance(command, Declare):
            self._declare(link, delivery)
        elif isinstance(command, Discharge):
            self._discharge(command, delivery)
        else:
            raise LinkFault(
                conditions.NOT_IMPLEMENTED,
                f"message to the coordinator is {type(command).__name__}; send declare or discharge",
            )
        if link.credit <= COORDINATOR_CREDIT // 2:
            session.credit.grant_credit(link, COORDINATOR_CREDIT)

    # ------------------------------------------------------------------ begin and end

    def _declare(self, link: Link, delivery: IncomingDelivery) -> None:
        if len(self._open) >= TRANSACTIONS_MAX:
            self._answer(
                delivery,
                Rejected(
                    Error(
                        conditions.RESOURCE_LIMIT_EXCEEDED,
                        f"{TRANSACTIONS_MAX} transactions of this session are open; discharge some first",
                    )
                ),
            )
            return
        self._declared += 1
        identifier = self._declared.to_bytes(8, "big")
        self._open[identifier] = OpenTransaction(Transaction(self._session), link)
        self._answer(delivery, Declared(txn_id=identifier))

    def _discharge(self, command: Discharge, delivery: IncomingDelivery) -> None:
        session = self._session
        identifier = bytes(command.txn_id)
        transaction = self._open.get(identifier)
        if transaction is None:
            self._answer(delivery, Rejected(unknown(identifier)))
            return
        if self._is_partial(identifier):
            self._rollback(identifier, transaction)
            text = f"transaction {identifier.hex()} is discharged before all transfers of a message in it have come"
            raise LinkFault(conditions.TRANSACTION_ROLLBACK, text)  # §4.4.1
        if command.fail:
            self._rollback(identifier, transaction)
            self._answer(delivery, Accepted())
            return
        if transaction.failure:
            self._rollback(identifier, transaction)
            text = f"rolled back: {transaction.failure}"
            self._answer(delivery, Rejected(Error(conditions.TRANSACTION_ROLLBACK, text)))
            return
        if transaction.reasons.any:
            transaction.core.before_rejections(transaction.reasons.tell)
        commit = Discharging(self, session, identifier, transaction, delivery.delivery_id)
        try:
            if session.commit(transaction.core, commit):
                commit.tell_done()
        except CoreError as error:
            commit.refuse(error)

    def discharged(self, identifier: bytes, transaction: OpenTransaction) -> None:
        """A transaction was committed: its deliveries are settled."""
        session = self._session
        self._forget(identifier, transaction)
        for outcome, numbers in transaction.outcomes:
            session.outcomes.forget_all(numbers)
            first = last = numbers[0]
            for number in numbers:  # neighbours together: there may be 65,536
                if number > last + 1:
                    session.transfers.settle_outgoing(session.engine_session, first, last, outcome)
                    first = number
                last = number
            session.transfers.settle_outgoing(session.engine_session, first, last, outcome)

    def _forget(self, identifier: bytes, transaction: OpenTransaction) -> None:
        """A transaction ends: its deliveries are in none any more."""
        del self._open[identifier]
        if len(self._enlisted) == transaction.count:
            self._enlisted.clear()
            return
        for _, numbers in transaction.outcomes:
            for number in numbers:
                del self._enlisted[number]

    def refused(self, identifier: bytes, transaction: OpenTransaction, error: Exception) -> Outcome:
        """Nothing of a transaction was done: it is rolled back. Returns the answer."""
        self._rollback(identifier, transaction)
        text = f"rolled back: {condition_for(error)}: {error}" if isinstance(error, CoreError) else "rolled back"
        return Rejected(Error(conditions.TRANSACTION_ROLLBACK, text))

    def _rollback(self, identifier: bytes, transaction: OpenTransaction) -> None:
        """Forget the sends; deliveries that the peer had settled, or whose link is gone, return to their queue.

        The rest is unsettled as before.
        """
        session = self._session
        self._forget(identifier, transaction)
        transaction.core.rollback()
        if session.closed:
            return  # it returns all
        work = Orphans(session, [number for _, numbers in transaction.outcomes for number in numbers])
        if work.step(session.connection.now):
            session.host.effects.later(work, session.connection.now)

    def rollback_all(self) -> None:
        """Roll back every open transaction as the session ends, which then returns the deliveries."""
        transactions, self._open, self._enlisted = self._open, {}, {}
        for transaction in transactions.values():
            transaction.core.rollback()

    def _answer(self, delivery: IncomingDelivery, state: Outcome) -> None:
        session = self._session
        session.transfers.settle_incoming(session.engine_session, delivery.delivery_id, delivery.delivery_id, state)

    def _is_partial(self, identifier: bytes) -> bool:
        """Return whether a message in a transaction is still arriving."""
        arriving = [link.receiving.state for link in self._session.targets if link.receiving is not None]
        return any(isinstance(state, TransactionalState) and state.txn_id == identifier for state in arriving)

    # ------------------------------------------------------------------ work inside

    def holds(self, number: int) -> bool:
        """Return whether a delivery is to come to its outcome with one of the open transactions."""
        return number in self._enlisted

    def find(self, identifier: bytes) -> OpenTransaction | None:
        """Return an open transaction."""
        return self._open.get(bytes(identifier))

    def enlist(self, numbers: list[int], state: TransactionalState) -> None:
        """Let deliveries come to an outcome when a transaction commits (§4.4.2)."""
        session = self._session
        transaction = self.find(state.txn_id)
        if transaction is None:
            raise SessionFault(conditions.TRANSACTION_UNKNOWN_ID, unknown(state.txn_id).description or "")
        free = self._free(numbers, transaction)
        given = state.outcome
        if isinstance(given, Outcome):
            self._enlist_all(transaction, free, given)
        else:
            for outcome, group in session.outcomes.by_default(free):
                self._enlist_all(transaction, group, outcome)
        if len(free) < len(numbers):
            text = f"delivery {numbers[len(free)]} has its outcome in another transaction that is not discharged"
            session.endpoints.detach(  # §4.4.2
                transaction.link, closed=True, condition=conditions.TRANSACTION_ROLLBACK, description=text
            )

    def _free(self, numbers: list[int], transaction: OpenTransaction) -> list[int]:
        """Return the deliveries before the first one that is in another transaction."""
        enlisted = self._enlisted
        if len(enlisted) > transaction.count:
            for place, number in enumerate(numbers):
                if enlisted.get(number, transaction) is not transaction:
                    return numbers[:place]
        return numbers

    def _enlist_all(self, transaction: OpenTransaction, numbers: list[int], outcome: Outcome) -> None:
        """Let deliveries come to one outcome. There may be very many: loops of the core are compiled."""
        core, outcomes = transaction.core, self._session.outcomes
        tags = outcomes.tags_of(numbers)
        if isinstance(outcome, Accepted):
            taken = core.settle_held(tags, acknowledged=True)
        elif isinstance(outcome, Rejected):
            taken = core.settle_held(tags, acknowledged=False)
            transaction.reasons.add(len(taken), outcome)
        elif isinstance(outcome, Modified):
            taken = self._enlist_modified(transaction, tags, outcome)
        else:
            taken = core.give_back_held(tags, counted=False)
        if len(taken) < len(tags):  # some are in a transaction already, or were returned
            there = set(taken)
            numbers = [number for number, tag in zip(numbers, tags, strict=True) if tag in there]
        if not numbers:
            return
        transaction.outcomes.append((outcome, numbers))
        transaction.count += len(numbers)
        enlisted = dict.fromkeys(numbers, transaction)
        if self._enlisted:
            self._enlisted.update(enlisted)
        else:
            self._enlisted = enlisted

    def _enlist_modified(self, transaction: OpenTransaction, tags: list[int], outcome: Modified) -> list[int]:
        """Let deliveries go back modified. Returns those that were held."""
        core, session = transaction.core, self._session
        if not outcome.undeliverable_here:
            return core.give_back_held(tags, counted=outcome.delivery_failed)
        taken: list[int] = []
        for holder, group in groupby(tags, session.unacknowledged.holder):
            exclude = session.outcomes.excluded(holder, outcome)
            taken += core.give_back_held(list(group), counted=outcome.delivery_failed, exclude=exclude)
        return taken


def read_command(payload: bytes) -> object:
    """Return what the amqp-value of a message to the coordinator holds (§4.5). Raises DecodeError."""
    sections = split_message(payload)
    if sections.body_kind != VALUE:
        raise DecodeError("its body is no amqp-value section")
    section = sections.body[0]
    command, _ = decode_composite(payload, section.content, section.end, "amqp-value")
    return command


def unknown(identifier: bytes) -> Error:
    """Return the error for a transaction that is not open."""
    return Error(
        conditions.TRANSACTION_UNKNOWN_ID,
        f"transaction {bytes(identifier).hex()} is not open in this session; declare it on this session first",
    )
