"""What the tests of addresses, diverts and limits share: a host with settings, and messages that can be annotated."""

from __future__ import annotations

from annulet.core.base.errors import LimitExceeded
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, TableView


class NotedView(TableView):
    """Application properties; what an annotation adds is readable in the header."""

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        return message.header + repr(headers).encode()


class RecordingNodeEffects(RecordingEffects):
    """Records what the core does to nodes by itself; gives the queues it makes ids from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[str] = []
        self.blocked: list[tuple[str, bool]] = []
        self.dropping: list[tuple[str, str]] = []
        self.bound: list[tuple[str, str]] = []
        self.noted: list[tuple[str, str, int]] = []
        self.forgotten: list[str] = []

    def queue_created(self, queue: Queue) -> None:
        self.created.append(queue.name)
        queue.queue_id = len(self.created)

    def address_created(self, address) -> None:
        self.created.append(address.name)

    def binding_created(self, binding) -> None:
        self.bound.append((binding.source.name, binding.destination_name))

    def address_blocked(self, name: str, *, blocked: bool) -> None:
        self.blocked.append((name, blocked))

    def address_drops(self, name: str, rule: str) -> None:
        self.dropping.append((name, rule))

    def duplicate_noted(self, address: str, duplicate_id: str, cache_size: int = 0) -> None:
        self.noted.append((address, duplicate_id, cache_size))

    def duplicates_forgotten(self, address: str) -> None:
        self.forgotten.append(address)


def make_host(settings: dict[str, dict[str, PropertyValue]] | None = None) -> VirtualHost:
    """A virtual host whose address settings are given by pattern."""
    host = VirtualHost("/", RecordingNodeEffects())
    for pattern, given in (settings or {}).items():
        host.address_settings.set(pattern, given)
    return host


def declare(host: VirtualHost, *names: str, **options) -> list[Queue]:
    """Declare queues; keyword ``arguments`` and the like go to each."""
    return [host.declare_queue(name, now=NOW, **options) for name in names]


def address(host: VirtualHost, name: str, *queues: str, types: tuple[str, ...] = ("multicast",)) -> list[Queue]:
    """Declare an address with these queues, all of its default routing type."""
    host.nodes.declare_address(name, types)
    made = declare(host, *queues)
    for queue in made:
        host.nodes.attach_queue(queue, name)
    return made


def note(
    body: str = "m", *, to: str = "", connection: object | None = None, durable: bool = False, **properties
) -> Message:
    """A message sent to address ``to``."""
    origin = Origin(to, "", "guest@test", NotedView(properties), connection)
    return Message(b"", body.encode(), origin, durable=durable, accepted_at=NOW)


def send(
    host: VirtualHost, name: str, body: str = "m", *, duplicate_id: str = "", routing_type: str = "", **options
) -> int:
    """Send to a node by name. Returns how many queues it was routed to."""
    message = note(body, to=name, **options)
    return host.publisher.send_to_address(name, message, NOW, routing_type, duplicate_id=duplicate_id)


def refused(host: VirtualHost, name: str, body: str = "m", **options) -> str:
    """Send what must be refused; return why."""
    try:
        send(host, name, body, **options)
    except LimitExceeded as error:
        return str(error)
    raise AssertionError(f"{name} took {body!r}")


def held(host: VirtualHost, *names: str) -> list[list[str]]:
    """Bodies of what is pending in these queues, in order of dispatch."""
    return [[entry.message.body.decode() for entry in host.queues[name].order.entries()] for name in names]
