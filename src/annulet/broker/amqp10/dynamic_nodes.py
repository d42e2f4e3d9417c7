"""Nodes the broker makes because a client asks for one without a name (§3.5.3, §3.5.4 ``dynamic``).

When they go is the client's choice (§3.5.10 to §3.5.13); without one they go with the connection. Every queue argument
of this broker may be given as a node property, by its name with or without the ``x-``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.connections.access import READ, WRITE, end_address, end_queue, generated_name
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.typed_values import Described
from annulet.wire.amqp10.frames import terminus

if TYPE_CHECKING:
    from annulet.broker.amqp10.connection import Amqp10Connection
    from annulet.broker.amqp10.services import Amqp10Services
    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue
    from annulet.wire.amqp10.connection.link import Link
    from annulet.wire.amqp10.frames.terminus import Source, Target

TEMPORARY_QUEUE: Final = "temporary-queue"
TEMPORARY_TOPIC: Final = "temporary-topic"
TOPIC: Final = "topic"

CHECK_SECONDS: Final = 0.5
"""How often nodes are looked at that go when they are empty: the departure of the last message is not announced."""

LIFETIME_POLICIES: Final = {
    terminus.DELETE_ON_CLOSE: terminus.DELETE_ON_CLOSE,
    terminus.DELETE_ON_NO_LINKS: terminus.DELETE_ON_NO_LINKS,
    terminus.DELETE_ON_NO_MESSAGES: terminus.DELETE_ON_NO_MESSAGES,
    terminus.DELETE_ON_NO_LINKS_OR_MESSAGES: terminus.DELETE_ON_NO_LINKS_OR_MESSAGES,
    "amqp:delete-on-close:list": terminus.DELETE_ON_CLOSE,
    "amqp:delete-on-no-links:list": terminus.DELETE_ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": terminus.DELETE_ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": terminus.DELETE_ON_NO_LINKS_OR_MESSAGES,
}
"""Descriptor, numeric or symbolic, to code."""

STANDARD_PROPERTIES: Final = (terminus.LIFETIME_POLICY, terminus.SUPPORTED_DISTRIBUTION_MODES)


class DynamicNode:
    """A node the broker named. ``policy`` of 0: it goes with the connection."""

    __slots__ = ("creator", "links", "name", "policy", "queue", "was_linked")

    def __init__(self, name: str, queue: Queue | None, policy: int, creator: Link) -> None:
        self.name = name
        self.queue = queue  # None: an address
        self.policy = policy
        self.creator: Link | None = creator  # None once its connection has ended
        self.links: dict[Link, None] = {}  # of all connections, while they are attached to it
        self.was_linked = False


class DynamicNodes:
    """The dynamic nodes of one connection, which they may outlive and so do not hold."""

    def __init__(self, broker: Amqp10Services) -> None:
        self._broker = broker
        self._host: VirtualHost | None = None  # of the connection; known with the first node
        self._nodes: dict[str, DynamicNode] = {}
        self._checking = False

    # ------------------------------------------------------------------ making

    def create(self, session: Amqp10Session, link: Link, wanted: Source | Target) -> str:
        """Make a node and return its address. Raises what declaring a queue raises."""
        connection = session.connection
        self._host = host = session.host
        properties = wanted.dynamic_node_properties
        policy = _policy(properties.get(terminus.LIFETIME_POLICY))
        arguments = _arguments(properties)
        capabilities = {str(capability) for capability in wanted.capabilities}
        name = generated_name("amq.dynamic-")
        if not link.incoming or not capabilities & {TEMPORARY_TOPIC, TOPIC}:
            queue = session.access.declare_queue(
                name,
                now=connection.now,
                durable=wanted.expiry_policy == terminus.EXPIRE_NEVER,
                auto_delete=False,
                arguments=arguments,
                server_named=True,
                then=WRITE if link.incoming else READ,
            )
            self._nodes[name] = DynamicNode(name, queue, policy, link)
        else:
            name = name.removeprefix("amq.")
            if arguments:
                raise InvalidArgument(
                    f"dynamic-node-properties: {', '.join(arguments)} belong to queues, and capability "
                    f"'{TEMPORARY_TOPIC}' asks for an address; leave them out"
                )
            session.access.declare_dynamic_address(name)
            self._nodes[name] = DynamicNode(name, None, policy, link)
        session.access.made.append(partial(self._forget, name))
        if wanted.expiry_policy == terminus.EXPIRE_NEVER and not policy:
            del self._nodes[name]  # it stays until it is deleted
        else:
            registry = self._broker.dynamic_nodes.setdefault(host.name, {})
            registry[name] = self
        return name

    def _forget(self, name: str, _now: int) -> None:
        """The attach that made a node was refused; the node itself goes as all that it declared does."""
        assert self._host is not None
        self._nodes.pop(name, None)
        self._broker.dynamic_nodes.get(self._host.name, {}).pop(name, None)

    # ------------------------------------------------------------------ links

    def attached(self, name: str, link: Link) -> None:
        """A link, of any connection, is attached to one of these nodes."""
        node = self._nodes.get(name)
        if node is not None:
            node.links[link] = None
            node.was_linked = True
            if node.policy in {terminus.DELETE_ON_NO_MESSAGES, terminus.DELETE_ON_NO_LINKS_OR_MESSAGES}:
                self._check_later()

    def detached(self, name: str, link: Link, *, closed: bool) -> None:
        """A link is gone: the node may have to go too."""
        node = self._nodes.get(name)
        if node is None:
            return
        node.links.pop(link, None)
        if node.policy == terminus.DELETE_ON_CLOSE and node.creator is link and closed:
            self._delete(node)
        elif node.policy in {terminus.DELETE_ON_NO_LINKS, terminus.DELETE_ON_NO_LINKS_OR_MESSAGES}:
            self._look_at(node)

    def connection_ended(self) -> None:
        """Delete the rest, except nodes that wait for other links to end or to empty them."""
        for node in list(self._nodes.values()):
            node.creator = None
            if node.policy in {0, terminus.DELETE_ON_CLOSE}:
                self._delete(node)
            else:
                self._look_at(node)

    def _look_at(self, node: DynamicNode) -> None:
        queue = node.queue
        empty = queue is None or queue.message_count() == 0
        orphaned = node.creator is None and not node.links
        unlinked = orphaned or (node.was_linked and not node.links)
        if node.policy == terminus.DELETE_ON_NO_LINKS:
            gone = unlinked
        elif node.policy == terminus.DELETE_ON_NO_MESSAGES and queue is not None:
            gone = empty and (queue.counters.messages_added > 0 or orphaned)  # it may wait for its first message
        else:  # an address never has messages
            gone = unlinked and empty
        if gone:
            self._delete(node)

    def _check_later(self) -> None:
        if not self._checking:
            self._checking = True
            self._broker.loop.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._checking = False
        if self._broker.stopping:
            return
        for node in list(self._nodes.values()):
            if node.policy in {terminus.DELETE_ON_NO_MESSAGES, terminus.DELETE_ON_NO_LINKS_OR_MESSAGES}:
                self._look_at(node)
        if any(
            node.policy in {terminus.DELETE_ON_NO_MESSAGES, terminus.DELETE_ON_NO_LINKS_OR_MESSAGES}
            for node in self._nodes.values()
        ):
            self._check_later()

    def _delete(self, node: DynamicNode) -> None:
        host = self._host
        assert host is not None
        del self._nodes[node.name]
        self._broker.dynamic_nodes.get(host.name, {}).pop(node.name, None)
        now = self._broker.clock()
        if node.queue is not None:
            end_queue(host, node.queue, now)
        elif node.name in host.addresses:
            end_address(host, host.addresses[node.name])


def owner_of(connection: Amqp10Connection, host: VirtualHost, name: str) -> DynamicNodes | None:
    """Return whose dynamic node a name is; ``None`` when it is an ordinary one."""
    return connection.services.dynamic_nodes.get(host.name, {}).get(name)


def _policy(value: Any) -> int:
    if value is None:
        return 0
    descriptor = value[0] if isinstance(value, Described) else value
    known = LIFETIME_POLICIES.get(descriptor) if isinstance(descriptor, int | str) else None
    if known is None:
        raise InvalidArgument(
            f"dynamic-node-properties: lifetime-policy is {descriptor!r}; give one of "
            f"{', '.join(name for name in LIFETIME_POLICIES if isinstance(name, str))}"
        )
    return known


def _arguments(properties: dict[str, Any]) -> Arguments:
    """Return the node properties that are queue arguments, in plain types: a queue forgets its declarer."""
    return {str(name): plain(value) for name, value in properties.items() if name not in STANDARD_PROPERTIES}


def plain(value: Any) -> Any:
    """Return a value without the type it had on the wire."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)
