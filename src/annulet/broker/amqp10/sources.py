"""Outgoing links: a client receives from a queue, or from a subscription to an address (§3.5.3)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.broker.amqp10.dynamic_nodes import owner_of, plain
from annulet.broker.amqp10.filters import SourceFilters, read_filters
from annulet.broker.amqp10.outcomes import DEFAULT_OUTCOME
from annulet.broker.connections.subscriptions import Subscription, end_subscription, find_subscription, subscribe
from annulet.broker.connections.views import ConversionError
from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.base.settings import BROWSE_FOLLOW, UNLIMITED, ConsumerSettings
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX, read_limit
from annulet.core.deliveries.bodies import FOUND
from annulet.core.model.compact_messages import queue_of
from annulet.core.model.consumer import Consumer, LinkCredit
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import ANYCAST, MULTICAST
from annulet.wire.amqp10.frames import terminus as standard
from annulet.wire.amqp10.frames.outcomes import Outcome, Received
from annulet.wire.amqp10.frames.performatives import SENDER_SETTLED
from annulet.wire.amqp10.frames.terminus import Source
from annulet.wire.amqp10.messages.message import encode_delivery
from annulet.wire.amqp10.messages.view import VIEW
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError

if TYPE_CHECKING:
    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.core.host.nodes import NodeReference
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.wire.amqp10.connection.link import Link

logger = structlog.get_logger(__name__)

QUEUE: Final = "queue"
TOPIC: Final = "topic"
SHARED: Final = "shared"
GLOBAL: Final = "global"
"""Capabilities of termini (Artemis, Broker-J, Qpid JMS)."""

NAME_SEPARATOR: Final = "|"
"""Ends the part of a link's name that names a shared subscription: links of one container need different names."""

PRIORITY: Final = "priority"
"""Link property: consumer priority (Broker-J §14)."""

CONSUMER_TIMEOUT: Final = "consumer-timeout"
"""Link property: milliseconds within which a delivery has to be settled."""

OUTCOMES: Final = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")


class SourceLink:
    """The broker's half of an outgoing link."""

    def __init__(
        self, session: Amqp10Session, link: Link, source: Source, queue: Queue, settings: ConsumerSettings
    ) -> None:
        self.session = session
        self.link = link
        self.source = source
        self.queue = queue
        self.subscription = False  # the queue is that of a durable subscription of this link
        self.consumer = Consumer(
            session,
            queue,
            session.next_tag(),
            window=LinkCredit(),
            auto_acknowledge=link.snd_settle_mode == SENDER_SETTLED,
            priority=settings.priority,
            settings=settings,
        )
        self.former: list[Consumer] = []  # the consumer with deliveries from before the link was resumed
        self._withheld_told = False
        self._to_resume: deque[tuple[int, QueueEntry]] = deque()  # tag and entry, since the link was suspended

    # ------------------------------------------------------------------ resuming, §2.6.13

    @property
    def keeps_unsettled(self) -> bool:
        """Return whether the client requested that a suspended link keeps its deliveries while the session lasts
        (§3.5.5)."""
        policy = self.source.expiry_policy
        return self.source.durable == standard.DURABLE_UNSETTLED_STATE and policy != standard.EXPIRE_LINK_DETACH

    def holders(self) -> list[Consumer]:
        """Return the consumers that hold deliveries of this link."""
        return [holder for holder in (*self.former, self.consumer) if holder.held]

    def take_over(self, former: list[Consumer]) -> dict[bytes, object]:
        """Go on with what earlier attachments of this link held. Returns our unsettled map."""
        session = self.session
        self.former = former
        unsettled: dict[bytes, object] = {}
        if former:
            for tag, entry in session.unacknowledged.items():
                if entry.consumer in former:
                    self._to_resume.append((tag, entry))
                    unsettled[_delivery_tag(tag)] = None
            session.outcomes.forget_tags([tag for tag, _ in self._to_resume])  # they get other delivery ids
        return unsettled

    def go_on_resuming(self) -> None:
        """Send what of the resumed deliveries is still to be sent, now that there is room for output."""
        if self._to_resume:
            self._resume()
            self.renew_window()

    def _resume(self) -> None:
        """Send again unsettled deliveries; apply the states the peer gave when it attached."""
        session, link = self.session, self.link
        while self._to_resume and link.credit > 0 and session.writable:
            tag, entry = self._to_resume.popleft()
            if tag not in session.unacknowledged:
                continue
            name = _delivery_tag(tag)
            known = name in link.peer_unsettled
            state = link.peer_unsettled.get(name)
            if isinstance(state, Outcome):
                number = session.transfers.send_transfer(link, name, b"", settled=True, state=state, resume=True)
                session.outcomes.note(number, tag)
                session.outcomes.carry_out([number], state)
                continue
            bodies = entry.queue.bodies
            if entry.message.absent and bodies is not None and bodies.look([entry.message]) != FOUND:
                del session.unacknowledged[tag]  # back to its place, where it waits for the disk or is passed over
                session.connection.broker.loop.call_soon(self._give_back, entry)
                continue
            payload = self.payload_of(entry)
            if payload is None:
                del session.unacknowledged[tag]
                session.withhold(entry.consumer or self.consumer, entry)
                continue
            start = Received(0, 0) if isinstance(state, Received) else None  # §3.4.1: from the beginning again
            number = session.transfers.send_transfer(link, name, payload, settled=False, state=start, resume=known)
            session.outcomes.note(number, tag)
            session.after_transfer()

    def _give_back(self, entry: QueueEntry) -> None:
        entry.queue.return_entries([entry], self.session.connection.now, counted=False)

    # ------------------------------------------------------------------ sending

    def payload_of(self, entry: QueueEntry) -> bytes | None:
        """Return the transfer's payload, ``None`` when the peer cannot take it or the message cannot be converted."""
        queue = entry.queue
        try:
            payload = self._encode(entry)
        except (ConversionError, LocalProtocolError, DecodeError) as error:
            self._note_withheld(f"message {entry.sequence} of queue '{queue.name}' cannot be sent: {error}")
            return None
        most = self.link.max_message_size
        if most and len(payload) > most:
            self._note_withheld(
                f"message {entry.sequence} of queue '{queue.name}' has {len(payload)} bytes, max-message-size of the "
                f"link is {most}; attach with a larger one"
            )
            return None
        return payload

    def _encode(self, entry: QueueEntry) -> bytes:
        message = entry.message
        if message.origin.view is not VIEW:
            message = self.session.converted(message, VIEW)
        queue = entry.queue
        annotations: dict[str, Any] | None = None
        if queue.settings.group_first_key and queue.is_group_first(entry):
            annotations = {queue.settings.group_first_key: True}
        return encode_delivery(
            message,
            delivery_count=entry.delivery_count,
            first_acquirer=not entry.redelivered,
            now=self.session.connection.now,
            annotations=annotations,
        )

    def _note_withheld(self, reason: str) -> None:
        if not self._withheld_told:
            self._withheld_told = True
            logger.warning("message withheld from a link", peer=self.session.name, link=self.link.name, reason=reason)

    def send(self, tag: int, payload: bytes, *, settled: bool) -> int:
        """Hand a transfer to the engine; returns its delivery id."""
        return self.session.transfers.send_transfer(self.link, _delivery_tag(tag), payload, settled=settled)

    # ------------------------------------------------------------------ credit, §2.6.7

    def credit_changed(self) -> None:
        """Serve the queue with the current credit, after resumed deliveries."""
        self._resume()
        self.renew_window()
        if not self.link.drain:
            self.queue.stop_draining(self.consumer)
        if not self.consumer.cancelled:
            self.queue.wake(self.session.connection.now)
        if self.session.writable:
            self.finish_drain()

    def renew_window(self) -> None:
        """Let the queue use the credit there is."""
        window = self.consumer.window
        assert isinstance(window, LinkCredit)
        window.grant(self.link.credit)

    def finish_drain(self) -> None:
        """Have what credit is left given back when everything there is for this link has gone out."""
        link = self.link
        if link.drain and link.attached:
            if link.drain_due and link.credit > 0 and not self.consumer.cancelled:
                self.queue.drain(self.consumer, self.session.connection.now)
            else:
                self.give_credit_back()

    def give_credit_back(self) -> None:
        """Tell the peer that there is nothing more for it now."""
        link = self.link
        if link.drain and link.attached:
            window = self.consumer.window
            assert isinstance(window, LinkCredit)
            window.grant(0)
            self.session.credit.drained(link)
            self.session.connection.mark_dirty()

    # ------------------------------------------------------------------ end

    def node_gone(self) -> None:
        """The queue was deleted, a browser came to its end, or what the peer asked for cannot be had."""
        if self.link.attached:
            condition, description = "", self.consumer.ended_for
            if self.queue.deleted:
                condition, description = conditions.RESOURCE_DELETED, f"queue '{self.queue.name}' was deleted"
            elif description:
                condition = conditions.PRECONDITION_FAILED
            self.session.endpoints.detach(self.link, closed=True, condition=condition, description=description)
            self.session.connection.mark_dirty()

    def detached(self, *, closed: bool, by_peer: bool) -> None:
        """The link is gone: its deliveries are returned, a durable subscription stays unless the client closed its
        link."""
        session = self.session
        now = session.connection.now
        consumer = self.consumer
        dynamic = owner_of(session.client, session.host, self.queue.name)
        if dynamic is not None:
            dynamic.detached(self.queue.name, self.link, closed=closed)
        if not session.writable and not self.link.session.mapped:
            return  # the session ends and returns everything at once
        session.sources.pop(consumer.tag, None)
        unsent = set(self.link.unsent)
        if unsent:
            for slot in session.outcomes.take(session.outcomes.held(unsent)):
                queue_of(slot).return_entries([slot], now, counted=False)
        if not closed and self.keeps_unsettled and not self.queue.deleted:
            session.suspend(self)
        else:
            session.close_source(self)
            if self.link.unsettled:
                session.outcomes.forget_returned()
        ended = closed and by_peer and self.subscription and end_subscription(session, self.queue)
        if not ended and not self.queue.deleted:
            session.host.consumer_removed(self.queue, now)

    def forget(self) -> None:
        """The session has ended and returned what the link held."""


def _delivery_tag(tag: int) -> bytes:
    return tag.to_bytes(8, "big")


def attach_source(session: Amqp10Session, link: Link) -> None:
    """Attach an outgoing link, or refuse it by raising what the core refuses or LinkFault."""
    wanted = link.source
    if wanted is None:
        _attach_to_subscription(session, link)
        return
    if not isinstance(wanted, Source):
        raise InvalidArgument(f"source is a {type(wanted).__name__}; give a source with an address")
    filters = read_filters(wanted.filter)
    capabilities = {str(name) for name in wanted.capabilities}
    granted = _echo(wanted, filters)
    settings = _consumer_settings(link, wanted, filters)
    subscribes = subscription = False
    if wanted.dynamic:
        name = session.client.dynamic_nodes.create(session, link, wanted)
        granted.address = name
        granted.dynamic = True
        queue = session.host.queues[name]
    else:
        if not wanted.address:
            raise InvalidArgument("source: address is missing; give the name of a queue or address, or dynamic=true")
        node = session.resolve(wanted.address, routing_type_of(capabilities))
        if node.queue is not None or node.node is None:
            assert node.queue is not None
            queue = node.queue
        else:
            anycast = _anycast_queue(node, capabilities)
            if anycast is not None:
                queue = anycast
            else:
                queue = _subscribe(session, link, wanted, node, filters, capabilities)
                subscribes, subscription = True, _is_durable(wanted)
                settings = replace(settings, selector="")  # the queue itself has it
    session.access.require_consumer(queue, settings, granted=subscribes)
    _attach(session, link, granted, queue, settings, subscription=subscription)


def _attach(
    session: Amqp10Session, link: Link, granted: Source, queue: Queue, settings: ConsumerSettings, *, subscription: bool
) -> None:
    owner = SourceLink(session, link, granted, queue, settings)
    owner.subscription = subscription
    link.owner = owner
    session.sources[owner.consumer.tag] = owner
    unsettled = owner.take_over(session.resumed(link.name, queue))
    try:
        session.attach(owner.consumer, session.connection.now)
    except BaseException:
        del session.sources[owner.consumer.tag]
        session.consumers.pop(owner.consumer.tag, None)
        link.owner = None
        raise
    dynamic = owner_of(session.client, session.host, queue.name)
    if dynamic is not None:
        dynamic.attached(queue.name, link)
    if not session.endpoints.accept_attach(link, source=granted, target=link.target, unsettled=unsettled or None):
        owner.detached(closed=False, by_peer=False)


def _attach_to_subscription(session: Amqp10Session, link: Link) -> None:
    """Without a source the link's name says which durable subscription is meant: to look it up, or to end it.

    Capability ``global`` of the link means a subscription of all containers (JMS and NMS clients without a client id).
    """
    capabilities = {str(name) for name in link.desired_capabilities}
    container = "" if GLOBAL in capabilities else session.client.container_id
    queue = find_subscription(session, _subscription_name(link), container)
    if queue is None:
        whose = f"container '{container}'" if container else "all containers"
        raise NotFound(
            f"no durable subscription '{link.name}' of {whose} made by user '{session.connection.user_name}'; "
            "attach with a source"
        )
    session.access.require("configure", queue.name)  # closing this link ends it
    session.access.require_consumer(queue, ConsumerSettings())
    bindings = session.host.bindings_of_queue(queue)
    address = bindings[0].source.name if bindings else queue.name
    granted = Source(address=address, durable=standard.DURABLE_UNSETTLED_STATE, expiry_policy=standard.EXPIRE_NEVER)
    granted.capabilities = [TOPIC, *[name for name in (SHARED, GLOBAL) if name in capabilities]]
    _attach(session, link, granted, queue, ConsumerSettings(), subscription=True)


def _subscribe(
    session: Amqp10Session,
    link: Link,
    wanted: Source,
    node: NodeReference,
    filters: SourceFilters,
    capabilities: set[str],
) -> Queue:
    durable = _is_durable(wanted)
    shared = SHARED in capabilities
    named = durable or shared
    if filters.binding_key is not None:
        node.routing_key = filters.binding_key
    return subscribe(
        session,
        node,
        Subscription(
            name=_subscription_name(link) if named else "",
            client="" if GLOBAL in capabilities else session.client.container_id,
            durable=durable,
            shared=shared,
            selector=filters.selector,
            expires=_expiry_of(wanted) if durable else 0,
        ),
        binding_arguments=filters.binding_arguments,
    )


def _subscription_name(link: Link) -> str:
    return link.name.partition(NAME_SEPARATOR)[0]


def _is_durable(wanted: Source) -> bool:
    """Return whether a subscription outlives its link: durable, or kept for ever (§3.5.5, §3.5.6)."""
    if wanted.expiry_policy == standard.EXPIRE_NEVER:
        return True
    at_once = wanted.expiry_policy == standard.EXPIRE_LINK_DETACH and not wanted.timeout
    return wanted.durable != standard.DURABLE_NONE and not at_once


def _expiry_of(wanted: Source) -> int:
    """Return the milliseconds a durable subscription may be without a link, 0 for any time.

    A policy other than never ends it ``timeout`` seconds later (§3.5.6). Clients that only ask for durability leave
    both at their defaults, so without a time-out it stays.
    """
    milliseconds = wanted.timeout * 1000
    return 0 if wanted.expiry_policy == standard.EXPIRE_NEVER or milliseconds > MILLISECONDS_MAX else milliseconds


def _anycast_queue(node: NodeReference, capabilities: set[str]) -> Queue | None:
    """Return the queue to consume from when the node is an address whose messages go to one of its queues."""
    address = node.node
    if not isinstance(address, Address) or ANYCAST not in address.routing_types:
        return None
    if TOPIC in capabilities or (MULTICAST in address.routing_types and QUEUE not in capabilities):
        return None
    queues = address.anycast_queues
    if len(queues) == 1:
        return queues[0]
    names = ", ".join(f"'{address.name}::{queue.name}'" for queue in queues) or f"'{address.name}::name'"
    raise InvalidArgument(f"address '{address.name}' has {len(queues)} anycast queues; name one: {names}")


def _consumer_settings(link: Link, wanted: Source, filters: SourceFilters) -> ConsumerSettings:
    mode = wanted.distribution_mode
    if mode not in {None, "", standard.DISTRIBUTION_MOVE, standard.DISTRIBUTION_COPY}:
        raise InvalidArgument(
            f"source: distribution-mode is {mode!r}; give {standard.DISTRIBUTION_MOVE} or {standard.DISTRIBUTION_COPY}"
        )
    priority = plain(link.properties.get(PRIORITY, 0))
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise InvalidArgument(f"link property '{PRIORITY}' is {priority!r}; give a whole number, higher is first")
    return ConsumerSettings(
        priority=priority,
        selector=filters.selector,
        no_local=filters.no_local,
        browse=BROWSE_FOLLOW if mode == standard.DISTRIBUTION_COPY else "",
        consumer_timeout=_consumer_timeout(link),
    )


def _consumer_timeout(link: Link) -> int:
    """Return the milliseconds the link may hold a delivery, -1 where it says nothing, 0 for ever."""
    if CONSUMER_TIMEOUT not in link.properties:
        return UNLIMITED
    value = plain(link.properties[CONSUMER_TIMEOUT])
    return read_limit(CONSUMER_TIMEOUT, value, 0, MILLISECONDS_MAX, "milliseconds", off=True)


def routing_type_of(capabilities: set[str]) -> str:
    """Return the routing type that the capabilities of a terminus ask for, empty when they ask for none."""
    if TOPIC in capabilities and QUEUE not in capabilities:
        return MULTICAST
    return ANYCAST if QUEUE in capabilities else ""


def _echo(wanted: Source, filters: SourceFilters) -> Source:
    """Return the source as it is in force (§2.6.3): with what outcomes there are, and the filters that hold."""
    return Source(
        address=wanted.address,
        durable=wanted.durable,
        expiry_policy=wanted.expiry_policy,
        timeout=wanted.timeout,
        distribution_mode=wanted.distribution_mode or standard.DISTRIBUTION_MOVE,
        filter=filters.echo,
        default_outcome=wanted.default_outcome or DEFAULT_OUTCOME,
        outcomes=list(OUTCOMES),
        capabilities=list(wanted.capabilities),
    )
