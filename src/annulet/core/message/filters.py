"""Filters: the selectors of bindings, queues and diverts. Each distinct one is evaluated once per message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.steps import Steps
from annulet.core.message.selector_names import lookup_for, refuse_per_delivery
from annulet.selector.errors import SelectorError
from annulet.selector.selector import Selector, compile_selector

if TYPE_CHECKING:
    from annulet.core.message.message import Message


def compile_filter(text: str, what: str) -> Selector | None:
    """Compile a selector; ``None`` for an empty text, which every message passes.

    ``what`` names its place. Raises :class:`InvalidArgument` with the position of the error, and for names that differ
    from delivery to delivery.
    """
    if not text.strip():
        return None
    try:
        selector = compile_selector(text)
    except SelectorError as error:
        raise InvalidArgument(f"{what} is no selector: {error}") from error
    refuse_per_delivery(selector, what)
    return selector


class Verdicts:
    """The results of the filters on a message's route, each evaluated at most once: equal selectors are one object."""

    __slots__ = ("_known", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._known: dict[Selector, bool] = {}

    def admits(self, selector: Selector | None, steps: Steps | None = None) -> bool:
        """Return whether a filter lets the message pass; no filter lets everything pass.

        ``steps``: what evaluations may take of the message's. Raises the error of that when they are used up.
        """
        if selector is None:
            return True
        verdict = self._known.get(selector)
        if verdict is None:
            if steps is not None:
                steps.left -= selector.steps_for(len(self.message.header))
                if steps.left < 0:
                    steps.take(0)
            verdict = selector.matches(lookup_for(self.message))
            self._known[selector] = verdict
        return verdict
