"""An AMQP 1.0 client without a socket: frames into a real connection object, frames out of a recording transport."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeVar

from annulet.broker.amqp10.connection import Amqp10Connection
from annulet.broker.broker import Broker
from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.core.message.message import PropertyValue
from annulet.core.queue.queue import Queue
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, SASL_HEADER, encode_frame, next_frame
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow, Transfer
from annulet.wire.amqp10.frames.outcomes import Accepted, DeliveryState, Error
from annulet.wire.amqp10.frames.performatives import (
    Attach,
    Begin,
    Detach,
    End,
    Open,
    Source,
    Target,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.frames.sasl import SaslInit, SaslOutcome, SaslResponse
from annulet.wire.amqp10.messages import sections
from annulet.wire.amqp10.types.values import decode_value
from tests.broker.amqp091.peer import RecordingTransport, answered, turns

Kind = TypeVar("Kind")
ACCEPTED = Accepted()
WINDOW = 10_000
PATIENCE = 5  # seconds for what a thread does: a login, the disk
MAX_FRAME_SIZE = 1 << 20


class Received(NamedTuple):
    """A frame from the broker. ``performative`` is ``None`` for an empty frame."""

    channel: int
    performative: Any
    payload: bytes


class PeerLink:
    """The client's end of a link. ``answer`` is the broker's attach."""

    def __init__(self, name: str, handle: int, channel: int, *, receiver: bool) -> None:
        self.name = name
        self.handle = handle
        self.channel = channel
        self.receiver = receiver
        self.answer: Attach | None = None
        self.delivery_count = 0  # messages received over it
        self.flows: list[Flow] = []  # of the broker

    @property
    def source(self) -> Source:
        assert self.answer is not None
        assert isinstance(self.answer.source, Source)
        return self.answer.source

    @property
    def target(self) -> Target:
        assert self.answer is not None
        assert isinstance(self.answer.target, Target)
        return self.answer.target


class Delivery(NamedTuple):
    """A message that came, its sections decoded; what is absent has its default."""

    handle: int
    number: int
    tag: bytes
    settled: bool
    resume: bool
    state: Any
    payload: bytes
    header: sections.Header
    annotations: dict[str, Any]
    properties: sections.Properties
    application: dict[str, Any]
    body: Any


class Peer:
    """One client. ``send`` hands frames over in one read; ``take`` and ``one`` look at what came back."""

    def __init__(self, broker: Broker, container: str = "client") -> None:
        self.broker = broker
        self.container = container
        self.transport = RecordingTransport()
        self.connection = Amqp10Connection(broker)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.links: dict[tuple[int, int], PeerLink] = {}  # by channel and the broker's handle
        self.attaching: list[PeerLink] = []
        self.handles = 0
        self.transfers_received: dict[int, int] = {}
        self.transfers_sent: dict[int, int] = {}
        self.partial: dict[tuple[int, int], tuple[Transfer, bytes]] = {}
        self.kept: list[Received] = []

    # ------------------------------------------------------------------ frames

    def receive(self, data: bytes) -> None:
        """Hand bytes over as one read."""
        self.connection.data_received(data)

    async def send(self, *items: Any, channel: int = 0) -> None:
        """Hand performatives, or bytes that are frames already, over as one read, and let the broker answer."""
        self.receive(b"".join(item if isinstance(item, bytes) else frame(item, channel) for item in items))
        await turns()
        await answered(self.connection)

    async def take(self) -> list[Received]:
        """Return the frames written since the last call."""
        await turns()
        await answered(self.connection)
        kept, self.kept = self.kept, []
        return kept + self._read()

    def _read(self) -> list[Received]:
        data = bytes(self.transport.written)
        self.transport.written.clear()
        found: list[Received] = []
        position = 0
        while position < len(data):
            if data.startswith(b"AMQP", position):
                found.append(Received(0, data[position : position + 8], b""))
                position += 8
                continue
            read = next_frame(data, position, len(data), MAX_FRAME_SIZE)
            assert read is not None, "the broker wrote a part of a frame"
            position = read.end
            if read.start == read.end:
                found.append(Received(read.channel, None, b""))
                continue
            performative, payload_start = decode_performative(data, read.start, read.end)
            self._note(read.channel, performative)
            found.append(Received(read.channel, performative, data[payload_start : read.end]))
        return found

    def _note(self, channel: int, performative: object) -> None:
        if isinstance(performative, Transfer):
            self.transfers_received[channel] = self.transfers_received.get(channel, 0) + 1
            if not performative.more and not performative.aborted:
                self.links[channel, performative.handle].delivery_count += 1
        elif isinstance(performative, Attach):
            for link in [link for link in self.attaching if link.name == performative.name]:
                self.attaching.remove(link)
                link.answer = performative
                self.links[channel, performative.handle] = link
        elif isinstance(performative, Flow) and performative.handle is not None:
            link = self.links[channel, performative.handle]
            link.flows.append(performative)
            if link.receiver and performative.delivery_count is not None:
                link.delivery_count = performative.delivery_count

    async def one(self, kind: type[Kind]) -> Kind:
        """Return the only performative of a kind among those written since the last look; others are dropped."""
        found = [item.performative for item in await self.take() if isinstance(item.performative, kind)]
        assert len(found) == 1, found
        return found[0]

    async def all(self, kind: type[Kind]) -> list[Kind]:
        """Return the performatives of a kind among those written since the last look; others are dropped."""
        return [item.performative for item in await self.take() if isinstance(item.performative, kind)]

    # ------------------------------------------------------------------ connection and session

    async def log_in(self, mechanism: str = "ANONYMOUS", response: bytes | None = None) -> SaslOutcome:
        """Go through SASL with one step; returns the outcome."""
        self.receive(SASL_HEADER)
        self.receive(sasl_frame(SaslInit(mechanism, response)))
        found = await self.until(SaslOutcome)
        assert isinstance(found[-1].performative, SaslOutcome)
        return found[-1].performative

    async def until(self, kind: type[object]) -> list[Received]:
        """Return what comes up to the first frame of a kind: logins are checked in a thread."""
        found: list[Received] = []
        async with asyncio.timeout(PATIENCE):
            while not any(isinstance(item.performative, kind) for item in found):
                found += await self.take()
        return found

    async def open(self, *, sessions: int = 1, hostname: str | None = None, **fields: Any) -> Peer:
        """Log in as guest, open, begin sessions on channels from 0 on."""
        outcome = await self.log_in()
        assert outcome.code == 0
        await self.send(AMQP_HEADER, Open(self.container, hostname, **fields))
        for channel in range(sessions):
            await self.begin(channel)
        assert self.connection.opened
        await self.take()
        return self

    async def begin(self, channel: int, **fields: Any) -> None:
        """Begin a session."""
        values = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW, **fields}
        self.transfers_received[channel] = self.transfers_sent[channel] = 0
        await self.send(Begin(None, **values), channel=channel)

    async def end(self, channel: int = 0) -> None:
        """End a session and see the answer."""
        await self.take()
        await self.send(End(), channel=channel)
        assert (await self.one(End)).error is None

    def ended(self, channel: int) -> bytes:
        """Return the frame that ends a session."""
        return frame(End(), channel)

    async def lose(self) -> None:
        """Cut the connection."""
        self.transport.abort()
        await turns()

    # ------------------------------------------------------------------ links

    async def attach(self, name: str, *, receiver: bool, channel: int = 0, **fields: Any) -> PeerLink:
        """Attach a link and note the answer; what else came is kept for the next look."""
        link = PeerLink(name, self.handles, channel, receiver=receiver)
        self.handles += 1
        self.attaching.append(link)
        if not receiver:
            fields.setdefault("initial_delivery_count", 0)
        await self.send(Attach(name, link.handle, receiver, **fields), channel=channel)
        self.kept += self._read()
        return link

    async def receiver(self, address: str | None, *, credit: int = 0, **fields: Any) -> PeerLink:
        """Attach a link that receives; ``source`` may be given whole, and ``name``, ``channel``."""
        name = fields.pop("name", f"receiver-{self.handles}")
        link = await self.attach(
            name,
            receiver=True,
            **{"source": None if address is None else Source(address), "target": Target("here"), **fields},
        )
        if credit:
            await self.credit(link, credit)
        return link

    async def sender(self, address: str | None, **fields: Any) -> PeerLink:
        """Attach a link that sends; ``target`` may be given whole, and ``name``, ``channel``."""
        name = fields.pop("name", f"sender-{self.handles}")
        return await self.attach(
            name, receiver=False, **{"source": Source("here"), "target": Target(address), **fields}
        )

    async def detach(self, link: PeerLink, *, closed: bool = False) -> None:
        """Detach a link."""
        await self.send(Detach(link.handle, closed), channel=link.channel)

    async def refusal(self, link: PeerLink) -> Error:
        """Return why the broker refused a link: its attach has no terminus, a detach with the error follows."""
        assert link.answer is not None
        assert (link.answer.source if link.receiver else link.answer.target) is None
        (detach,) = [item for item in await self.all(Detach) if item.handle == link.answer.handle]
        assert detach.closed
        assert detach.error is not None
        return detach.error

    async def credit(self, link: PeerLink, credit: int, *, drain: bool = False, echo: bool = False) -> None:
        """Grant credit."""
        self.kept += self._read()
        await self.send(self.flow(link, credit, drain=drain, echo=echo), channel=link.channel)

    def flow(self, link: PeerLink, credit: int, *, drain: bool = False, echo: bool = False) -> Flow:
        """Return the flow that grants credit, as of what was received so far."""
        return Flow(
            next_incoming_id=self.transfers_received[link.channel],
            incoming_window=WINDOW,
            next_outgoing_id=self.transfers_sent[link.channel],
            outgoing_window=WINDOW,
            handle=link.handle,
            delivery_count=link.delivery_count,
            link_credit=credit,
            drain=drain,
            echo=echo,
        )

    # ------------------------------------------------------------------ messages

    def transfer(self, link: PeerLink, payload: bytes, **fields: Any) -> bytes:
        """Return the frame of a message of one transfer. Delivery ids count from 0 in each session."""
        number = self.transfers_sent[link.channel]
        self.transfers_sent[link.channel] += 1
        tag = fields.pop("delivery_tag", b"%d" % number)
        values = {"settled": False, **fields}
        return frame(Transfer(link.handle, number, tag, 0, **values), link.channel, payload)

    def transfer_as(
        self, link: PeerLink, number: int | None, payload: bytes, *, message_format: int | None = 0, **fields: Any
    ) -> bytes:
        """Return the frame of a transfer with this delivery id."""
        tag = None if number is None else b"%d" % number
        return frame(Transfer(link.handle, number, tag, message_format, **fields), link.channel, payload)

    def continued(self, link: PeerLink, payload: bytes, **fields: Any) -> bytes:
        """Return a further frame of the message that was begun."""
        return self.transfer_as(link, None, payload, message_format=None, **fields)

    async def publish(self, link: PeerLink, payload: bytes, **fields: Any) -> Any:
        """Send a message; returns the state of the broker's disposition, which may have to wait for the disk.

        A settled message has none. What else came is kept.
        """
        assert link.answer is not None
        assert link.answer.target is not None, "the broker refused the link"
        number = self.transfers_sent[link.channel]
        await self.send(self.transfer(link, payload, **fields), channel=link.channel)
        if fields.get("settled"):
            return None
        seen: list[Received] = []
        async with asyncio.timeout(PATIENCE):
            while number not in (told := outcomes(seen, link.channel)):
                await asyncio.sleep(0)
                seen += await self.take()
        self.kept = seen
        return told[number]

    async def settle(
        self, state: DeliveryState | None, *deliveries: Delivery, settled: bool = True, channel: int = 0
    ) -> None:
        """Tell the outcome of deliveries, one by one."""
        await self.send(
            *(Disposition(True, item.number, item.number, settled, state) for item in deliveries), channel=channel
        )

    def settled_by_sender(self, number: int) -> bytes:
        """Return the frame by which a sender forgets a delivery whose outcome it has seen."""
        return frame(Disposition(False, number, None, True, ACCEPTED))

    async def deliveries(self) -> list[Delivery]:
        """Return the messages that came since the last look; what else came is dropped."""
        return self.deliveries_among(await self.take())

    def deliveries_among(self, frames: list[Received]) -> list[Delivery]:
        """Return the messages among frames, their transfers joined."""
        found: list[Delivery] = []
        for item in frames:
            if isinstance(item.performative, Transfer):
                key = (item.channel, item.performative.handle)
                first, payload = self.partial.pop(key, (item.performative, b""))
                payload += item.payload
                if item.performative.more:
                    self.partial[key] = (first, payload)
                else:
                    found.append(_delivery(first, item.performative, payload))
        return found


def frame(performative: object, channel: int = 0, payload: bytes = b"") -> bytes:
    return encode_frame(FRAME_AMQP, channel, encode_performative(performative) + payload)


def sasl_frame(performative: SaslInit | SaslResponse) -> bytes:
    return encode_frame(FRAME_SASL, 0, encode_performative(performative))


def message(
    body: bytes = b"x",
    *,
    durable: bool = False,
    priority: int | None = None,
    ttl: int | None = None,
    annotations: dict[str, Any] | None = None,
    application: dict[str, Any] | None = None,
    **properties: Any,
) -> bytes:
    """Return the payload of a message with one data section."""
    parts: list[bytes] = []
    if durable or priority is not None or ttl is not None:
        parts.append(sections.encode_header(sections.Header(durable, priority, ttl)))
    if annotations:
        parts.append(sections.encode_section(sections.MESSAGE_ANNOTATIONS, annotations))
    if properties:
        parts.append(sections.encode_properties(sections.Properties(**properties)))
    if application:
        parts.append(sections.encode_section(sections.APPLICATION_PROPERTIES, application))
    return b"".join([*parts, sections.encode_section(sections.DATA, body)])


def value(content: Any) -> bytes:
    """Return the payload of a message with an amqp-value section."""
    return sections.encode_section(sections.VALUE, content)


def _delivery(first: Transfer, last: Transfer, payload: bytes) -> Delivery:
    header, annotations, properties = sections.Header(), dict[str, Any](), sections.Properties()
    application: dict[str, PropertyValue] = {}
    body: Any = b""
    if payload:
        split = sections.split_message(payload)
        if split.header is not None:
            header = sections.decode_header(payload, split.header.content, split.header.end)
        if split.message_annotations is not None:
            annotations = decode_value(payload, split.message_annotations.content, split.message_annotations.end)[0]
        if split.properties is not None:
            properties = sections.decode_properties(payload, split.properties.content, split.properties.end)
        if split.application_properties is not None:
            section = split.application_properties
            application = decode_value(payload, section.content, section.end)[0]
        body = [decode_value(payload, part.content, part.end)[0] for part in split.body]
        body = body[0] if len(body) == 1 else body
    assert first.delivery_id is not None
    assert first.delivery_tag is not None
    return Delivery(
        first.handle, first.delivery_id, bytes(first.delivery_tag), bool(first.settled or last.settled),
        bool(first.resume), first.state, payload, header, annotations, properties, application, body,
    )  # fmt: skip


def outcomes(frames: list[Received], channel: int = 0) -> dict[int, Any]:
    """Return what the broker said of deliveries to it in a session, by delivery id."""
    found: dict[int, Any] = {}
    for item in frames:
        told = item.performative
        if isinstance(told, Disposition) and told.role and item.channel == channel:
            for number in range(told.first, (told.first if told.last is None else told.last) + 1):
                found[number] = told.state
    return found


def bodies(deliveries: list[Delivery]) -> list[Any]:
    return [delivery.body for delivery in deliveries]


def permit(broker: Broker, host: str = "/", *, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
    """Let guest do this in a virtual host."""
    broker.catalogue.access.set_permission("guest", host, configure, write, read)
    broker.authenticator.reload()


def queue_of(broker: Broker, name: str, arguments: dict[str, Any] | None = None, *, durable: bool = True) -> Queue:
    """Declare a queue in the default virtual host, as an operator does."""
    host = broker.hosts["/"]
    declarations = DurableDeclarations(host, broker.catalogue)
    return declarations.queue(
        name, now=broker.clock(), durable=durable, auto_delete=False, arguments=arguments or {}, server_named=False
    )
