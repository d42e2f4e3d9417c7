"""The spill store: bodies come back as they were, files go when nobody wants what is in them, refusals lose nothing."""

from __future__ import annotations

import errno
import gc
import random
import weakref
from pathlib import Path

import pytest

from annulet.store.spill.spill import (
    FILE_BYTES,
    FILE_BYTES_LEAST,
    FILES_WITHIN_LIMIT,
    LIVE_SHARE,
    MOVE_BODIES,
    OPEN_FILES_MAX,
    REFUSALS_BETWEEN_WARNINGS,
    SpillMove,
    SpillStore,
    SpillWork,
)
from annulet.store.spill.spill_file import RECORD_HEADER, SpilledBody, SpillFile
from tests.store.simulated_files import SimulatedFiles

KIB = 1 << 10
MANY = 1 << 40


def store_of(files: SimulatedFiles, limit: int = MANY, file_bytes: int = FILE_BYTES_LEAST) -> SpillStore:
    return SpillStore(Path("spill"), limit, files, file_bytes)


def done(work: SpillWork | None) -> SpillWork | None:
    """Do a work and what follows; return the last of it."""
    last = work
    while work is not None:
        work.run()
        work.finish()
        last, work = work, work.following()
    return last


def spilled(store: SpillStore, bodies: list[bytes]) -> list[SpilledBody]:
    work = store.write(bodies)
    places = work.take_places()
    done(work)
    return places


def tidied(store: SpillStore) -> None:
    store.reclaim(MANY)
    while (work := store.upkeep()) is not None:
        assert done(work).error is None


def body(number: int, size: int = 64 * KIB) -> bytes:
    return b"%d," % number * (size // 2)


def test_bodies_come_back_as_they_were_from_several_files(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / "spill", MANY, file_bytes=FILE_BYTES_LEAST)
    bodies = [body(number) for number in range(40)] + [b"", b"x" * (2 * FILE_BYTES_LEAST)]
    places = [place for start in range(0, len(bodies), 5) for place in spilled(store, bodies[start : start + 5])]
    assert len(store.all) > 3
    assert store.used == sum(path.stat().st_size for path in (tmp_path / "spill").iterdir())
    order = random.Random(1).sample(range(len(bodies)), len(bodies))
    store.prefetch([places[number] for number in order])
    assert store.read([places[number] for number in order]) == [bodies[number] for number in order]
    assert (store.bodies, store.bodies_written, store.bytes_written) == (42, 42, sum(map(len, bodies)))
    assert store.live_bytes == store.used
    store.close()
    assert list((tmp_path / "spill").iterdir()) == []


def test_an_opened_store_is_empty(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / "spill", MANY)
    places = spilled(store, [b"left by a killed broker"])
    (file,) = store.all.values()
    assert file.handle is not None
    file.handle.close()
    (tmp_path / "spill" / "notes.txt").write_text("not ours")
    again = SpillStore(tmp_path / "spill", MANY)
    assert [path.name for path in (tmp_path / "spill").iterdir()] == ["notes.txt"]
    assert (again.used, again.bodies, len(places)) == (0, 0, 1)


def test_a_directory_that_cannot_be_emptied_is_an_error() -> None:
    files = SimulatedFiles()
    spilled(store_of(files), [b"x"])
    files.fail_at = files.operations + 3  # make_directory, names, remove
    with pytest.raises(OSError, match="Input/output"):
        store_of(files)
    assert files.failed_operation == "remove"


def test_a_file_goes_when_nobody_wants_anything_in_it() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    places = spilled(store, [body(number) for number in range(15)])
    later = spilled(store, [body(number) for number in range(15)])
    assert len(files.names_now) == 2
    keep = places.pop()
    places.clear()
    tidied(store)
    assert (len(files.names_now), store.bodies) == (2, 16), "one is left, and has moved"
    del keep
    tidied(store)
    assert (len(files.names_now), store.bodies) == (1, 15)
    later.clear()
    tidied(store)
    assert (files.names_now, store.used, store.bodies, files.used) == ({}, 0, 0, 0)
    assert store.read(spilled(store, [b"again"])) == [b"again"]


def test_few_files_are_open_at_once() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    count = OPEN_FILES_MAX + 5
    places = [spilled(store, [body(number, FILE_BYTES_LEAST)])[0] for number in range(count)]
    assert [file.handle is not None for file in store.all.values()] == [False] * 5 + [True] * OPEN_FILES_MAX
    assert store.read(places[:2]) == [body(0, FILE_BYTES_LEAST), body(1, FILE_BYTES_LEAST)]
    is_open = [file.handle is not None for file in store.all.values()]
    assert is_open == [True, True, *[False] * 5, *[True] * (OPEN_FILES_MAX - 2)]
    store.prefetch(places[2:4])
    assert sum(file.handle is not None for file in store.all.values()) == OPEN_FILES_MAX
    opened = [file.handle for file in store.all.values() if file.handle is not None]
    store.close()
    assert not any(handle.open for handle in opened)


def test_the_newest_file_stays_open_however_many_others_are_read() -> None:
    store = store_of(SimulatedFiles())
    places = [spilled(store, [body(number, FILE_BYTES_LEAST)])[0] for number in range(OPEN_FILES_MAX + 1)]
    newest = spilled(store, [b"in the newest file"])
    assert len(store.read(places)) == OPEN_FILES_MAX + 1
    newest += spilled(store, [b"behind it"])
    assert newest[0].where[0] is newest[1].where[0]
    assert store.read(newest) == [b"in the newest file", b"behind it"]


def test_a_file_that_is_being_written_stays_open() -> None:
    store = store_of(SimulatedFiles())
    work = store.write([b"x"])
    work.run()
    (file,) = store.all.values()
    store.end(file)
    places = [spilled(store, [body(number, FILE_BYTES_LEAST)])[0] for number in range(OPEN_FILES_MAX + 1)]
    assert file.handle is not None
    work.finish()
    assert len(places) == OPEN_FILES_MAX + 1


def test_space_is_given_back_in_slices() -> None:
    store = store_of(SimulatedFiles())
    places = spilled(store, [b"x"] * 100)
    places.clear()
    assert store.reclaim(60)
    assert store.bodies == 40
    assert not store.reclaim(60)
    assert store.bodies == 0


def test_live_bodies_of_a_mostly_dead_file_move_and_are_found(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / "spill", MANY, file_bytes=FILE_BYTES_LEAST)
    places = {number: spilled(store, [body(number, 8 * KIB)])[0] for number in range(1000)}
    files = len(store.all)
    for number in list(places):
        if number % 10:
            del places[number]
    store.reclaim(MANY)
    before = store.used
    tidied(store)
    assert store.used < before / (LIVE_SHARE - 1)
    assert len(store.all) < files
    assert store.read(list(places.values())) == [body(number, 8 * KIB) for number in places]
    assert store.bodies == len(places)
    for number in list(places):  # what moved moves again, and is given back where it is then
        if number % 100:
            del places[number]
    spilled(store, [b"x" * FILE_BYTES_LEAST])
    tidied(store)
    assert store.read(list(places.values())) == [body(number, 8 * KIB) for number in places]
    places.clear()
    tidied(store)
    assert (store.used, store.bodies) == (0, 0)
    store.close()


def mostly_dead(store: SpillStore, *, live: int = 3) -> list[SpilledBody]:
    """Return the live bodies of an ended file; there is no other file."""
    places = spilled(store, [body(number) for number in range(15)])[:live]
    (file,) = store.all.values()
    store.end(file)
    store.reclaim(MANY)
    return places


def test_what_is_given_back_while_it_moves_stays_given_back() -> None:
    store = store_of(SimulatedFiles())
    places = mostly_dead(store)
    move = store.upkeep()
    assert isinstance(move, SpillMove)
    move.run()
    move.finish()
    places.pop(0)
    store.reclaim(MANY)
    write = move.following()
    assert write is not None
    write.run()
    places.pop(0)
    store.reclaim(MANY)
    write.finish()
    assert store.bodies == 1
    assert store.read(places) == [body(2)]
    places.clear()
    tidied(store)
    assert (store.used, store.bodies) == (0, 0)


def test_all_given_back_while_it_is_read_is_not_written() -> None:
    store = store_of(SimulatedFiles())
    places = mostly_dead(store)
    move = store.upkeep()
    assert move is not None
    move.run()
    places.clear()
    store.reclaim(MANY)
    move.finish()
    assert move.following() is None
    tidied(store)
    assert (store.used, store.bodies) == (0, 0)


def test_a_move_is_of_a_bounded_number() -> None:
    store = store_of(SimulatedFiles())
    places = spilled(store, [b"x" * 20] * (2 * MOVE_BODIES) + [b"y" * (1 << 17)])[: MOVE_BODIES + 5]
    (file,) = store.all.values()
    store.end(file)
    store.reclaim(MANY)
    done(store.upkeep())
    assert file.live == 5
    tidied(store)
    assert store.read(places) == [b"x" * 20] * (MOVE_BODIES + 5)


def test_what_lives_long_keeps_nothing_of_the_files_it_was_in() -> None:
    store = store_of(SimulatedFiles())
    (place,) = spilled(store, [b"nobody takes it"])
    gone: list[weakref.ref[SpillFile]] = []
    for _ in range(10):
        spilled(store, [b"x" * 100] * 10)
        file, _ = place.where
        gone.append(weakref.ref(file))
        store.end(file)
        del file
        tidied(store)
        assert store.read([place]) == [b"nobody takes it"]
    gc.collect()
    first, *between = [file for file in map(weakref.ref.__call__, gone) if file is not None]
    assert between == []
    assert (len(first.states), len(first.offsets), len(first.moved)) == (0, 0, 1)
    del place
    tidied(store)
    assert (store.used, store.bodies, first.moved) == (0, 0, {})


@pytest.mark.parametrize(("operation", "which"), [("open", 1), ("write", 2)])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_refused_write_leaves_nothing_behind(operation: str, which: int, error: int) -> None:
    files = SimulatedFiles()
    store = store_of(files)
    files.fail_at, files.fail_with = files.operations + which, error
    work = store.write([b"one", b"two"])
    places = work.take_places()
    done(work)
    assert files.failed_operation == operation
    assert work.error is not None
    assert work.error.errno == error
    assert not any(place.readable for place in places)
    places.clear()
    tidied(store)
    assert (store.used, store.bodies, files.names_now) == (0, 0, {})
    assert store.read(spilled(store, [b"again"])) == [b"again"]


def test_a_refused_write_spoils_no_other_in_the_same_file() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    works = [store.write([body(number)]) for number in range(3)]
    places = [work.take_places()[0] for work in works]
    works[0].run()
    files.fail_at = files.operations + 1
    works[1].run()
    works[2].run()
    for work in works:
        work.finish()
    assert [place.readable for place in places] == [True, False, True]
    assert store.read([places[0], places[2]]) == [body(0), body(2)]
    assert spilled(store, [b"next"])[0].where[0].number == 2, "the file gets no more"


def test_a_move_that_the_disk_refuses_loses_nothing() -> None:
    for failing in range(1, 5):  # opening, read, opening of the newest file, write
        files = SimulatedFiles()
        store = store_of(files)
        places = mostly_dead(store)
        files.fail_at = files.operations + failing
        assert done(store.upkeep()).error is not None
        assert store.read(places) == [body(number) for number in range(3)]
        tidied(store)
        assert store.read(places) == [body(number) for number in range(3)]
        assert (store.bodies, len(files.names_now)) == (3, 1)


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_moved() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    bad = mostly_dead(store, live=2)
    good = spilled(store, [body(number) for number in range(15)])[:1]
    (_, second) = store.all.values()
    store.end(second)
    store.reclaim(MANY)
    files.fail_at = files.operations + 2  # the reading
    assert done(store.upkeep()).error is not None
    tidied(store)
    assert [place.where[0].number for place in bad + good] == [1, 1, 3]
    del bad[0]
    tidied(store)
    assert bad[0].where[0].number == 3, "half of it is gone: it was tried again"
    assert store.read(bad + good) == [body(1), body(0)]


def test_what_is_given_back_while_the_disk_refuses_to_read_it_is_removed() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    places = mostly_dead(store)
    move = store.upkeep()
    assert move is not None
    files.fail_at = files.operations + 2
    move.run()
    places.clear()
    store.reclaim(MANY)
    move.finish()
    assert move.following() is None
    tidied(store)
    assert (store.used, files.names_now) == (0, {})


def test_a_file_that_cannot_be_closed_disturbs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(SimulatedFiles())
    first = spilled(store, [body(0, FILE_BYTES_LEAST)])

    def refuse() -> None:
        raise OSError(errno.EIO, "Input/output error")

    handle = first[0].where[0].handle
    assert handle is not None
    monkeypatch.setattr(handle, "close", refuse)
    places = [spilled(store, [body(number, FILE_BYTES_LEAST)])[0] for number in range(OPEN_FILES_MAX)]
    assert all(place.readable for place in first + places)
    assert "cannot close" in caplog.text
    assert store.read(first) == [body(0, FILE_BYTES_LEAST)]


def test_a_file_that_cannot_be_removed_is_tried_again() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    spilled(store, [b"x"])
    store.reclaim(MANY)
    files.fail_at = files.operations + 1
    assert done(store.upkeep()).error is not None
    assert store.used > 0
    tidied(store)
    assert (store.used, files.names_now) == (0, {})


def test_a_file_that_cannot_be_removed_for_long_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    store = store_of(files)
    spilled(store, [b"x"])
    store.reclaim(MANY)
    for _ in range(REFUSALS_BETWEEN_WARNINGS + 1):
        files.fail_at = files.operations + 1
        assert done(store.upkeep()).error is not None
    assert caplog.text.count("cannot remove") == 2
    tidied(store)


class Defect(SpillWork):
    def work(self) -> None:
        raise ValueError("not of the disk")


def test_a_defect_in_a_work_is_an_error_of_it_and_nobody_waits_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    work = Defect()
    work.run()
    assert work.error is not None
    assert "not of the disk" in str(work.error)
    assert "defect in the spill store" in caplog.text


def test_damage_is_noticed_and_meets_one_body(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    store = store_of(files)
    places = spilled(store, [body(number) for number in range(3)])
    (node,) = files.names_now.values()
    node.data[len(body(1)) + 2 * RECORD_HEADER.size + 100] ^= 1
    assert store.read(places) == [body(0), None, body(2)]
    assert "00000001.spill is damaged" in caplog.text
    del node.data[-1:]
    assert store.read(places) == [body(0), None, None], "cut short"


def test_damage_found_while_moving_is_told_to_who_asks() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    places = mostly_dead(store)
    (node,) = files.names_now.values()
    node.data[100] ^= 1
    tidied(store)
    assert [place.readable for place in places] == [False, True, True]
    assert store.read(places) == [None, body(1), body(2)]
    places.clear()
    tidied(store)
    assert (store.used, store.bodies) == (0, 0)


def test_a_read_that_fails_is_an_error() -> None:
    files = SimulatedFiles()
    store = store_of(files)
    places = spilled(store, [b"x"])
    files.fail_at = files.operations + 1
    with pytest.raises(OSError, match="Input/output"):
        store.read(places)
    assert store.read(places) == [b"x"]


def test_the_limit_is_of_all_files_and_met_to_the_byte() -> None:
    store = store_of(SimulatedFiles(), limit=100)
    assert store.has_room(100 - RECORD_HEADER.size)
    assert not store.has_room(101 - RECORD_HEADER.size)
    places = spilled(store, [b"x" * (90 - RECORD_HEADER.size)])
    assert store.used == 90
    assert store.has_room(10 - RECORD_HEADER.size)
    assert not store.has_room(11 - RECORD_HEADER.size)
    places.clear()
    tidied(store)
    assert store.has_room(100 - RECORD_HEADER.size)


def test_files_are_as_large_as_the_limit_allows() -> None:
    files = SimulatedFiles()
    assert SpillStore(Path("spill"), MANY, files).file_bytes == FILE_BYTES
    assert SpillStore(Path("spill"), 80 << 20, files).file_bytes == (80 << 20) // FILES_WITHIN_LIMIT
    assert SpillStore(Path("spill"), 100, files).file_bytes == FILE_BYTES_LEAST


def test_random_lives() -> None:
    """Bodies come and go in any order, with files small enough to be compacted all the time."""
    chance = random.Random(5)
    store = store_of(SimulatedFiles())
    there: dict[int, tuple[SpilledBody, bytes]] = {}
    number = 0
    for _ in range(150):
        bodies = [chance.randbytes(chance.choice((0, 100, 30 * KIB))) for _ in range(chance.randrange(1, 20))]
        for place, content in zip(spilled(store, bodies), bodies, strict=True):
            there[number] = (place, content)
            number += 1
        for key in chance.sample(sorted(there), chance.randrange(len(there))):
            if key % 7 or chance.random() < 0.1:
                del there[key]
        store.reclaim(chance.randrange(40))
        if chance.random() < 0.7:
            done(store.upkeep())
        wanted = [there[key] for key in chance.sample(sorted(there), min(10, len(there)))]
        assert store.read([place for place, _ in wanted]) == [content for _, content in wanted]
    del place, content, wanted
    tidied(store)
    assert store.bodies == len(there)
    ended = [file for file in store.all.values() if file.ended]
    assert all(file.live_bytes * LIVE_SHARE >= file.size for file in ended)
    there.clear()
    tidied(store)
    assert (store.used, store.bodies) == (0, 0)
