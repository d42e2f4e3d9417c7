"""What brokers promised to clients over rounds of death, and whether the broker that starts after it keeps it.

Fed with the lines of :mod:`tests.crash.mortal_broker`. What was tried and not promised may have happened or not, but
never by half where it was one transaction, and never twice.
"""

from __future__ import annotations

import copy
from typing import Any

from annulet.admin.resources.queues import unaccounted
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from tests.bulk.helpers import Bench
from tests.crash.counted import ACKNOWLEDGED, ADDED, REPLACED_KEY, REPLACED_RING, AllCounted
from tests.crash.mortal_broker import KEYS, QUEUES, commit_stage, lease_request, number_of

RING = QUEUES["ring"]["x-ring-size"]


class Promises:
    """Sets of message numbers by what is known of them."""

    clients = ""  # whose these are, see mortal_broker.clients_of

    def settings(self) -> dict[str, Any]:
        """Settings of the broker that goes on here."""
        return {}

    def expects(self, code: str) -> bool:
        """Say whether a finding of the doctor's is to be expected."""
        del code
        return False

    def __init__(self) -> None:
        self.sent: dict[str, list[int]] = {name: [] for name in QUEUES}  # tried, in order
        self.must: dict[str, set[int]] = {name: set() for name in QUEUES}  # promised and not known to have left
        self.gone: set[int] = set()  # promised to have left
        self.moves: list[tuple[set[int], set[int], bool]] = []  # (sent, taken, promised)
        self.due: dict[int, int] = {}  # promised scheduled messages: number -> time
        self.stages: dict[int, tuple[str, list[int], bool]] = {}  # batch -> (stage, numbers, publish promised)
        self.lease: tuple[int, int, list[int]] = (0, 0, [])  # the last batch that was read: start, end, numbers
        self.leasing = 0  # messages sent by the step under way
        self.acknowledged = [0, 0]  # positions of the lease: promised, tried
        self.tally = AllCounted()
        self.in_ring = 0  # messages in the ring
        self.keys_there: set[int] = set()  # keys that have a value
        self.losses = 0  # in the ledger of the ring when the accounts were settled
        self.next_number = 0
        self.refusals = 0
        self.failures = 0  # brokers that could not go on
        self.points: dict[str, int] = {}  # how often each was met, of a life that came to its end
        self.ended: list[Any] = []
        self.crashed = False  # a broker died since the accounts were settled
        self.forgets = False  # so did the machine: what the history had not synced is lost
        self.backups: dict[str, Promises | None] = {}  # by directory; None: it was not said to be finished
        self.instants: dict[str, Promises] = {}  # by directory of a backup under way: what was promised when it began

    def hear(self, line: list[Any]) -> None:
        """Take in one line."""
        word = line[0]
        if word == "point":
            self.points[line[1]] = 1
        elif word == "met":
            self.points |= line[1]
        elif word == "refused":
            self.refusals += 1
        elif word in ("try", "done"):
            getattr(self, f"_{line[1]}")(line[2], promised=word == "done")
        else:
            self.ended.append(line)
            self.failures += line == ["failed"]

    def _enter(self, queue: str, numbers: list[int], *, promised: bool) -> None:
        self.tally.count(queue, ADDED, len(numbers), promised=promised)
        if promised:
            self.must[queue].update(numbers)
        else:
            self.sent[queue] += numbers
            self.next_number = max(self.next_number, *numbers) + 1

    def _publish(self, numbers: list[int], *, promised: bool) -> None:
        self._enter("work", numbers, promised=promised)

    def _settle(self, numbers: list[int], *, promised: bool) -> None:
        self.must["work"].difference_update(numbers)
        self.tally.count("work", ACKNOWLEDGED, len(numbers), promised=promised)
        if promised:
            self.gone.update(numbers)

    def _move(self, facts: list[list[int]], *, promised: bool) -> None:
        sent, taken = facts
        self._enter("moved", sent, promised=promised)
        self._settle(taken, promised=promised)
        if promised:
            self.moves.pop()
        self.moves.append((set(sent), set(taken), promised))

    def _ring(self, numbers: list[int], *, promised: bool) -> None:
        self._enter("ring", numbers, promised=promised)
        filled = self.in_ring + len(numbers)
        self.tally.count("ring", REPLACED_RING, len(numbers), promised=promised, number=max(0, filled - RING))
        if promised:
            self.in_ring = min(RING, filled)

    def _last(self, numbers: list[int], *, promised: bool) -> None:
        self._enter("last", numbers, promised=promised)
        fresh = {number % KEYS for number in numbers} - self.keys_there
        self.tally.count("last", REPLACED_KEY, len(numbers), promised=promised, number=len(numbers) - len(fresh))
        if promised:
            self.keys_there |= fresh

    def _later(self, facts: list[int], *, promised: bool) -> None:
        self._enter("later", facts[:1], promised=promised)
        if promised:
            self.due[facts[0]] = facts[1]

    def _stage(self, facts: list[Any], *, promised: bool) -> None:
        batch, name, numbers = facts
        self.next_number = max(self.next_number, batch, *numbers) + 1
        if promised:
            self.stages[batch] = (name, numbers, False)

    def _commit(self, facts: list[Any], *, promised: bool) -> None:
        batch, name, numbers = facts
        self.tally.count("staged", ADDED, len(numbers), promised=promised)
        if promised:
            self.stages[batch] = (name, numbers, True)

    def _backup(self, directory: str, *, promised: bool) -> None:
        """Nothing was under way at its instant: what a finished backup has to keep is what was promised until then."""
        if promised:
            self.backups[directory] = self.instants.pop(directory)
            return
        self.backups[directory] = None
        instant = self.instants[directory] = copy.deepcopy(self)
        instant.backups, instant.instants = {}, {}

    def _lease(self, facts: list[Any], *, promised: bool) -> None:
        if promised:
            start, end, numbers = facts
            self.must["leased"].update(numbers)
            self.lease = (start, end, numbers)
            self.tally.count("leased", ADDED, self.leasing, promised=True)
        else:
            self.leasing = len(facts)
            self.tally.count("leased", ADDED, self.leasing, promised=False)
            self.sent["leased"] += facts
            self.next_number = max(self.next_number, *facts) + 1

    def _acknowledge(self, position: int, *, promised: bool) -> None:
        before = self.acknowledged[0] if promised else max(self.acknowledged)
        self.tally.count("leased", ACKNOWLEDGED, position - before, promised=promised)
        self.acknowledged[0 if promised else 1] = position

    def _remember(self, facts: list[Any], *, promised: bool) -> None:
        del facts
        if promised:
            self.tally.written()

    # ------------------------------------------------------------------ what a start finds

    async def verify(self, here: Bench, *, refused: bool) -> None:
        """Check the broker. ``refused``: an operation failed and the clients went on, so there are holes."""
        self._verify_counters(here, refused=refused)
        work = self._pending(here, "work")
        assert self.must["work"] <= set(work), "a confirmed message is lost"
        assert not self.gone & set(work), "a settled message came back"
        self._verify_moves(here, set(work))
        self._verify_ring(here, refused=refused)
        self._verify_last(here)
        self._verify_later(here)
        await self._verify_stages(here)
        await self._verify_lease(here)
        for name in QUEUES:
            check_invariants(here.host.queues[name])
            assert unaccounted(here.host.queues[name].statistics()) == 0, name

    def _verify_counters(self, here: Bench, *, refused: bool) -> None:
        """A clean stop keeps counters as they are. A death keeps what left but for acknowledgements, if SQLite does."""
        exact = here.broker.log.clean and not self.crashed and not refused
        least = "none" if refused else "found" if self.forgets else "all"
        for name, counted in self.tally.queues.items():
            queue = here.host.queues.get(name)
            if queue is not None:
                counted.verify(name, queue.statistics(), exact=exact, least=least)
                self.tally.compared["exactly" if exact else least] += 1

    async def settle_accounts(self, here: Bench) -> None:
        """From here on what was found is what is promised: for another round on the same directory."""
        await here.broker.commit.durable()
        for name, counted in self.tally.queues.items():
            if name in here.host.queues:
                counted.settle(here.host.queues[name].statistics())
        self.in_ring = here.host.queues["ring"].order.count
        self.keys_there = {number_of(body) % KEYS for body in here.bodies("last")}
        for name in QUEUES:
            queue = here.host.queues[name]
            self.sent[name] = sorted(number_of(entry.message.body) for entry in queue.browse())
            self.must[name] = set(self.sent[name])
        scheduled = here.host.queues["later"].schedule.entries()
        self.due = {number_of(entry.message.body): entry.message.deliver_at for entry in scheduled}
        self.sent["later"] = sorted(self.due)
        self.must["later"] = set(self.due)
        self.losses = sum(1 for _ in here.host.ledger.query(queue="ring", reason=RemovalReason.REPLACED_RING))
        self.moves = []
        self.lease, self.acknowledged = (0, 0, []), [0, 0]
        self.refusals = 0
        self.ended = []

    def _pending(self, here: Bench, name: str) -> list[int]:
        """Numbers in a queue: in the order they were sent, nothing twice, nothing that nobody sent."""
        found = [number_of(body) for body in here.bodies(name)]
        assert found == sorted(set(found)), f"{name}: out of order or twice"
        assert set(found) <= set(self.sent[name]), f"{name}: messages nobody sent"
        return found

    def _verify_moves(self, here: Bench, work: set[int]) -> None:
        moved = set(self._pending(here, "moved"))
        for sent, taken, promised in self.moves:
            assert sent <= moved or not sent & moved, "half a transaction"
            assert not promised or sent <= moved, "a committed transaction is lost"
            if sent & moved:
                assert not taken & work, "what a transaction took came back although its sends are there"
            else:
                assert taken <= work, "a transaction took and did not send"

    def _verify_ring(self, here: Bench, *, refused: bool) -> None:
        found = self._pending(here, "ring")
        newest = max(self.must["ring"], default=-1)
        assert len(found) <= RING or refused, "longer only while the disk does not say which message is the oldest"
        assert not self.must["ring"] or found[-1] >= newest, "the newest confirmed message of the ring is lost"
        if not found or refused:
            return
        sent = self.sent["ring"]
        accepted = sent.index(found[-1]) + 1
        there = sorted(self.must["ring"] | set(found))  # of a torn window some may be there, whatever their neighbours
        assert found == there[-RING:], "the ring is not the last ones"
        losses = list(here.host.ledger.query(queue="ring", reason=RemovalReason.REPLACED_RING))
        sequences = [loss.sequence for loss in losses]
        assert len(sequences) == len(set(sequences)), "a loss is counted twice"
        promised = sent.index(newest) + 1 if newest >= 0 else 0
        assert len(losses) - self.losses <= accepted - len(found), "what is there is lost"
        assert self.forgets or promised - RING <= len(losses) - self.losses, "losses are missing in the ledger"

    def _verify_last(self, here: Bench) -> None:
        found = self._pending(here, "last")
        keys = [number % KEYS for number in found]
        assert len(keys) == len(set(keys)), "two values of a key"
        for key in range(KEYS):
            newest = max((number for number in self.must["last"] if number % KEYS == key), default=-1)
            assert newest < 0 or any(n % KEYS == key and n >= newest for n in found), "a confirmed value is lost"

    def _verify_later(self, here: Bench) -> None:
        queue = here.host.queues["later"]
        found = {number_of(entry.message.body): entry.message.deliver_at for entry in queue.schedule.entries()}
        assert found.items() >= self.due.items(), "a scheduled message, or its time, is lost"
        assert set(found) <= set(self.sent["later"])

    async def _verify_stages(self, here: Bench) -> None:
        """A batch whose commit is repeated is there once, whatever became of the first try."""
        for batch, (name, _, promised) in sorted(self.stages.items()):
            answer = await commit_stage(here, batch, name)
            assert answer["repeated"] == 1 or not promised, "a published batch was forgotten"
        found = [number_of(body) for body in here.bodies("staged")]
        assert found == [number for _, (_, numbers, _) in sorted(self.stages.items()) for number in numbers]
        self.stages = {batch: (name, numbers, True) for batch, (name, numbers, _) in self.stages.items()}

    async def _verify_lease(self, here: Bench) -> None:
        start, end, numbers = self.lease
        if not end:
            return
        leases = here.service.leases
        await leases.open(lease_request(fresh=False, position=end))
        promised, tried = self.acknowledged
        if tried < end:
            rows = await leases.fetch("/", "lease", "owner", start, end, fail_on_data_loss=True)
            assert [number_of(row.message.body) for row in rows] == numbers, "a batch is another one when read again"
        await leases.release("/", "lease")
        queue = here.host.queues["leased"]
        left = {number_of(entry.message.body) for entry in queue.browse()}
        sent = self.sent["leased"]
        assert self.must["leased"] - set(sent[:tried]) <= left, "a message of a lease is lost"
        assert not set(sent[:promised]) & left, "an acknowledged message of a lease came back"
        assert left <= set(sent)
