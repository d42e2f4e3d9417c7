"""Compares the results of the broker, Spark and the files with the source table. Pure: figures in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from annulet.demo import expected
from annulet.demo.flights import WHOLE_NUMBERS
from annulet.demo.topology import (
    AIRCRAFT,
    ARCHIVE,
    BOARD_ROWS,
    DELAYS,
    LATE,
    LEGS,
    LEGS_CONSUMERS,
    ORIGINS,
    SCHEDULE,
    STATISTICS,
    board,
    declarations,
)
from annulet.demo.what_if import AS_IT_IS, BY_DESTINATION, LARGER_RING, OTHER_RING, Trial, rules_of

if TYPE_CHECKING:
    import pandas as pd

    from annulet.demo.consuming import Taken

REPLACED_RING: Final = "replaced-ring"
REPLACED_KEY: Final = "replaced-key"
ACKNOWLEDGED: Final = "acknowledged"
DIFFERENCES_SHOWN: Final = 5
"""Differing items named in a finding; the counts say how many there are."""


@dataclass(frozen=True, slots=True)
class QueueAccount:
    """One queue's books, as the broker's HTTP interface gives them. All in messages."""

    name: str
    kind: str
    added: int
    kept: int
    in_delivery: int
    acknowledged: int
    dropped: dict[str, int]  # by reason
    in_ledger: int  # losses of this queue that are still in the ledger

    @property
    def unaccounted(self) -> int:
        """Messages added that are neither kept nor acknowledged nor dropped for a reason."""
        return self.added - self.kept - self.acknowledged - sum(self.dropped.values())


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison. ``detail`` has the difference if the two are lists too long to print."""

    subject: str
    expected: Any
    actual: Any
    detail: str = ""
    of_books: bool = False  # of one queue, real or replayed: the tables of both already show the values

    @property
    def fits(self) -> bool:
        """Whether both are equal."""
        return bool(self.expected == self.actual)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison in the form of JSON."""
        return {**asdict(self), "fits": self.fits}


@dataclass(slots=True)
class Observed:
    """Everything the run saw, from the outside."""

    confirmed: int
    accounts: dict[str, QueueAccount]
    boards: dict[str, list[int]]
    aircraft: list[int]
    delays: Mapping[str, Mapping[str, Any]]
    archive: pd.DataFrame
    delay_messages: int  # published by Spark, by its own count
    losses: int  # total of the broker's ledger, forgotten records included
    late: list[int] = field(default_factory=list)  # rows in the order in which they were delivered, as the next two
    schedule: list[int] = field(default_factory=list)
    legs: list[Taken] = field(default_factory=list)
    partitions: dict[tuple[int, str], int] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)


def account_of(queue: Mapping[str, Any], kind: str, in_ledger: int) -> QueueAccount:
    """Read one queue of ``GET /api/v1/queues``."""
    removed: dict[str, int] = dict(queue["removed"])
    acknowledged = removed.pop(ACKNOWLEDGED, 0)
    return QueueAccount(
        name=queue["name"],
        kind=kind,
        added=queue["messages_added"],
        kept=queue["message_count"],
        in_delivery=queue["delivering_count"],
        acknowledged=acknowledged,
        dropped={reason: count for reason, count in removed.items() if count},
        in_ledger=in_ledger,
    )


def accounts_of(get_json: Callable[[str], Any]) -> dict[str, QueueAccount]:
    """Return the books of the demonstration's queues, in the tables' order, from the broker's HTTP interface."""
    queues = {queue["name"]: queue for queue in get_json("/api/v1/queues?page_size=500")["items"]}
    accounts = {}
    for name, kind in kinds().items():
        if name in queues:
            losses = get_json(f"/api/v1/losses?queue={name}&page_size=1")["filtered_count"]
            accounts[name] = account_of(queues[name], kind, losses)
    return accounts


def losses_of(get_json: Callable[[str], Any]) -> int:
    """Return how many losses the broker has recorded, those included whose record was pushed out by newer ones."""
    page = get_json("/api/v1/losses?page_size=1")
    return int(page["total_count"] + page["forgotten"])


def reconcile(frame: pd.DataFrame, seen: Observed) -> list[Check]:
    """Return every comparison, in the order of a message's way. All must fit."""
    return [
        Check("publisher: messages confirmed", len(frame), seen.confirmed),
        *_books(frame, seen),
        *_contents(frame, seen),
        *_files(frame, seen),
        *_losses(seen),
        *_trials(frame, seen),
    ]


def _books(frame: pd.DataFrame, seen: Observed) -> Iterable[Check]:
    """Compare the counters of each queue with the table."""
    for name, (added, kept, acknowledged, dropped) in _expected_books(frame, seen).items():
        account = seen.accounts.get(name)
        if account is None:
            yield Check(f"{name}: queue exists", expected=True, actual=False)
            continue
        yield from books_of(account, added, kept, acknowledged, dropped)


def books_of(
    account: QueueAccount, added: int, kept: int, acknowledged: int, dropped: Mapping[str, int]
) -> Iterable[Check]:
    """Compare the counters of one queue with the expected ones; reasons of which none is expected may be in them."""
    name = account.name
    wanted = {reason: count for reason, count in dropped.items() if count}
    yield Check(f"{name}: added", added, account.added, of_books=True)
    yield Check(f"{name}: kept", kept, account.kept, of_books=True)
    yield Check(f"{name}: acknowledged", acknowledged, account.acknowledged, of_books=True)
    yield Check(f"{name}: dropped by reason", wanted, account.dropped, of_books=True)
    yield Check(f"{name}: in delivery", 0, account.in_delivery, of_books=True)
    yield Check(f"{name}: unaccounted", 0, account.unaccounted, of_books=True)


def _expected_books(frame: pd.DataFrame, seen: Observed) -> dict[str, tuple[int, int, int, dict[str, int]]]:
    """Return added, kept, acknowledged and dropped by reason of each queue."""
    total = len(frame)
    books: dict[str, tuple[int, int, int, dict[str, int]]] = {}
    for origin in ORIGINS:
        count = expected.departures_from(frame, origin)
        kept = min(count, BOARD_ROWS)
        books[board(origin)] = (count, kept, 0, {REPLACED_RING: count - kept})
    aircraft = len(expected.aircraft_rows(frame))
    slots = len(expected.delays(frame))
    books[AIRCRAFT] = (total, aircraft, 0, {REPLACED_KEY: total - aircraft})
    books[ARCHIVE] = (total, 0, total, {})
    books[STATISTICS] = (total, 0, total, {})
    for name, count in (
        (LATE, len(expected.late_rows(frame))),
        (SCHEDULE, len(expected.schedule_rows(frame))),
        (LEGS, expected.legs_count(frame)),
    ):
        books[name] = (count, 0, count, {})
    books[DELAYS] = (seen.delay_messages, slots, 0, {REPLACED_KEY: seen.delay_messages - slots})
    return books


def _contents(frame: pd.DataFrame, seen: Observed) -> Iterable[Check]:
    """Compare the contents of the queues, message by message."""
    for origin in ORIGINS:
        rows = expected.board_rows(frame, origin)
        yield list_check(
            f"{board(origin)}: exactly the last {len(rows)} departures, in order", rows, seen.boards[origin]
        )
    yield list_check(
        f"{AIRCRAFT}: the last departure of each aircraft", expected.aircraft_rows(frame), sorted(seen.aircraft)
    )
    wanted = expected.delays(frame)
    same = sum(dict(seen.delays.get(slot, {})) == values for slot, values in wanted.items())
    differing = [slot for slot, values in wanted.items() if dict(seen.delays.get(slot, {})) != values]
    yield Check(f"{DELAYS}: slots that equal the table's statistics", len(wanted), same, _named(differing))
    yield Check(f"{DELAYS}: slots", len(wanted), len(seen.delays))
    yield from _deliveries(frame, seen)


def _deliveries(frame: pd.DataFrame, seen: Observed) -> Iterable[Check]:
    """Compare the order of deliveries with the order expected from the table."""
    yield list_check(f"{LATE}: the longest delayed first, in order", expected.late_rows(frame), seen.late)
    yield list_check(f"{SCHEDULE}: by scheduled time, in order", expected.schedule_rows(frame), seen.schedule)
    wanted = expected.legs(frame)
    rows: dict[str, list[int]] = {}
    consumers: dict[str, set[int]] = {}
    for leg in seen.legs:
        if leg.tail_number is not None:
            rows.setdefault(leg.tail_number, []).append(leg.row)
            consumers.setdefault(leg.tail_number, set()).add(leg.consumer)
    differing = sorted(tail for tail in {*wanted, *rows} if wanted.get(tail) != rows.get(tail))
    same = len({*wanted, *rows}) - len(differing)
    yield Check(f"{LEGS}: aircraft whose flights came in order", len(wanted), same, _named(differing))
    split = sorted(tail for tail, those in consumers.items() if len(those) > 1)
    yield Check(f"{LEGS}: aircraft that had more than one consumer", 0, len(split), _named(split))
    busy = len({leg.consumer for leg in seen.legs})
    yield Check(f"{LEGS}: consumers that got flights", min(LEGS_CONSUMERS, len(wanted)), busy)


def _files(frame: pd.DataFrame, seen: Observed) -> Iterable[Check]:
    """Compare Parquet with the table: count, each row once, each partition, every value."""
    archive = seen.archive
    yield Check("Parquet: rows", len(frame), len(archive))
    yield Check("Parquet: different messages", len(frame), int(archive["row"].nunique()))
    wanted = expected.partition_counts(frame)
    differing = [f"{month}/{origin}" for (month, origin), count in wanted.items()
                 if seen.partitions.get((month, origin)) != count]  # fmt: skip
    yield Check("Parquet: partitions by month and origin", len(wanted), len(seen.partitions))
    yield Check("Parquet: partitions with another number of rows", 0, len(differing), _named(differing))
    differing = differing_columns(frame, archive)
    yield Check("Parquet: columns that differ from the table", 0, len(differing), _named(differing))


def _losses(seen: Observed) -> Iterable[Check]:
    dropped = sum(sum(account.dropped.values()) for account in seen.accounts.values())
    yield Check("loss ledger: losses recorded", dropped, seen.losses)


def _trials(frame: pd.DataFrame, seen: Observed) -> Iterable[Check]:
    """Compare the replayed boards: under their own rule with the broker's books, under others with the table."""
    found = {(trial.board, trial.rule): trial for trial in seen.trials}
    for origin in ORIGINS:
        name, count = board(origin), expected.departures_from(frame, origin)
        account = seen.accounts.get(name)
        destinations = expected.destinations_of(frame, origin)
        larger = min(count, LARGER_RING)
        wanted = {
            AS_IT_IS: (account.added, account.kept, account.dropped) if account else (0, 0, {}),
            OTHER_RING: (count, larger, {REPLACED_RING: count - larger}),
            BY_DESTINATION: (count, destinations, {REPLACED_KEY: count - destinations}),
        }
        for rule in rules_of(origin):
            trial = found.get((name, rule), Trial(name, rule, 0, 0))
            replayed = _as_dict(trial.arrived, trial.kept, trial.dropped)
            yield Check(f"{name} replayed: {rule}", _as_dict(*wanted[rule]), replayed, of_books=True)


def _as_dict(arrived: int, kept: int, dropped: Mapping[str, int]) -> dict[str, int]:
    return {"arrived": arrived, "kept": kept, **{reason: count for reason, count in dropped.items() if count}}


def differing_columns(frame: pd.DataFrame, archive: pd.DataFrame) -> list[str]:
    """Return the table's columns that have another value in any row of the archive. Missing equals missing."""
    if len(frame) != len(archive):
        return list(frame.columns)
    ordered = archive.sort_values("row", ignore_index=True)
    differing = []
    for name in frame.columns:
        left, right = frame[name].reset_index(drop=True), ordered[name]
        if name in WHOLE_NUMBERS:
            left, right = left.astype("Float64"), right.astype("Float64")
        unequal = (left != right) & ~(left.isna() & right.isna())
        if bool(unequal.fillna(value=True).any()):
            differing.append(name)
    return differing


def list_check(subject: str, wanted: list[int], found: list[int]) -> Check:
    """Compare lists of rows; the finding names rows instead of printing thousands."""
    if wanted == found:
        return Check(subject, len(wanted), len(found))
    missing = sorted(set(wanted) - set(found))
    extra = sorted(set(found) - set(wanted))
    if not missing and not extra:
        return Check(subject, len(wanted), "another order", f"{len(found)} messages, {len(set(found))} different ones")
    detail = f"missing: {_named(missing) or 'none'}; not expected: {_named(extra) or 'none'}"
    return Check(subject, len(wanted), len(set(wanted) & set(found)) - len(extra), detail)


def _named(items: Iterable[object]) -> str:
    listed = [str(item) for item in items]
    more = len(listed) - DIFFERENCES_SHOWN
    text = ", ".join(listed[:DIFFERENCES_SHOWN])
    return f"{text} and {more} more" if more > 0 else text


def kinds() -> dict[str, str]:
    """Return the kind of each queue of the demonstration by name, in the tables' order."""
    return {declaration.name: declaration.kind for declaration in declarations()}
