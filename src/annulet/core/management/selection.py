"""Selection of a queue's messages by an operator: by id, by selector or all, narrowed by conditions, with a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED
from annulet.core.management.conditions import Conditions
from annulet.core.message.selector_names import PER_DELIVERY, MessageLookup
from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX
from annulet.selector.errors import SelectorError
from annulet.selector.selector import Selector, compile_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from annulet.core.message.message import PropertyValue
    from annulet.core.model.entry import QueueEntry

IDS_MAX: Final = 100_000
"""Ids one selection may name, about 6 MB; use a selector for more."""

SHOWN_IDS: Final = 20
"""Ids the audit trail quotes of a selection."""


class Selection:
    """The messages of an operation. Create one with :func:`select`.

    Exactly one of ``ids`` and ``selector`` is set, or neither: then it is all messages.
    """

    __slots__ = ("conditions", "ids", "limit", "per_delivery", "scheduled", "selector", "steps")

    def __init__(
        self,
        ids: frozenset[int] | None,
        selector: Selector | None,
        limit: int,
        *,
        scheduled: bool,
        conditions: Conditions | None = None,
    ) -> None:
        self.ids = ids
        self.selector = selector
        self.limit = limit  # messages the operation may change; -1 = no limit
        self.scheduled = scheduled  # scheduled ones too; ids name them in any case
        self.conditions = conditions  # that a selected message has to fulfil as well
        self.steps = 0  # of the selector and the search for a text since :meth:`begin_slice`
        # the selector uses names that change from delivery to delivery
        self.per_delivery = selector is not None and not PER_DELIVERY.isdisjoint(selector.identifiers)

    def matches(self, entry: QueueEntry) -> bool:
        """Return whether an entry is selected. Passes on the view's exceptions for malformed content.

        Raises :class:`~annulet.core.management.conditions.BodyTooLong` where a text would have to be searched in it.
        """
        if self.ids is not None and entry.sequence not in self.ids:
            return False
        wanted = self.conditions
        if wanted is not None and not wanted.match(entry):
            return False
        if self.selector is not None:
            self.steps += self.selector.steps_for(len(entry.message.header))
            if not self.selector.matches(entry_lookup(entry)):
                return False
        if wanted is None:
            return True
        self.steps += wanted.steps(entry.message)
        return wanted.contain(entry.message)

    @property
    def whole(self) -> bool:
        """Return whether it is all messages, without a limit."""
        return self.ids is None and self.selector is None and self.conditions is None and self.limit == UNLIMITED

    def begin_slice(self) -> None:
        """Begin to count the steps of the selector anew."""
        self.steps = 0

    @property
    def used_up(self) -> bool:
        """Return whether the selector has taken as long as it may in one slice."""
        return self.steps >= EVALUATION_STEPS_MAX

    def __str__(self) -> str:
        """Return the selection as the audit trail quotes it."""
        parts = ["all messages"]
        if self.ids is not None:
            shown = sorted(self.ids)[:SHOWN_IDS]
            more = len(self.ids) - len(shown)
            parts = [f"ids {', '.join(map(str, shown))}" + (f" and {more} more" if more else "")]
        elif self.selector is not None:
            parts = [f"selector {self.selector.text}"]
        if self.conditions is not None:
            parts.append(str(self.conditions))
        if self.scheduled:
            parts.append("with scheduled ones")
        if self.limit != UNLIMITED:
            parts.append(f"limit {self.limit}")
        return ", ".join(parts)


def select(
    *,
    ids: Iterable[int] | None = None,
    selector: str = "",
    everything: bool = False,
    limit: int = UNLIMITED,
    scheduled: bool = False,
    conditions: Conditions | None = None,
) -> Selection:
    """Return the selection that was given in exactly one way: ``ids``, ``selector`` or ``everything``.

    ``ids`` are sequence numbers of the queue, at most :data:`IDS_MAX`. ``selector`` is a JMS selector, which may here
    name the delivery count as well. ``limit``: messages the operation may change, from 1; -1 = no limit.
    ``conditions`` narrow any of the three.

    Raises:
        InvalidArgument: none or several ways, a bad selector (with its place), an id or limit out of range.
    """
    chosen = frozenset(_checked_ids(ids)) if ids is not None else None
    if (chosen is not None) + bool(selector) + everything != 1:
        raise InvalidArgument(
            "messages are selected in exactly one way: ids, a selector, or everything; "
            f"given were {'no' if chosen is None else len(chosen)} ids, selector={selector!r}, everything={everything}"
        )
    if type(limit) is not int or (limit != UNLIMITED and limit < 1):
        raise InvalidArgument(f"limit={limit!r}: give how many messages may be changed, from 1; -1 is no limit")
    narrowed = conditions if conditions is not None and conditions.given else None
    return Selection(chosen, _compiled(selector), limit, scheduled=scheduled, conditions=narrowed)


def _checked_ids(ids: Iterable[int]) -> list[int]:
    checked: list[int] = []
    for number in ids:
        if type(number) is not int or number < 1:
            raise InvalidArgument(f"ids: {number!r} is no message id; ids are the queue's sequence numbers, from 1")
        checked.append(number)
        if len(checked) > IDS_MAX:
            raise InvalidArgument(f"ids: more than {IDS_MAX} are given; use a selector, or several operations")
    return checked


def _compiled(text: str) -> Selector | None:
    if not text:
        return None
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise InvalidArgument(f"invalid selector: {error.place}: {error.problem}") from error


def entry_lookup(entry: QueueEntry) -> Callable[[str], PropertyValue]:
    """Return a function from identifier to value for one entry.

    Unlike a consumer's selector an operator's is evaluated once, now, so it may use names that change from delivery to
    delivery: ``JMSXDeliveryCount`` (of the next delivery, from 1), ``amqp.delivery_count`` (those before it),
    ``JMSRedelivered`` and ``amqp.redelivered``.
    """
    of_message = MessageLookup(entry.message).value

    def value(name: str) -> PropertyValue:
        if name not in PER_DELIVERY:
            return of_message(name)
        if name == "JMSXDeliveryCount":
            return entry.delivery_count + 1
        if name == "amqp.delivery_count":
            return entry.delivery_count
        return entry.redelivered

    return value
