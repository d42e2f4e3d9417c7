"""One AMQP 0-9-1 connection: joins an asyncio transport, the protocol engine and the channels.

A duck-typed ``asyncio.Protocol``: it has the methods but does not inherit, so that it can be compiled. Input of one
read is handled whole, output of one loop turn leaves in one write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker import transport as common
from annulet.broker.amqp091.channel import Channel
from annulet.broker.amqp091.declarations import DeclaringHandler, translate
from annulet.broker.amqp091.login import ConnectionLogin
from annulet.broker.amqp091.topology import Topology
from annulet.core import errors as core_errors
from annulet.core.session import end_together
from annulet.store.errors import StoreError
from annulet.wire.amqp091 import constants
from annulet.wire.amqp091.engine import ConnectionEngine
from annulet.wire.amqp091.errors import ChannelError, ConnectionFault
from annulet.wire.amqp091.handler import PENDING
from annulet.wire.amqp091.states import ConnectionState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.amqp091.publishing import PublishingSession
    from annulet.broker.authentication import PermissionKind
    from annulet.broker.broker import Broker
    from annulet.core.message import PropertyValue
    from annulet.core.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

HEARTBEAT_MISSES_MAX: Final = 2
"""Silent heartbeat intervals after which a peer is given up (AMQP 0-9-1 §4.2.7)."""


class AmqpConnection(DeclaringHandler):
    """Handles the engine's calls for one client, and owns its channels and timers."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.name = ""  # peer address -> our address, as RabbitMQ names connections
        self.user_name = ""
        self.publisher = ""  # what the loss ledger names: user@peer
        self.identity = object()  # what no-local compares; messages keep it, and so not the whole connection
        self.obeys_flow = False  # the client stops publishing at channel.flow
        self.connected_at = 0
        self.now = broker.clock()
        self.host: VirtualHost | None = None
        self.writable = True
        self.opened = False  # open-ok was sent
        self.publishes = False  # has ever published: such connections are blocked by the memory alarm
        self.bytes_received = self.bytes_sent = 0
        self.engine = ConnectionEngine(
            self,
            server_properties=broker.server_properties,
            channel_max=broker.configuration.channel_max,
            frame_max=broker.configuration.frame_max,
            heartbeat=broker.configuration.heartbeat,
            max_message_size=broker.configuration.limits.max_message_bytes,
            max_assembling_bytes=2 * broker.configuration.limits.max_message_bytes,
            max_unauthenticated_bytes=broker.configuration.limits.max_unauthenticated_bytes,
        )
        self.login = ConnectionLogin(self)
        self._transport: asyncio.Transport | None = None
        self._confirming: list[PublishingSession] = []
        self._dirty = self._transport_paused = self._reading_paused = self._blocked_told = False
        self._paused_at = 0  # bytes that waited when the socket took no more
        self._delivered = 0  # deliveries that wait to be written
        self._share = 0  # how many may be, since the first of them
        self._until = 0.0  # how long the loop's thread will have computed when they have taken long enough
        self._held: dict[PublishingSession, None] = {}  # channels that published into what is blocked
        self._timer: asyncio.TimerHandle | None = None
        self._silent_checks = 0
        self._bytes_checked = 0  # what had gone either way at the last check for idleness
        self._lost = False
        self._turn = 0  # which channel is served first when there is room again

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the hand-shake timer."""
        self._transport = transport
        common.bound_transport(transport)
        self.connected_at = self.broker.clock()
        self.broker.connections.add(self)
        seconds = self.login.enter(transport)
        if seconds < 0:
            transport.abort()
            return
        self._timer = self.broker.loop.call_later(seconds, self._handshake_expired)

    def data_received(self, data: bytes) -> None:
        """Handle everything that was read."""
        self.now = self.broker.clock()
        self.bytes_received += len(data)
        began = self.broker.inputs.computed()
        self._serve(data)
        self.broker.inputs.handled(self._transport, len(data), began)

    def _serve(self, data: bytes) -> None:
        """Handle input; without any, what waited until its answers could be written."""
        try:
            if data:
                self.engine.receive(data)
            else:
                self.engine.go_on()
        except Exception:  # a defect of ours: the engine has closed with 541, and the peer is to be told
            logger.exception("defect while serving a connection", peer=self.name)
        if self.login.refusal and self.engine.state is not ConnectionState.AWAITING_HEADER:  # now it can understand
            self.engine.close_connection(constants.RESOURCE_ERROR, self.login.refusal)
        self.mark_dirty()

    def eof_received(self) -> bool:
        """The peer will send nothing more: let asyncio close the transport, soon even if the peer reads nothing."""
        if self._dirty:
            self.flush()  # who still waits for his turn: asyncio closes the transport now, and drops what comes later
        self._restart_timer(common.CLOSE_GRACE_SECONDS, self.abort)
        return False

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - asyncio's; logged by no one
        """The socket is gone: return what the channels held."""
        self._lost = True
        self.now = self.broker.clock()
        if self._timer is not None:
            self._timer.cancel()
        self.login.leave()
        self.broker.connection_ended(self)
        self.engine.connection_lost()
        self._end()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._transport_paused = True
        self._paused_at = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self._set_writable(False)

    def resume_writing(self) -> None:
        """The socket has room again: serve the consumers of this connection."""
        self._transport_paused = False
        self.now = self.broker.clock()
        self._set_writable(True)
        self.mark_dirty()

    # ------------------------------------------------------------------ output

    def mark_dirty(self) -> None:
        """Have the output written at the end of this loop turn."""
        if not self._dirty:
            self._dirty = True
            self.broker.flush_later(self)

    def mark_confirming(self, channel: PublishingSession) -> None:
        """Have a channel's confirms sent at the end of this loop turn, as one multiple confirm."""
        self._confirming.append(channel)
        self.mark_dirty()

    def output_added(self) -> None:
        """A delivery was queued for writing: enough is enough at ``OUTPUT_BYTES_MAX``, or its share of a turn."""
        self.mark_dirty()
        self._delivered = delivered = self._delivered + 1
        if delivered in (1, self._share) or (self.writable and not delivered % common.DELIVERIES_TIMED):
            channels = self.channels.values()
            self._share, self._until = self.broker.shares.look(delivered, self._share, self._until, channels)
        if self.writable and (self._delivered >= self._share or self.engine.output_size >= common.OUTPUT_BYTES_MAX):
            self._set_writable(False)

    def flush(self) -> None:
        """Write everything queued. Called once per loop turn by the broker."""
        if self._confirming:
            confirming, self._confirming = self._confirming, []
            for channel in confirming:
                if not channel.closed:
                    channel.flush_confirms()
        self._dirty = False  # not before: the confirms leave with this write
        self.broker.shares.served += self._delivered > 0
        self._delivered = 0
        transport = self._transport
        engine = self.engine
        if self._lost or transport is None:
            engine.take_output()
            return
        if engine.output_size:
            self.bytes_sent += engine.output_size
            transport.write(b"".join(engine.take_output()))
        if engine.closed:
            self._close_transport(transport)
            return
        if not self.writable and not self._transport_paused:
            self.now = self.broker.clock()
            self._set_writable(True)
        self._pace_reading(transport)
        if engine.holding and not self._reading_paused:
            self.now = self.broker.clock()
            self._serve(b"")

    def _set_writable(self, writable: bool) -> None:
        self.writable = writable
        for channel in self.channels.values():
            channel.writable = writable
        if writable:
            channels = list(self.channels.values())
            if len(channels) > 1:  # each time another one first: a deep backlog would else use up the room for all
                self._turn = (self._turn + 1) % len(channels)
                channels = channels[self._turn :] + channels[: self._turn]
            for channel in channels:
                channel.wake(self.now)

    def _close_transport(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.close()
            self._restart_timer(common.CLOSE_GRACE_SECONDS, transport.abort)

    def _restart_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.broker.loop.call_later(seconds, callback)

    # ------------------------------------------------------------------ holding the peer back

    def hold(self, channel: PublishingSession) -> None:
        """A channel published into a queue or address that is full and blocks its publishers."""
        self._held[channel] = None
        self.mark_dirty()

    def release(self, channel: PublishingSession) -> None:
        """There is room again for what a channel publishes."""
        self._held.pop(channel, None)
        self.mark_dirty()

    def _pace_reading(self, transport: asyncio.Transport) -> None:
        """Read nothing from publishers during the memory alarm, nor from who does not read our answers.

        Publishers into a full queue are told. Who only publishes is not read until there is room, who also consumes is:
        its acknowledgements make room. A connection that closes is read: close-ok has to come.
        """
        alarmed = self.broker.memory_blocked and self.publishes and self.engine.running
        held = bool(self._held) and not self.obeys_flow and self.engine.running
        blocked = alarmed or held
        if blocked != self._blocked_told:
            self._blocked_told = blocked
            if blocked:
                self.engine.send_blocked("low on memory" if alarmed else self._held_reason())
            else:
                self.engine.send_unblocked()
            self.mark_dirty()
        most = self._paused_at + common.ANSWER_BYTES_MAX
        unread = self._transport_paused and transport.get_write_buffer_size() > most
        only = held and not any(channel.consumers or channel.unacknowledged for channel in self.channels.values())
        paused = alarmed or only or unread
        if paused != self._reading_paused:
            self._reading_paused = paused
            if unread:
                common.note_unread(self.engine.limit_hits)
            (transport.pause_reading if paused else transport.resume_reading)()

    def _held_reason(self) -> str:
        names = {target.name: None for channel in self._held for target in channel.held_by}
        return constants.reply_text(0, f"{', '.join(names)} full")  # cut to what a short string holds

    # ------------------------------------------------------------------ time-outs

    def _handshake_expired(self) -> None:
        if not self.opened and self._transport is not None:
            self.login.note_expired()
            self._transport.abort()

    def _start_heartbeat(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.engine.heartbeat_interval:
            self._restart_timer(self.engine.heartbeat_interval / 2, self._heartbeat_due)
        elif self.broker.configuration.limits.idle_timeout:
            self._bytes_checked = self.bytes_received + self.bytes_sent
            self._restart_timer(self.broker.configuration.limits.idle_timeout, self._idle_due)

    def _idle_due(self) -> None:
        """Close who negotiated no heartbeat when nothing has gone either way for the idle time-out."""
        if self._bytes_checked == self.bytes_received + self.bytes_sent and not self._reading_paused:
            seconds = self.broker.configuration.limits.idle_timeout
            self.broker.admission.note_idle(self.name, seconds)
            self.force_close(f"idle for {seconds:g} seconds without heartbeats; negotiate some")
        elif self.engine.running:
            self._start_heartbeat()

    def _heartbeat_due(self) -> None:
        """Twice per interval: send a heartbeat, and give up a peer that was silent for two intervals."""
        if self.engine.received_since_check or self._reading_paused:
            self._silent_checks = 0
            self.engine.received_since_check = False
        else:
            self._silent_checks += 1
        if self._silent_checks > HEARTBEAT_MISSES_MAX * 2:
            self.broker.admission.note_silent(self.name, self.engine.heartbeat_interval)
            if self._transport is not None:
                self._transport.abort()
            return
        self.engine.heartbeat()
        self.mark_dirty()
        self._start_heartbeat()

    # ------------------------------------------------------------------ questions of channels

    @property
    def protocol_name(self) -> str:
        """The version the client speaks: ``AMQP 0-9-1``, ``AMQP 0-9`` or ``AMQP 0-8``."""
        return self.engine.version.name

    def require_host(self) -> VirtualHost:
        """Return the opened virtual host."""
        assert self.host is not None
        return self.host

    def require(self, kind: PermissionKind, name: str) -> None:
        """Raise ACCESS_REFUSED unless the user may configure, write or read ``name``."""
        host = self.require_host()
        if not self.broker.authenticator.allowed(self.user_name, host.name, kind, name):
            raise ChannelError(
                constants.ACCESS_REFUSED,
                f"{kind} access to '{name}' in vhost '{host.name}' refused for user '{self.user_name}'",
            )

    def capable(self, name: str) -> bool:
        """Say whether the client announced a capability."""
        return bool(self.engine.capabilities.get(name))

    def accepts_durable(self, size: int, now: int) -> bool:
        """Say whether the message log takes another persistent message of ``size`` bytes."""
        return self.broker.accepts_durable(size, now)

    def fail_channel(self, number: int, code: int, text: str, class_id: int, method_id: int) -> None:
        """Close a channel on the broker's own account."""
        self.engine.close_channel_with_error(number, code, text, class_id, method_id)
        self.mark_dirty()

    def force_close(self, text: str) -> None:
        """End the connection politely: 320 CONNECTION_FORCED."""
        self.engine.close_connection(constants.CONNECTION_FORCED, text)
        self.mark_dirty()

    def abort(self) -> None:
        """Cut the socket."""
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ engine: connection

    def authenticate(self, mechanism: str, response: bytes, client_properties: dict[str, PropertyValue]) -> str | None:
        """Check SASL credentials, off the loop. ``guest`` works from loopback only."""
        self.login.begin(mechanism, response, client_properties)
        return PENDING

    def respond(self, response: bytes) -> str | None:
        """Check the answer to a challenge."""
        self.login.respond(response)
        return PENDING

    def logged_in(self, user: str) -> None:
        """The peer is this user: go on."""
        self.user_name = user
        self.publisher = f"{user}@{self.login.peer}" if self.login.peer.address else user
        self.engine.authentication_finished(user)

    def open_virtual_host(self, name: str) -> None:
        """Choose the virtual host; 530 when it does not exist or the user may not enter."""
        host = self.broker.hosts.get(name)
        if host is None:
            raise ConnectionFault(constants.NOT_ALLOWED, f"vhost {name} not found")
        if not self.broker.authenticator.may_enter(self.user_name, name):
            raise ConnectionFault(
                constants.NOT_ALLOWED, f"access to vhost '{name}' refused for user '{self.user_name}'"
            )
        self.login.open(self.user_name)
        self.host = host
        self._topology = Topology(self, host)

    def connection_opened(self) -> None:
        """Negotiation is over: heartbeats replace the hand-shake timer."""
        self.opened = True
        logger.info(
            "connection opened",
            peer=self.name,
            user=self.user_name,
            vhost=self.require_host().name,
            protocol=self.protocol_name,
        )
        self._start_heartbeat()

    def connection_closed(self, code: int, text: str, by_peer: bool) -> None:
        """Both sides agreed to end, or the engine gave the peer up."""
        if self.opened:
            log = logger.info if code in (0, 200, constants.CONNECTION_FORCED) else logger.warning
            log("connection closed", peer=self.name, code=code, reason=text, by_peer=by_peer)
        else:
            self.broker.admission.note_never_open(self.name, code, text)
        self._end()
        if not self.engine.closed:  # connection.close was sent; not every peer answers
            self._restart_timer(common.CLOSE_ANSWER_SECONDS, self.abort)

    def _end(self) -> None:
        for channel in list(self.channels.values()):
            channel.close(self.now)
        self.channels.clear()
        if self._topology is not None:
            self._topology.connection_ended()
            self._topology = None

    def update_secret(self, new_secret: bytes, reason: str) -> None:
        """Passwords do not expire here, so a new secret changes nothing (RabbitMQ answers the same way)."""

    # ------------------------------------------------------------------ engine: channel

    def open_channel(self, channel: int) -> None:
        """Create the session of a channel."""
        self.channels[channel] = Channel(channel, self)

    def close_channel(self, channel: int) -> None:
        """Return what the channel held."""
        session = self.channels.pop(channel, None)
        if session is not None:
            if not self.engine.running and not session.ending:  # the whole connection ends
                end_together([session, *self.channels.values()])
            session.close(self.now)

    def channel_flow(self, channel: int, active: bool) -> None:  # noqa: ARG002 - the same for every channel
        """channel.flow: only resuming is honoured, as in RabbitMQ; use basic.qos to hold deliveries."""
        if not active:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "channel.flow active=false; use basic.qos instead")

    # ------------------------------------------------------------------ engine: basic, confirm, tx

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        header: bytes,
        body: bytes,
    ) -> None:
        """basic.publish."""
        self.publishes = True
        try:
            self.channels[channel].publish(exchange, routing_key, mandatory, immediate, header, body)
        except core_errors.LimitExceeded as error:
            self.channels[channel].refuse_for_limit(str(error), exchange, routing_key, mandatory, header, body)
        except core_errors.CoreError as error:
            raise translate(error) from error
        except StoreError:  # the disk filled up, or failed, since it was asked
            self.channels[channel].refuse_publish(len(body))

    def acknowledge(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """basic.ack."""
        self.channels[channel].settle(delivery_tag, multiple)

    def reject(self, channel: int, delivery_tag: int, requeue: bool) -> None:
        """basic.reject."""
        self.channels[channel].refuse_delivery(delivery_tag, False, requeue)

    def negative_acknowledge(self, channel: int, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        """basic.nack."""
        self.channels[channel].refuse_delivery(delivery_tag, multiple, requeue)

    def qos(self, channel: int, prefetch_size: int, prefetch_count: int, global_: bool) -> None:
        """basic.qos."""
        self.channels[channel].set_prefetch(prefetch_size, prefetch_count, global_)
        self.engine.send_qos_ok(channel)

    def recover(self, channel: int, requeue: bool) -> None:
        """basic.recover."""
        if not requeue:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "basic.recover with requeue=false; use requeue=true")
        self.channels[channel].recover(self.now)

    def confirm_select(self, channel: int, no_wait: bool) -> None:
        """confirm.select."""
        self.channels[channel].confirm_select()
        if not no_wait:
            self.engine.send_confirm_select_ok(channel)

    def tx_select(self, channel: int) -> None:
        """tx.select."""
        self.channels[channel].tx_select()
        self.engine.send_tx_select_ok(channel)

    def tx_commit(self, channel: int) -> None:
        """tx.commit; the answer waits for the disk."""
        self.channels[channel].tx_commit()

    def tx_rollback(self, channel: int) -> None:
        """tx.rollback."""
        self.channels[channel].tx_rollback()
