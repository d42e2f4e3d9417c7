"""The common part of all exchanges: name, properties and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.base.steps import Steps
    from annulet.core.message.message import PropertyValue
    from annulet.core.routing.bindings import Binding, BindingKey


class Exchange:
    """A named place to publish to. Subclasses index the bindings for their matching rule."""

    type_name: str = ""
    uses_headers: bool = False  # the match depends on the message, not on the routing key alone

    def __init__(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        arguments: dict[str, PropertyValue] | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete  # deleted with its last binding as a source, once it had one
        self.internal = internal  # reached through other exchanges only
        self.alternate = alternate  # where messages go that match no binding; None = nowhere
        self.arguments: dict[str, PropertyValue] = {} if arguments is None else arguments
        self.bindings: dict[BindingKey, Binding] = {}
        self.queue_bindings = 0  # of these, how many lead to queues
        self.incoming: dict[Binding, None] = {}  # bindings of other exchanges that lead here
        self.dropped = False  # it is out of the graph; its bindings may go in slices
        self.prepare()

    def prepare(self) -> None:
        """Make the empty index of the subclass. Called once, by the constructor."""

    def add(self, binding: Binding) -> None:
        """Add a new binding. Raises :class:`InvalidArgument` for arguments it cannot match by."""
        self.index(binding)
        self.bindings[binding.key] = binding
        self.queue_bindings += binding.queue is not None

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        del self.bindings[binding.key]
        self.queue_bindings -= binding.queue is not None
        self.unindex(binding)

    def index(self, binding: Binding) -> None:
        """Make a new binding findable by :meth:`match`."""
        raise NotImplementedError

    def unindex(self, binding: Binding) -> None:
        """Undo :meth:`index`; the binding is no longer in ``bindings``."""
        raise NotImplementedError

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return the bindings a message follows. ``headers`` is used only if ``uses_headers``.

        ``steps``: what the search may take of the message's; ``None`` for as many as there are. Raises
        :class:`~annulet.core.base.steps.RoutingTooLong` when they are used up.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
