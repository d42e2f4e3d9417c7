"""Transactions of one session (part 4 of the standard): declared, joined, discharged over a coordinator link."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from annulet.broker.amqp10.errors import condition_for
from annulet.broker.amqp10.outcomes import revise_for_rejection
from annulet.broker.connections.sending import SendingCommit
from annulet.core.base.errors import CoreError
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
    from annulet.core.model.entry import QueueEntry
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link

CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn")
"""§4.5.7: several at a time in a session; none spans sessions or brokers."""

TRANSACTIONS_MAX: Final = 256
"""Open transactions of a session; clients use one or a few, and each may hold as much as the broker has memory."""

COORDINATOR_CREDIT: Final = 64
"""Declares and discharges a client may have under way."""


class OpenTransaction:
    """A transaction with its part of the session's deliveries."""

    __slots__ = ("core", "failure", "link", "outcomes", "reasons")

    def __init__(self, core: Transaction, link: Link) -> None:
        self.core = core
        self.link = link  # the coordinator link it was declared over
        self.outcomes: dict[int, Outcome] = {}  # by delivery id
        self.reasons: dict[QueueEntry, Rejected] = {}  # of rejections, told once it is committed
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
        if transaction.reasons:
            transaction.core.before_rejections(partial(_tell_reason, transaction.reasons))
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
        session.outcomes.forget_all(transaction.outcomes)
        first = last = -1
        told: Outcome | None = None
        for number, outcome in transaction.outcomes.items():  # neighbours together: there may be 65,536
            if number != last + 1 or outcome is not told:
                if told is not None:
                    session.transfers.settle_outgoing(session.engine_session, first, last, told)
                first, told = number, outcome
            last = number
        if told is not None:
            session.transfers.settle_outgoing(session.engine_session, first, last, told)

    def _forget(self, identifier: bytes, transaction: OpenTransaction) -> None:
        """A transaction ends: its deliveries are in none any more."""
        del self._open[identifier]
        for number in transaction.outcomes:
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
            return
        orphans = [number for number in transaction.outcomes if not session.outcomes.linked(number)]
        session.outcomes.carry_out_defaults(orphans)  # §4.4.4.2

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
        if len(enlisted) > len(transaction.outcomes):
            for place, number in enumerate(numbers):
                if enlisted.get(number, transaction) is not transaction:
                    return numbers[:place]
        return numbers

    def _enlist_all(self, transaction: OpenTransaction, numbers: list[int], outcome: Outcome) -> None:
        """Let deliveries come to one outcome. There may be very many: loops of the core are compiled."""
        core, session = transaction.core, self._session
        held, tags = session.outcomes.unsettled(numbers)
        if isinstance(outcome, Accepted):
            core.settle_all(tags, acknowledged=True, requeue=False)
        elif isinstance(outcome, Rejected):
            if outcome.error is not None:
                transaction.reasons.update([(session.unacknowledged[tag], outcome) for tag in tags])
            core.settle_all(tags, acknowledged=False, requeue=False)
        else:
            failed = isinstance(outcome, Modified) and outcome.delivery_failed
            for tag in tags:
                exclude = session.outcomes.excluded(session.unacknowledged[tag], outcome)
                core.give_back(tag, counted=failed, exclude=exclude)
        transaction.outcomes.update(dict.fromkeys(held, outcome))
        self._enlisted.update(dict.fromkeys(held, transaction))


def _tell_reason(reasons: dict[QueueEntry, Rejected], entry: QueueEntry) -> None:
    """Let a message that is about to be rejected tell why."""
    reason = reasons.get(entry)
    if reason is not None:
        revise_for_rejection(entry, reason)


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
