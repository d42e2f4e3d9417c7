"""Outcomes that senders had not seen settled when their links were suspended, for when they resume them (§2.6.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from annulet.wire.amqp10.frames.outcomes import Outcome

REMEMBERED_LINKS_MAX: Final = 1024
"""Suspended links of all clients whose outcomes are remembered: far more than lose their connection at a time."""

REMEMBERED_OUTCOMES_MAX: Final = 65_536
"""Outcomes remembered of all links together: as many as one session may leave unsettled, about 10 MB."""


class LinkName(NamedTuple):
    """The key of a suspended link: no other user may ask for it, or have it forgotten."""

    host: str
    user: str
    container: str
    link: str


class RememberedOutcomes:
    """By link and delivery tag, in memory. The longest suspended links make room for others.

    ``forgotten``: how many outcomes had to make room; their senders may send these messages again.
    """

    def __init__(self) -> None:
        self.forgotten = 0
        self.count = 0
        self._links: dict[LinkName, dict[bytes, Outcome]] = {}

    def __len__(self) -> int:
        """Return how many links are remembered."""
        return len(self._links)

    def __contains__(self, name: LinkName) -> bool:
        """Return whether a link is remembered."""
        return name in self._links

    def take(self, name: LinkName) -> dict[bytes, Outcome]:
        """Return, once, the state remembered of a link."""
        outcomes = self._links.pop(name, {})
        self.count -= len(outcomes)
        return outcomes

    def keep(self, name: LinkName, outcomes: dict[bytes, Outcome]) -> None:
        """Remember the outcomes of a link, if there are any, instead of those it had before."""
        self.take(name)
        if not outcomes:
            return
        self._links[name] = outcomes
        self.count += len(outcomes)
        while len(self._links) > REMEMBERED_LINKS_MAX or (
            self.count > REMEMBERED_OUTCOMES_MAX and len(self._links) > 1  # one session cannot leave more by itself
        ):
            self.forgotten += len(self.take(next(iter(self._links))))
