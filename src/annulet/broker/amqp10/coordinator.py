"""Transactions of one session (part 4 of the standard): declared, joined, discharged over a coordinator link."""

from __future__ import annotations

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

    __slots__ = ("core", "failure", "link", "outcomes", "rejections")

    def __init__(self, core: Transaction, link: Link) -> None:
        self.core = core
        self.link = link  # the coordinator link it was declared over
        self.outcomes: dict[int, Outcome] = {}  # by delivery id
        self.rejections: list[
            tuple[QueueEntry, Rejected]
        ] = []  # the function that tells the reason, once it is committed
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
        for entry, rejection in transaction.rejections:
            revise_for_rejection(entry, rejection)
        commit = Discharging(self, session, identifier, transaction, delivery.delivery_id)
        try:
            if session.commit(transaction.core, commit):
                commit.tell_done()
        except CoreError as error:
            commit.refuse(error)

    def discharged(self, identifier: bytes, transaction: OpenTransaction) -> None:
        """A transaction was committed: its deliveries are settled."""
        session = self._session
        del self._open[identifier]
        for number, outcome in transaction.outcomes.items():
            session.outcomes.forget(number)
            session.transfers.settle_outgoing(session.engine_session, number, number, outcome)

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
        del self._open[identifier]
        transaction.core.rollback()
        if session.closed:
            return
        orphans = [number for number in transaction.outcomes if not session.outcomes.linked(number)]
        session.outcomes.carry_out_defaults(orphans)  # §4.4.4.2

    def rollback_all(self) -> None:
        """Roll back every open transaction as the session ends, which then returns the deliveries."""
        transactions, self._open = self._open, {}
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
        return any(number in transaction.outcomes for transaction in self._open.values())

    def find(self, identifier: bytes) -> OpenTransaction | None:
        """Return an open transaction."""
        return self._open.get(bytes(identifier))

    def enlist(self, numbers: list[int], state: TransactionalState) -> None:
        """Let deliveries come to an outcome when a transaction commits (§4.4.2)."""
        session = self._session
        transaction = self.find(state.txn_id)
        if transaction is None:
            raise SessionFault(conditions.TRANSACTION_UNKNOWN_ID, unknown(state.txn_id).description or "")
        for number in numbers:
            if number not in transaction.outcomes and self.holds(number):
                text = f"delivery {number} has its outcome in another transaction that is not discharged"
                session.endpoints.detach(  # §4.4.2
                    transaction.link, closed=True, condition=conditions.TRANSACTION_ROLLBACK, description=text
                )
                return
            for tag in session.outcomes.tags([number]):
                given = state.outcome
                outcome = given if isinstance(given, Outcome) else session.outcomes.default_of(number)
                self._enlist_one(transaction, tag, outcome)
                transaction.outcomes[number] = outcome

    def _enlist_one(self, transaction: OpenTransaction, tag: int, outcome: Outcome) -> None:
        core = transaction.core
        entry = self._session.unacknowledged[tag]
        if isinstance(outcome, Accepted):
            core.acknowledge(tag)
        elif isinstance(outcome, Rejected):
            transaction.rejections.append((entry, outcome))
            core.reject(tag, requeue=False)
        else:
            failed = isinstance(outcome, Modified) and outcome.delivery_failed
            core.give_back(tag, counted=failed, exclude=self._session.outcomes.excluded(entry, outcome))


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
