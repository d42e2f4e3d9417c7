"""Incoming links: a client sends to an address, or to whatever each message names (§3.5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.amqp10.dynamic_nodes import owner_of
from annulet.broker.amqp10.errors import error_for
from annulet.broker.amqp10.sources import routing_type_of
from annulet.broker.connections.sending import SendingCommit
from annulet.broker.observing.node_log import NODE_LOG
from annulet.core.base.errors import AccessRefused, CoreError, InvalidArgument, LimitExceeded, NotFound
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.message.message import DEFAULT_PRIORITY, Message
from annulet.wire.amqp10.frames.outcomes import Accepted, Error, Outcome, Rejected, TransactionalState
from annulet.wire.amqp10.frames.terminus import DURABLE_UNSETTLED_STATE, Source, Target
from annulet.wire.amqp10.messages.message import IncomingMessage, split_incoming, with_given_deaths
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import DecodeError, MessageTooComplex, SessionFault

if TYPE_CHECKING:
    from annulet.broker.amqp10.coordinator import OpenTransaction
    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.broker.connections.sending import Destination
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link
    from annulet.wire.amqp10.frames.outcomes import DeliveryState
    from annulet.wire.amqp10.frames.performatives import Attach

logger = structlog.get_logger(__name__)

LINK_CREDIT: Final = 1000
"""Messages a sender may have on their way to us: enough to keep a fast one busy over a slow round trip."""

REJECT_UNROUTABLE: Final = "REJECT_UNROUTABLE"
"""Capability by which a sender asks that what reaches no queue is rejected instead of accepted (Broker-J)."""

MESSAGE_FORMAT: Final = 0
"""§3.2: the only message format there is."""


class WideTransfer(SendingCommit):
    """A message on its way to very many queues."""

    def __init__(self, target: TargetLink, message: Message, delivery: IncomingDelivery) -> None:
        super().__init__(target.session)
        self._target = target
        self._message = message
        self._delivery = delivery

    def tell_done(self) -> None:
        """Accept it."""
        self._target.taken(self._delivery, stored=self._message.record != 0)

    def refuse(self, error: Exception) -> None:
        """Reject it."""
        if not self.session.closed:
            self._target.refused(self._delivery, error)


class TargetLink:
    """The broker's half of an incoming link. ``name`` is empty for the anonymous terminus."""

    def __init__(self, session: Amqp10Session, link: Link, name: str, routing_type: str, *, rejects: bool) -> None:
        self.session = session
        self.link = link
        self.name = name
        self.routing_type = routing_type
        self._attached = False
        self._rejects_unroutable = rejects
        self._route = None if not name else session.destination(name, routing_type).route
        self._known = session.client.remembered(link)  # outcomes the peer had not seen when it was suspended

    # ------------------------------------------------------------------ credit, §2.6.7

    def grant(self) -> None:
        """Let the peer send, unless its target is full and blocks its publishers."""
        link = self.link
        if link.attached and link.credit <= LINK_CREDIT // 2 and not self._blocked():
            self.session.credit.grant_credit(link, LINK_CREDIT)

    def _blocked(self) -> bool:
        session = self.session
        if not session.blocked.any:
            return False
        if self._route is None:
            return bool(session.held_by)
        targets = session.blocked.on_way(self._route)
        session.hold(targets)  # also peers that have not published yet are told when there is room
        return bool(targets)

    # ------------------------------------------------------------------ messages

    def receive(self, delivery: IncomingDelivery) -> None:
        """Take a message, answer with its outcome, keep the credit up."""
        session = self.session
        if delivery.resume and delivery.delivery_tag in self._known:  # taken already (§2.6.13): not once more
            outcome = self._known.pop(delivery.delivery_tag)
            self._answer(delivery, outcome, None)
            self.grant()
            return
        if delivery.resume and isinstance(
            delivery.state, Outcome
        ):  # its sender knows the outcome: nothing is to be done
            self._answer(delivery, delivery.state, None)
            self.grant()
            return
        state = delivery.state
        transaction: OpenTransaction | None = None
        if isinstance(state, TransactionalState):
            transaction = session.transactions.find(state.txn_id)
            if transaction is None:
                raise SessionFault(
                    conditions.TRANSACTION_UNKNOWN_ID, f"transfer: transaction {bytes(state.txn_id).hex()} is not open"
                )
        try:
            stored = self._take(delivery, transaction)
        except CoreError as error:
            session.access.take_back(session.connection.now)
            self._note_refusal(error)
            self._answer(delivery, Rejected(error_for(error)), transaction)
        except DecodeError as error:
            self._answer(delivery, Rejected(Error(conditions.DECODE_ERROR, error.description)), transaction)
        else:
            if session.access.made:
                session.access.keep()
            if transaction is not None:
                self._answer(delivery, Accepted(), transaction)
            elif stored is not None and not delivery.settled:
                session.answer_when_durable(delivery.delivery_id, stored=stored)
        self.grant()

    def _note_refusal(self, error: CoreError) -> None:
        connection = self.session.connection
        if isinstance(error, MessageTooComplex):
            hits = connection.engine.limit_hits
            hits[error.limit] = hits.get(error.limit, 0) + 1
        elif isinstance(error, LimitExceeded):
            connection.broker.note_limit_refusal(str(error), connection.now)

    def _take(self, delivery: IncomingDelivery, transaction: OpenTransaction | None) -> bool | None:
        """Send a message on. Returns whether its durability has to be waited for.

        ``None`` for one to very many queues: it is answered when it is in all of them.
        """
        session = self.session
        if delivery.message_format != MESSAGE_FORMAT:
            raise InvalidArgument(f"transfer: message-format is {delivery.message_format}; send {MESSAGE_FORMAT}")
        now = session.connection.now
        limits = session.connection.broker.admission.limits
        incoming = split_incoming(delivery.payload, limits.max_header_bytes)
        self._check_user(incoming)
        destination = self._destination(incoming)
        message = Message(
            with_given_deaths(incoming.header) if incoming.facts.deaths_given else incoming.header,
            incoming.body,
            destination.origin,
            durable=incoming.durable,
            priority=DEFAULT_PRIORITY if incoming.priority < 0 else incoming.priority,
            accepted_at=now,
            expires_at=incoming.expires_at(now),
            deliver_at=incoming.due_at(now),
        )
        core = None if transaction is None else transaction.core
        if incoming.cancels:
            if core is not None:
                core.cancel_scheduled(message, destination.route, incoming.schedule_id)
                return False
            removed = cancel_scheduled(session.host, message, destination.route, incoming.schedule_id, now)
            return any(entry.message.record for entry in removed)
        publication: WideTransfer | None = None
        if destination.wide and core is None:
            publication = WideTransfer(self, message, delivery)
        routed = session.send(
            message, destination, duplicate_id=incoming.duplicate_id, transaction=core, publication=publication
        )
        if self._route is not None:
            self._route = destination.route
        if routed == 0 and self._rejects_unroutable:
            raise NotFound(f"no queue takes messages to '{incoming.to if not self.name else self.name}'; bind one")
        return None if routed < 0 else message.record != 0

    def taken(self, delivery: IncomingDelivery, *, stored: bool) -> None:
        """A message is in very many queues: accept it once it is durable."""
        if not delivery.settled:
            self.session.answer_when_durable(delivery.delivery_id, stored=stored)
        self.grant()

    def refused(self, delivery: IncomingDelivery, error: Exception) -> None:
        """A message to very many queues is in none of them."""
        known = error if isinstance(error, CoreError) else CoreError("the broker failed to publish; see its log")
        self._answer(delivery, Rejected(error_for(known)), None)
        self.session.connection.mark_dirty()

    def _destination(self, incoming: IncomingMessage) -> Destination:
        session = self.session
        name = self.name or incoming.to
        if not name:
            raise InvalidArgument("message: properties.to is missing; an anonymous terminus goes by it")
        destination = session.destination(name, self.routing_type)
        if destination.key_from_message and incoming.subject:
            destination = session.destination(name, self.routing_type, incoming.subject)
        return destination

    def _check_user(self, incoming: IncomingMessage) -> None:
        user = self.session.connection.user_name
        if incoming.user_id and incoming.user_id != user.encode():
            raise AccessRefused(
                f"message: properties.user-id is {incoming.user_id!r} but the user is '{user}'; leave it out"
            )

    def _answer(self, delivery: IncomingDelivery, outcome: Outcome, transaction: OpenTransaction | None) -> None:
        """Tell an outcome at once: no disk is waited for."""
        if delivery.settled:
            if isinstance(outcome, Rejected):
                self.session.connection.broker.note_settled_loss(self.name, repr(outcome.error))
                if transaction is not None:  # §4.4.4.1: it may not be discharged successfully
                    reason = "" if outcome.error is None else outcome.error.description
                    transaction.failure = f"a settled message was refused: {reason}"
            return
        state: DeliveryState = outcome
        if transaction is not None and isinstance(delivery.state, TransactionalState):
            state = TransactionalState(delivery.state.txn_id, outcome)
        number = delivery.delivery_id
        self.session.transfers.settle_incoming(self.session.engine_session, number, number, state)

    # ------------------------------------------------------------------ end

    def detached(self, *, closed: bool) -> None:
        """The link is gone."""
        if self._attached:
            NODE_LOG.sender_deleted(*self._line())
        self.session.targets.pop(self.link, None)
        self._remember(closed=closed)
        self._leave(closed=closed)

    def attached(self) -> None:
        """The link is attached: say so, and let it send."""
        self._attached = True
        NODE_LOG.sender_created(*self._line())
        self.grant()

    def _line(self) -> tuple[str, str, str, str]:
        """Return what the lines of the log say of it."""
        return self.session.host.name, self.name, self.link.name, self.session.connection.name

    def forget(self) -> None:
        """The session has ended."""
        self._remember(closed=False)
        self._leave(closed=False)

    @property
    def known(self) -> dict[bytes, object]:
        """Return the unsettled map of our side (§2.6.13)."""
        return dict(self._known)

    def _remember(self, *, closed: bool) -> None:
        """Keep outcomes that the peer has not settled yet, so that it need not send these messages again."""
        outcomes = (
            {} if closed else {tag: state for tag, state in self.link.unsettled.items() if isinstance(state, Outcome)}
        )
        self.session.client.remember(self.link, {**({} if closed else self._known), **outcomes})

    def _leave(self, *, closed: bool) -> None:
        dynamic = owner_of(self.session.client, self.session.host, self.name)
        if dynamic is not None:
            dynamic.detached(self.name, self.link, closed=closed)


def attach_target(session: Amqp10Session, link: Link, performative: Attach) -> None:
    """Attach an incoming link, or refuse it by raising what the core refuses."""
    wanted = link.target
    if wanted is None:
        wanted = Target()  # §2.6.3: a sender without a target; its messages name their address (Artemis)
    if not isinstance(wanted, Target):
        raise InvalidArgument(f"target is a {type(wanted).__name__}; give a target or a coordinator")
    granted = Target(
        address=wanted.address,
        durable=wanted.durable,
        expiry_policy=wanted.expiry_policy,
        timeout=wanted.timeout,
        capabilities=list(wanted.capabilities),
    )
    if wanted.dynamic:
        granted.address = session.client.dynamic_nodes.create(session, link, wanted)
        granted.dynamic = True
    name = granted.address or ""
    desired = {str(capability) for capability in [*performative.desired_capabilities, *wanted.capabilities]}
    owner = TargetLink(
        session,
        link,
        name,
        routing_type_of({str(capability) for capability in wanted.capabilities}),
        rejects=REJECT_UNROUTABLE in desired,
    )
    link.owner = owner
    session.targets[link] = owner
    dynamic = owner_of(session.client, session.host, name)
    if dynamic is not None:
        dynamic.attached(name, link)
    offered = [REJECT_UNROUTABLE] if REJECT_UNROUTABLE in desired else []
    if not _keeps_unsettled(link):
        session.endpoints.settle_first(link)
    if session.endpoints.accept_attach(
        link,
        source=link.source,
        target=granted,
        offered_capabilities=offered,
        unsettled=owner.known or None,
    ):
        owner.attached()
    else:
        owner.detached(closed=False)


def _keeps_unsettled(link: Link) -> bool:
    """Return whether a sender can use the receiver-settle-mode second: it keeps unsettled state, or resumes with it.

    Others that ask for second (Azure's clients do by default) wait for a settled disposition, which second never sends
    before they settle themselves: they would hang, and send again. They are answered first (§2.8.3), as by Artemis.
    """
    source, target = link.source, link.target
    return (
        link.resuming
        or (isinstance(source, Source) and source.durable == DURABLE_UNSETTLED_STATE)
        or (isinstance(target, Target) and target.durable == DURABLE_UNSETTLED_STATE)
    )
