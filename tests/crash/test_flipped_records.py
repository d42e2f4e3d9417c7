"""A flipped bit in any record of a killed broker's log: a message is lost, a settlement brings back what it settled.

Nothing else changes, nothing that is not damaged is lost, and everything is as reported. The records are of every kind,
on both sides of a checkpoint and in the last window, in one segment or in several of which the first have an index.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from annulet.admin.resources.health import warnings
from annulet.admin.resources.queues import unaccounted
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from annulet.store.files.data_format import LOG_DIRECTORY, QUARANTINE_DIRECTORY
from annulet.store.inspection.inspection import Inspection, inspect
from annulet.store.log.quarantine import REASON_READ, REASON_RECOVERY
from annulet.store.log.written_mark import WRITTEN_FILE
from annulet.store.segments.records import SEGMENT_HEADER_SIZE
from annulet.store.segments.segment import segment_name
from tests.bulk.helpers import Bench, bench, crash_image
from tests.crash.record_life import KEYS, RING, Left, contents, leave, lighten, number_of, removed
from tests.crash.record_model import Logged, LogModel, places_of

FLIPS = 2
FLIPS_SOAK = 200
KINDS = (
    "message",
    "message before the checkpoint",
    "message of the last window",
    "message of several queues",
    "message of several queues before the checkpoint",
    "message of several queues of the last window",
    "message in a transaction",
    "message in a transaction before the checkpoint",
    "message in a transaction of the last window",
    "settlement",
    "settlement before the checkpoint",
    "settlement of the last window",
    "settlement in a transaction",
    "settlement in a transaction before the checkpoint",
    "settlement in a transaction of the last window",
    "discard",
    "deleted queue",
    "deleted queue before the checkpoint",
    "commit in a transaction",
    "commit in a transaction before the checkpoint",
    "commit in a transaction of the last window",
    "seal",
    "seal before the checkpoint",
    "seal of the last window",
)
FROM_AN_INDEX = ("message before the checkpoint", "message of several queues before the checkpoint")
LATER = 1 << 62
"""Milliseconds since 1970: after all that was accepted."""


class Flip(NamedTuple):
    """A bit of a segment, and the record that has it; ``None``: the segment's header, which has a copy."""

    segment: int
    place: int
    bit: int
    hit: Logged | None

    @property
    def torn(self) -> bool:
        """It is taken for a write that the crash interrupted."""
        return self.hit is not None and self.hit.may_be_torn

    @property
    def doubtful(self) -> bool:
        """No checkpoint tells what stood there."""
        return self.hit is not None and not self.hit.covered and not self.torn


class Expected(NamedTuple):
    """What a start must find."""

    logged: dict[int, int]  # how many messages the log holds, by queue id
    bodies: dict[str, list[bytes]]  # in each queue
    removed: dict[str, Counter[str]]  # from each, by reason
    lost: int  # how often a message is missed that the checkpoint knows
    unread: bool  # the segment is taken from its index: damage is found where a message is read


class Killed:
    """What a killed broker left, and what its records say. Not to be changed."""

    def __init__(self, left: Left) -> None:
        self.left = left
        self.model = LogModel(left.data)
        self.alive = self.model.live()
        self.not_settled = self.model.live(ranges=False)

    def of_kind(self, kind: str) -> list[Logged]:
        return [logged for logged in self.model.records if logged.kind == kind]

    def choose(self, kind: str, moments: random.Random) -> list[Logged]:
        """Return a record of a kind for each of its fates: damage costs something or nothing, now or any more."""
        found = self.of_kind(kind)
        moments.shuffle(found)
        return list({self._fate(logged): logged for logged in found}.values())

    def _fate(self, logged: Logged) -> tuple[bool, bool]:
        if not logged.targets:
            return self.model.live(logged) != self.alive, False
        return any(logged.body in bodies for bodies in self.alive.values()), self.model.settled_since(logged)

    def expected(self, flip: Flip | None) -> Expected:
        """Return what must be there in spite of a flipped bit."""
        hit = None if flip is None else flip.hit
        live = self.model.live(hit)
        bodies = {name: live.get(queue_id, []) for queue_id, name in self.left.names.items()}
        gone = {name: Counter(reasons) for name, reasons in self.left.removed.items()}
        newest = {number_of(body) % KEYS: body for body in bodies["last"]}
        gone["last"][RemovalReason.REPLACED_KEY.value] += len(bodies["last"]) - len(newest)  # once more
        bodies["last"] = [body for body in bodies["last"] if body in newest.values()]
        if hit is not None and hit.may_be_torn:  # what is there of the last window replaces what it did once more
            replaced = min(self._arrived_last("ring", hit), max(0, len(bodies["ring"]) - RING))
            gone["ring"][RemovalReason.REPLACED_RING.value] += replaced
            bodies["ring"] = bodies["ring"][replaced:]
        unread = hit is not None and hit.segment in self.left.indexed
        # whose message it was nothing tells any more, so one that was purged since the checkpoint is missed, too
        before = self.alive if unread else self.not_settled
        missed = sum(hit.body in found for found in before.values()) if hit is not None and hit.covered else 0
        return Expected(
            {queue_id: len(found) for queue_id, found in live.items()},
            bodies,
            {name: +reasons for name, reasons in gone.items()},
            lost=missed if unread else min(1, missed),  # each queue misses it when it reads
            unread=unread,
        )

    def _arrived_last(self, name: str, hit: Logged) -> int:
        """Return how many messages of a queue are whole in the last window."""
        (queue_id,) = [queue_id for queue_id, each in self.left.names.items() if each == name]
        arrived = [logged.targets for logged in self.model.records if logged.may_be_torn and logged is not hit]
        return sum(target == queue_id for targets in arrived for target, _ in targets)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(unmarked(asyncio.run(leave(tmp_path_factory.mktemp("killed")))))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """The same in several segments."""
    return Killed(unmarked(asyncio.run(leave(tmp_path_factory.mktemp("indexed"), segments=True))))


def unmarked(left: Left) -> Left:
    """Take away the mark of what was synced, as a power loss may: with it damage in the last window is not torn."""
    (left.data / LOG_DIRECTORY / WRITTEN_FILE).unlink()
    return left


def flip_of(moments: random.Random, hit: Logged, part: str = "") -> Flip:
    """Choose a bit of a record: of its magic, its checksum, its length, the rest of its header or its content."""
    parts = places_of(hit)
    place = moments.choice(parts[part or moments.choice(list(parts))])
    return Flip(hit.segment, place, moments.randrange(8), hit)


def flip_anywhere(moments: random.Random, model: LogModel) -> Flip:
    """Choose any byte that was written of a segment."""
    segment = moments.choice(sorted({logged.segment for logged in model.records}))
    end = max(logged.record.end for logged in model.records if logged.segment == segment)
    place = moments.randrange(end)
    return Flip(segment, place, moments.randrange(8), model.at(segment, place))


def damage(killed: Killed, data: Path, flip: Flip) -> bytes:
    """Copy what was left and flip the bit. Returns the bytes that are no record any more."""
    print(f"bit {flip.bit} of byte {flip.place} of segment {flip.segment}: {flip.hit and flip.hit.kind}")
    shutil.copytree(killed.left.data, data)
    path = data / LOG_DIRECTORY / segment_name(flip.segment)
    content = bytearray(path.read_bytes())
    content[flip.place] ^= 1 << flip.bit
    path.write_bytes(content)
    if flip.hit is None:
        return bytes(content[:SEGMENT_HEADER_SIZE])
    found = bytes(content[flip.hit.record.offset : flip.hit.record.end])
    return found.rstrip(b"\0") if flip.hit is killed.model.records[-1] else found  # what is behind it is zeros


def look(flip: Flip, expected: Expected, doctor: Inspection) -> None:
    """Hold what the doctor says to what there is. It reads all records."""
    codes = {finding.code for finding in doctor.findings}
    figures = doctor.figures["log"]
    assert doctor.sound == flip.torn, "damage is said, and what a crash interrupts is none"
    assert codes & {"torn", "log-lost", "log-damaged", "log-doubtful"}
    assert ("log-doubtful" in codes) == flip.doubtful, "it is not said that this costs no message"
    assert ("torn" in codes, "log-lost" in codes) == (flip.torn, figures["lost_messages"] > 0)
    assert (figures["damaged_places"], figures["torn_tails"]) == (not flip.torn, flip.torn)
    assert expected.unread or figures["lost_messages"] == expected.lost
    assert figures["live_by_queue"] == {str(queue_id): count for queue_id, count in expected.logged.items()}


def check(expected: Expected, here: Bench) -> None:
    """Hold a broker that has started to what must be in its queues, and to its own figures."""
    assert contents(here) == expected.bodies
    records = set()
    for name, queue in here.host.queues.items():
        check_invariants(queue)
        entries = [*queue.order.entries(), *queue.schedule.entries()]
        records |= {entry.message.record for entry in entries}
        assert all(entry.redelivered for entry in entries), "a killed broker may have delivered it"
        statistics, count = queue.statistics(), len(expected.bodies[name])
        assert statistics.message_count == count
        assert statistics.messages_added == count + sum(statistics.removed.values())
        assert unaccounted(statistics) == 0
        assert removed(queue) == expected.removed[name], name
    unreadable = expected.unread and expected.lost > 0  # its record stays where it is
    assert here.broker.log.statistics().live_records == len(records) + unreadable, "the log holds what the queues hold"


async def check_report(flip: Flip, expected: Expected, here: Bench, said: str, found: bytes) -> None:
    """Hold what a broker says of the damage to what there is, and what it sets aside to what is there."""
    hit, noticed = flip.hit, expected.lost or not expected.unread
    offset = 0 if hit is None else hit.record.offset
    kind = "header" if hit is None else "torn" if flip.torn else "corrupt"
    if expected.unread:
        text = f"segment {flip.segment} at offset {offset} is damaged"
    else:
        text = f"{len(found)} {kind} bytes at offset {offset} of segment {flip.segment}"
    assert (text in said) == bool(noticed)
    await here.broker.commit.maintain()
    log, report = here.broker.log.statistics(), here.broker.log.report
    assert (log.corrupt_records, report.torn_tails) == (not (flip.torn or expected.unread), flip.torn)
    assert log.lost_records == expected.lost
    assert log.doubtful_places == (flip.doubtful and not expected.unread)
    assert any("damaged records" in warning for warning in warnings(here.broker)) == bool(noticed and not flip.torn)
    kept = {} if flip.torn or hit is None or not noticed else {f"{flip.segment:012d}-{offset}": found}
    assert (log.quarantined_records, log.quarantined_bytes) == (len(kept), sum(map(len, kept.values())))
    assert quarantined(here, REASON_READ if expected.unread else REASON_RECOVERY) == kept


def quarantined(here: Bench, reason: str) -> dict[str, bytes]:
    """Return the bytes that were set aside, by name. What is said of each must be so."""
    data = here.broker.configuration.data_directory
    assert data is not None
    kept = {path.stem: path.read_bytes() for path in (data / QUARANTINE_DIRECTORY).glob("*.record")}
    for name, content in kept.items():
        segment, offset = map(int, name.split("-"))
        facts = json.loads((data / QUARANTINE_DIRECTORY / f"{name}.json").read_bytes())
        assert facts == {"segment": segment, "offset": offset, "length": len(content), "reason": reason}
    return kept


async def drain(expected: Expected, here: Bench) -> dict[str, list[bytes]]:
    """Consume all that is not scheduled: it comes in its order, and is gone. Returns what is left."""
    left = {}
    for name, queue in here.host.queues.items():
        waiting = queue.order.count
        entries = queue.acquire(-1, -1, here.broker.clock())
        assert [entry.message.body for entry in entries] == expected.bodies[name][:waiting]
        for entry in entries:
            queue.acknowledge(entry)
        left[name] = expected.bodies[name][waiting:]
        assert queue.statistics().message_count == len(left[name])
        assert unaccounted(queue.statistics()) == 0
    await here.broker.commit.durable()
    return left


async def hold(killed: Killed, flip: Flip, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Flip the bit, look, start, die, start again and consume, start once more; hold all of it to what must be so."""
    data, expected = folder / "data", killed.expected(flip)
    found = damage(killed, data, flip)
    look(flip, expected, inspect(data, LATER))
    caplog.clear()
    async with bench(data) as here:
        check(expected, here)
        await check_report(flip, expected, here, caplog.text, found)
        await here.broker.commit.durable()
        check(expected, here)
        async with here.broker.commit.upkeep_paused():
            again = crash_image(data, folder / "again")
    lighten(again)
    async with bench(again) as here:
        assert contents(here) == expected.bodies, "the verdict holds"
        left = await drain(expected, here)
    async with bench(again) as here:
        assert here.broker.log.clean
        assert contents(here) == left, "what was consumed is gone"
    for used in (data, again):
        shutil.rmtree(used)


def test_what_was_there_is_what_the_records_say(killed: Killed, indexed: Killed) -> None:
    """The measure itself: without damage, it is what the broker had when it was killed."""
    for left in (killed, indexed):
        expected = left.expected(None)
        assert (expected.bodies, expected.removed) == (left.left.contents, left.left.removed)
        assert {logged.kind for logged in left.model.records} == set(KINDS)
    assert not killed.left.indexed
    assert indexed.left.indexed


@pytest.mark.parametrize("kind", KINDS, ids=[kind.replace(" ", "-") for kind in KINDS])
async def test_a_flipped_bit_costs_what_its_record_is(
    killed: Killed, tmp_path: Path, moments: random.Random, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    for hit in killed.choose(kind, moments):
        await hold(killed, flip_of(moments, hit), tmp_path, caplog)


async def test_a_flipped_bit_in_the_header_of_a_segment_costs_nothing(
    killed: Killed, tmp_path: Path, moments: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    flip = Flip(1, moments.randrange(SEGMENT_HEADER_SIZE), moments.randrange(8), None)
    await hold(killed, flip, tmp_path, caplog)


async def test_a_flipped_bit_anywhere_in_several_segments(
    indexed: Killed, tmp_path: Path, moments: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a segment has an index, a message is missed when it is read, and nobody looks at its other records."""
    read = [logged for logged in indexed.model.records if logged.segment in indexed.left.indexed]
    for name in FROM_AN_INDEX:
        alive = [logged for logged in read if logged.kind == name and indexed.expected(flip_of(moments, logged)).lost]
        for part in places_of(alive[0]):
            await hold(indexed, flip_of(moments, moments.choice(alive), part), tmp_path, caplog)
    for _ in range(FLIPS):
        await hold(indexed, flip_anywhere(moments, indexed.model), tmp_path, caplog)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_the_same_many_times(
    killed: Killed, indexed: Killed, tmp_path: Path, moments: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    for left in [killed, indexed] * FLIPS_SOAK:
        hit = moments.choice(left.of_kind(moments.choice(KINDS)))
        await hold(left, flip_of(moments, hit), tmp_path, caplog)
        await hold(left, flip_anywhere(moments, left.model), tmp_path, caplog)
