"""A5 and A8: sparse selectors and a browser over all, while others work."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.deep.client import Client, ClientError, content_header
from benchmarks.deep.outcome import MIB, Outcome, Relation, exactly
from benchmarks.deep.run import Run, compared, memory_relation, stall_relations, wait_for
from benchmarks.deep.sampling import Sampler, Stalls
from benchmarks.deep.site import Site
from benchmarks.scenarios import GeneratorError

QUEUE = "looking-0"
MATCHES = 100
ALIKE = ("shard", "side", "tier")
"""Properties of the same value. What a broker found by one of them it remembers, and searches anew by another."""

FULL_DECODE = "shard LIKE 'mat%' AND weight * 2 > 5 AND NOT (shard = 'other' OR weight < 1)"
SELECTORS = {
    "a": ("equality", [f"{name} = 'match'" for name in ALIKE], 0.5, 5.0),
    "b": ("full decode", [FULL_DECODE], 3.0, 150.0),
    "h": ("equality on a hot property", ["shard = 'match'"], 0.1, 0.5),
}
"""Each one is asked for alone; the rate of others is the median. A search by equality takes less time than others need
to tell their rate."""

HOT = {"h": {"x_hot_properties": "shard"}}
LEAD_SECONDS = 0.5
"""Others are at work when the consumer attaches: one that waits with its login for a stall to end would not show it."""

BESIDE, ALONE = "selected-", "alone-"
BESIDE_SHARE = 5
"""The part of the run's messages that either of the queues has of which one is selected from."""

BESIDE_ROUNDS = 15
BESIDE_WINDOW = 250
DRAINERS = 4
BROWSES = 5
HELD = 1000
"""Messages in delivery all the time: a browser sees these too."""

SETTLED_SECONDS = 30.0
NEAR = 4000
"""Messages around the last taken that a browser may miss, of each time: what four consumers hold with a prefetch of
1000. They take that many more than they are asked for at most."""


def sparse(count: int) -> tuple[Callable[[int], bytes], list[int]]:
    """Return the header of each number, and the numbers that match."""
    step = max(1, count // MATCHES)
    match, other = [
        content_header(headers={**dict.fromkeys(ALIKE, value), "weight": 7}) for value in ("match", "other")
    ]
    chosen = range(step - 1, step * MATCHES, step)
    return (lambda number: match if number % step == step - 1 and number < step * MATCHES else other), list(chosen)


def note_rate(load: Callable[[], float], rates: list[float], outcome: Outcome) -> None:
    """Run a load and note its rate; what went wrong is a failure of the check."""
    try:
        rates.append(load())
    except GeneratorError as error:
        outcome.failure = f"the others: {error}"[:300]


@contextlib.contextmanager
def at_work(load: Callable[[], float], rates: list[float], outcome: Outcome) -> Iterator[None]:
    """Have others run a load beside what is done here, to its end; its rate is noted."""
    others = threading.Thread(target=note_rate, args=(load, rates, outcome))
    others.start()
    try:
        yield
    finally:
        others.join()


def run_selectors(run: Run) -> None:
    """Attach selective consumers to a deep queue; another queue is in use all the time.

    Its rate is held against that beside the same deep queue before the selector came: what it costs to share the budget
    of bodies with a deep queue is A13's question.
    """
    with run.site("selectors") as (site, sampler):
        idle = site.resident()
        client = Client(site.port)
        header_of, chosen = sparse(run.count)
        for letter, (title, selectors, first_most, all_most) in SELECTORS.items():
            queue = f"{QUEUE}-{letter}"
            client.declare(queue, **HOT.get(letter, {}))
            client.publish(queue, range(run.count), header_of)
            before_it = statistics.median([run.bystander(site) for _ in selectors])
            with run.check(f"A5{letter}", f"selector that takes {MATCHES} of {run.count:,}: {title}") as outcome:
                before, since, sampler.beside_most = Stalls.of(site.metrics()), sampler.now(), 0
                rates: list[float] = []
                found = [beside_others(run, site, queue, selector, rates, outcome) for selector in selectors]
                outcome.relations += [
                    Relation("first after", max(search.first for search in found), "s", most=first_most),
                    Relation("all after", max(search.everything for search in found), "s", most=all_most),
                    exactly("not as expected", sum(search.numbers != chosen for search in found), 0),
                    Relation(
                        f"others' rate over theirs before it came, median of {len(rates)}",
                        statistics.median(rates or [0.0]) / before_it, least=0.7, ratio=True,
                    ),
                    evaluations(site, queue, len(selectors), run.count),
                    memory_relation(sampler, idle, run.budget, since),
                    Relation("of the search process beside it", sampler.beside_most / MIB, "MiB"),
                    *stall_relations(site, before),
                ]  # fmt: skip
            client.delete(queue)  # three of them would want a disk of 40 GB
        client.close()
        drained_beside_selectors(run, site)


class Search(NamedTuple):
    """What a consumer with a selector got: seconds to the first match and to all, and their numbers."""

    first: float
    everything: float
    numbers: list[int]


def beside_others(run: Run, site: Site, queue: str, selector: str, rates: list[float], outcome: Outcome) -> Search:
    """Attach a selective consumer while others are at work, whose rate is noted."""
    with at_work(lambda: run.bystander(site), rates, outcome):
        time.sleep(LEAD_SECONDS)
        return take_matches(site, queue, selector)


def drained_beside_selectors(run: Run, site: Site) -> None:
    """Drain a deep queue whose messages a selector was asked about, and one that nobody selects from, in turns.

    While the selector's consumer waits for what comes, and when it has left and the broker remembers its answers, which
    it does for a minute.
    """
    depth = run.count // BESIDE_SHARE
    part = depth // (3 * BESIDE_ROUNDS)
    with run.check("A5", f"draining {depth:,} messages that a selector has passed over, page cache dropped") as outcome:
        for queue in (BESIDE, ALONE):
            run.fill(site, queue, depth)
        choosy = Client(site.port)
        choosy.consume(f"{BESIDE}0", 1, x_selector="shard = 'match'")
        wait_for(lambda: not site.queue_metric(f"{BESIDE}0", "scan_remaining"), SETTLED_SECONDS, pause=0.05)

        def drained(queue: str) -> float:
            site.drop_cache()
            return run.drain(site, queue, part, "--prefetch", str(BESIDE_WINDOW))

        def ratio(where: str) -> Relation:
            rate = compared(lambda: drained(BESIDE), lambda: drained(ALONE), BESIDE_ROUNDS)
            text = f"rate over that without, {where}, median of {BESIDE_ROUNDS}"
            return Relation(text, rate, least=0.7, ratio=True)

        outcome.relations.append(ratio("while its consumer waits"))
        choosy.close()
        outcome.relations.append(ratio("when that has left"))


def take_matches(site: Site, queue: str, selector: str) -> Search:
    """Attach a consumer and return what it got, when it has all."""
    consumer = Client(site.port)
    began = time.monotonic()
    consumer.consume(queue, 2 * MATCHES, x_selector=selector)
    first, numbers = 0.0, []
    for found in consumer.deliveries():
        first = first or time.monotonic() - began
        numbers += [delivery.number for delivery in found]
        if len(numbers) >= MATCHES:
            break
    everything = time.monotonic() - began
    consumer.close()
    if not numbers:
        raise ClientError("no match came")
    return Search(first, everything, numbers)


def evaluations(site: Site, queue: str, selectors: int, count: int) -> Relation:
    """Return how often selectors were asked about a message of the queue: of each once at most, of a match once."""
    asked = site.queue_metric(queue, "selector_evaluations_total")
    return Relation("questions asked", asked, most=selectors * count, least=selectors * MATCHES)


class Browses:
    """What each browse of a queue saw, against what was there: see :meth:`wrong`.

    Rounds follow each other, and nobody takes anything between them: what was there when one ended is there when the
    next begins.
    """

    def __init__(self, count: int) -> None:
        self.wrong_opened = 0  # seen, and gone when the browser came
        self.wrong_ended = 0  # not seen, and there when all was over
        self._former = (1 << 8 * count) - 1  # a byte for each number; all were there at first
        self._seen = 0

    def note(self, seen: bytearray, opened: int, ended: int) -> None:
        """Note which numbers a browse saw, and how many there were when it opened, and when all was over.

        Nothing that it saw may have been missing in the browse before, or that one missed it, or this one saw what was
        gone. Of how many it saw the counters of the broker tell bounds.
        """
        self._seen = int.from_bytes(seen, "little")
        number = self._seen.bit_count()
        self.wrong_opened += max(0, number - opened)
        self.wrong_ended += max(0, ended - number)
        self.wrong_ended += (self._seen & ~self._former).bit_count()
        self._former = self._seen

    def note_truth(self, there: bytearray) -> None:
        """Note what was there after the last one, by who took it all."""
        self.wrong_ended += (int.from_bytes(there, "little") & ~self._seen).bit_count()

    def relations(self) -> list[Relation]:
        """Return what the design asks: exactly what was there when a browser opened, but what it found gone."""
        return [
            exactly("seen and gone when it opened", self.wrong_opened, 0),
            exactly("not seen and there at the end", self.wrong_ended, 0),
        ]


def run_browser(run: Run) -> None:
    """Browse all while four consumers take a part, several times, until half is gone; one holds the first all the time.

    Rate and memory are held against those of four consumers of another queue, each time right before. What a browser
    sees is held against what was there: in the end everything is taken, so it is known.
    """
    with run.site("browser") as (site, sampler):
        part = run.count // (2 * BROWSES)
        run.fill(site, "quiet-", (BROWSES + 1) * part + NEAR)
        taking(run, site, sampler, "quiet-", part, [])  # the first four make a broker grow by what they hold
        run.fill(site, QUEUE[:-1], run.count)
        with run.check("A8", f"browse all while {DRAINERS} consumers take a part, {BROWSES} times") as outcome:
            before = Stalls.of(site.metrics())
            holder = Client(site.port)
            holder.hold(QUEUE, HELD, HELD)  # the first ones
            grown: list[float] = []
            grown_alone: list[float] = []
            missed: list[int] = []
            browses = Browses(run.count)

            def alone() -> float:
                return taking(run, site, sampler, "quiet-", part, grown_alone)

            def browsed() -> float:
                rates: list[float] = []
                opened = there(site)
                with at_work(lambda: taking(run, site, sampler, QUEUE[:-1], part, grown), rates, outcome):
                    seen, out_of_order = browse(site, run.count)
                left = min(run.count, HELD + (len(missed) + 1) * (part + NEAR))
                not_seen = HELD - sum(seen[:HELD]) + run.count - left - sum(seen[left:])
                missed.append(not_seen + out_of_order)
                browses.note(seen, opened, there(site))
                return sum(rates)

            ratio = compared(browsed, alone, BROWSES)
            stalls = stall_relations(site, before)
            holder.close()
            browses.note_truth(taken_all(site, run.count))
            outcome.relations += [
                exactly("of what nobody takes, not seen or out of order", sum(missed), 0),
                *browses.relations(),
                Relation(
                    f"consumers' rate over that without a browser, median of {BROWSES}", ratio, least=0.8, ratio=True
                ),
                Relation("resident set grew, more than without one by", max(grown) - max(grown_alone), "MiB", most=4),
                Relation("grew by, without one", max(grown_alone), "MiB"),
                *stalls,
            ]


def there(site: Site) -> int:
    """Return how many messages are in the queue when only what is held for long is in delivery."""
    wait_for(lambda: site.queue_metric(QUEUE, "messages_delivering") == HELD, SETTLED_SECONDS, pause=0.05)
    return site.queue_metric(QUEUE, "messages_pending") + HELD


def taken_all(site: Site, count: int) -> bytearray:
    """Take everything; return a mark for each number that was there."""
    marks = bytearray(count)
    left = site.queue_metric(QUEUE, "messages_pending") + site.queue_metric(QUEUE, "messages_delivering")
    taker = Client(site.port)
    taker.consume(QUEUE, 0, no_ack=True)
    for found in taker.deliveries():
        for delivery in found:
            marks[delivery.sequence] = 1
        left -= len(found)
        if left <= 0:
            taker.close()
            return marks
    raise ClientError(f"{left} messages did not come")


def taking(run: Run, site: Site, sampler: Sampler, queue: str, count: int, grown: list[float]) -> float:
    """Have four consumers take so many; return their rate, and note by how many MiB the broker grew."""
    since, resident = sampler.now(), site.resident()
    rate = run.drain(site, queue, count, "--consumers", str(DRAINERS))
    grown.append((max(sampler.highest_since(since), site.resident()) - resident) / MIB)
    return rate


def browse(site: Site, count: int) -> tuple[bytearray, int]:
    """Return a mark for each number that was seen, and how many were not ascending."""
    browser = Client(site.port)
    browser.consume(QUEUE, 0, no_ack=True, x_browse="snapshot", x_auto_close=True)
    seen, out_of_order, last = bytearray(count), 0, -1
    for found in browser.deliveries():
        for delivery in found:
            if not delivery.body:
                browser.close()
                return seen, out_of_order
            number = delivery.sequence
            out_of_order += number <= last
            last = number
            seen[number] = 1
    raise ClientError(f"the browser's end did not come; it saw {sum(seen)}")
