"""What was promised of declarations and duplicate ids (:mod:`tests.crash.power_clients`), and whether it is kept."""

from __future__ import annotations

from typing import Any

from tests.bulk.helpers import Bench
from tests.crash.mortal_broker import number_of
from tests.crash.power_clients import EXCHANGE, ONCE, RESIZED, SWIFT, duplicate_id, made_name
from tests.crash.promises import Promises


class PowerPromises(Promises):
    """As :class:`Promises`, and what only the databases remember."""

    clients = "power"

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, int] = {}  # promised, and not tried to delete since; by name
        self.tried: dict[str, int] = {}
        self.filled: set[int] = set()
        self.deleted: set[str] = set()
        self.deleting = False  # since the accounts were settled
        self.sizes = {1}  # the changed queue may have
        self.size = 1
        self.ids: dict[str, set[int]] = {ONCE: set(), SWIFT: set()}
        self.ids_tried: dict[str, set[int]] = {ONCE: set(), SWIFT: set()}
        self.bound = False  # the exchange was declared
        self.did: set[str] = set()  # what was promised at least once

    def _ready(self, number: int) -> None:
        self.next_number = max(self.next_number, number + 1)

    def _declare(self, facts: list[int], *, promised: bool) -> None:
        (number,) = facts
        self._ready(number)
        self.tried[made_name(number)] = number
        if promised:
            self.declared[made_name(number)] = number
            self.bound = True
            self.did.add("declare")

    def _fill(self, facts: list[int], *, promised: bool) -> None:
        assert promised
        self.filled.update(facts)

    def _undeclare(self, name: str, *, promised: bool) -> None:
        self.declared.pop(name, None)
        self.deleting = True
        if promised:
            self.deleted.add(name)
            self.did.add("undeclare")

    def _resize(self, size: int, *, promised: bool) -> None:
        self._ready(size)
        if promised:
            self.size, self.sizes = size, {size}
            self.did.add("resize")
        else:
            self.sizes.add(size)

    def _ids(self, facts: list[Any], *, promised: bool) -> None:
        name, numbers = facts
        self._ready(max(numbers))
        (self.ids if promised else self.ids_tried)[name].update(numbers)
        if promised:
            self.did.add(name)

    async def verify(self, here: Bench, *, refused: bool) -> None:
        """Check the queues that the rounds know, then declarations and ids."""
        await super().verify(here, refused=refused)
        host = here.host
        if self.bound:
            assert host.exchanges[EXCHANGE].durable, "a declared exchange is lost"
        made = {name: queue for name, queue in host.queues.items() if name.startswith("made-")}
        assert set(made) <= set(self.tried), "queues nobody declared"
        assert not self.deleted & set(made), "a deleted queue came back"
        for name in self.declared:
            assert name in made, f"a declared queue is lost: {name}"
        for name, queue in made.items():
            number = self.tried[name]
            assert queue.settings.ring_size == number + 1, "its arguments are others"
            bound = EXCHANGE in host.exchanges and queue in host.route(EXCHANGE, f"of.{number}").queues
            assert bound or name not in self.declared, f"a binding is lost: {name}"
            found = [number_of(body) for body in here.bodies(name)]
            assert found in ([], [number]), f"{name}: {found}"
            assert found or number not in self.filled or name not in self.declared, f"{name}: its message is lost"
        if RESIZED in host.queues:
            assert host.queues[RESIZED].settings.ring_size in self.sizes, "an operator's change is lost"
        self._verify_ids(here, refused=refused)

    def expects(self, code: str) -> bool:
        """A queue is deleted from the catalogue before the log knows of it."""
        return code == "messages-of-unknown-queues" and self.deleting

    def _verify_ids(self, here: Bench, *, refused: bool) -> None:
        """Known are ids that were promised, and those of messages that are there: their sender sends them again.

        A history that cannot be written makes no publish fail, and so ids may be forgotten where the disk refused.
        """
        for name, numbers in self.ids.items():
            known = {
                number
                for number in self.ids_tried[name]
                if here.host.publisher.duplicates.has(name, duplicate_id(number))
            }
            found = [number_of(body) for body in here.bodies(name)] if name in here.host.queues else []
            assert found == sorted(set(found)), f"{name}: out of order or twice"
            assert refused or numbers <= known, f"{name}: ids are forgotten: {sorted(numbers - known)[:5]}"
            assert set(found) <= known, f"{name}: ids of messages that are there"
            assert name != ONCE or numbers <= set(found), f"{name}: confirmed messages are lost"

    async def settle_accounts(self, here: Bench) -> None:
        """From here on what was found is what is promised."""
        await super().settle_accounts(here)
        host = here.host
        self.declared = {name: number for name, number in self.tried.items() if name in host.queues}
        self.filled = {number for name, number in self.declared.items() if here.bodies(name)}
        self.tried = dict(self.declared)
        self.declared = {
            name: number
            for name, number in self.declared.items()
            if EXCHANGE in host.exchanges and host.queues[name] in host.route(EXCHANGE, f"of.{number}").queues
        }
        for name, numbers in self.ids.items():
            numbers.intersection_update(
                [each for each in numbers if host.publisher.duplicates.has(name, duplicate_id(each))]
            )
        self.deleted, self.deleting = set(), False
        self.sizes = {host.queues[RESIZED].settings.ring_size} if RESIZED in host.queues else {1}
