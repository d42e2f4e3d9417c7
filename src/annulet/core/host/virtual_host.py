"""A virtual host: everything clients can name. This module puts it together and does the due work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.configuration.address_settings import AddressSettingsRepository, PolicyRepository
from annulet.core.host.auto_created import NEVER, address_due_at, sooner
from annulet.core.host.dead_letters import DeadLetters
from annulet.core.host.nodes import Nodes
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.routing.routing_graph import ROUTES_MAX

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.node_effects import NodeEffects

__all__ = ["ROUTES_MAX", "VirtualHost"]


class VirtualHost(Nodes):
    """Everything clients can name, and nothing of another virtual host.

    ``address_settings``, ``policies``: the settings that addresses and queues get by their names; empty unless the
    caller brings some. Both may change at any time; queues follow at once.
    """

    def __init__(
        self,
        name: str,
        effects: NodeEffects,
        *,
        ledger: LossLedger | None = None,
        address_settings: AddressSettingsRepository | None = None,
        policies: PolicyRepository | None = None,
    ) -> None:
        super().__init__(
            name,
            effects,
            LossLedger() if ledger is None else ledger,
            AddressSettingsRepository() if address_settings is None else address_settings,
            PolicyRepository() if policies is None else policies,
        )
        self.dead_letters = DeadLetters(self)
        self.dead_letters.ensure_target = self.ensure_target
        self.forwarder = self.dead_letters
        self._round: list[Queue] | None = None  # still to be looked at in the round under way, the next one last
        self._following = NEVER  # the first time that one of those before is due at

    def tick(self, now: int) -> int:
        """Do all due work: expiry, schedules, unused queues and addresses. Returns when more is due; 0 for never.

        Messages and queues that arrive later may be due earlier, so call it at least every second. Being late costs
        memory and counters only: an expired message is never delivered.
        """
        self._round = None
        following = self.tick_some(now, 1 << 62)
        assert following is not None
        return following

    def tick_some(self, now: int, most: int) -> int | None:
        """Do it for so many queues, one call after the other. Returns what :meth:`tick` does, ``None`` before the last.

        Queues examined first request from their effects to be woken for work that falls due in between.
        """
        if self._round is None:
            self.settle_rings(now)
            self._round = list(self.queues.values())
            self._round.reverse()
            self._following = NEVER
        self.latest = max(self.latest, now)
        for _ in range(min(most, len(self._round))):
            queue = self._round.pop()
            if queue.deleted:  # an earlier one took it along
                continue
            queue.tick(now)
            goes_at = self.unused_at(queue)
            if goes_at and goes_at <= now:
                self.delete_queue(queue, now)
                continue
            self._following = sooner(self._following, sooner(queue.next_due_at(), goes_at))
        if self._round:
            return None
        self._round = None
        for address in list(self.addresses.values()):
            if not address.auto_created:
                continue
            due_at = address_due_at(address, self.settings_of(address.name), now)
            if due_at and due_at <= now:
                self.delete_address(address.name)
            else:
                self._following = sooner(self._following, due_at)
        return self._following
