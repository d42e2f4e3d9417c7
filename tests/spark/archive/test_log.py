"""The log of a folder: entries in order, each once, by whichever process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from annulet.spark.archive import log as log_module
from annulet.spark.archive.log import STATE_EVERY, STATES_KEPT, ArchiveError, Entry, FileEntry, Log, State


def adding(name: str) -> Callable[[State], Entry | None]:
    return lambda _state: Entry(add=[FileEntry(name, 1, 2, 3)])


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    log = Log(tmp_path, clock=lambda: 77)
    log.commit(lambda _state: Entry(query="q", batch=4, add=[FileEntry("a", 1, 2, 3), FileEntry("b", 1, 2, 3)]))
    log.commit(lambda _state: Entry(remove=["a", "unknown"]))

    state = Log(tmp_path).state()

    assert (list(state.files), state.removed, state.marks, state.number) == (["b"], {"a": 77}, {"q": 4}, 1)
    log.commit(lambda _state: Entry(forget=["a"]))
    assert Log(tmp_path).state().removed == {}


def test_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    assert Log(tmp_path).commit(lambda _state: None) is None
    assert list(tmp_path.iterdir()) == []


def test_who_comes_second_is_asked_again_with_the_newer_state(tmp_path: Path) -> None:
    first, second = Log(tmp_path), Log(tmp_path)
    seen: list[int] = []

    def make(state: State) -> Entry:
        if not seen:
            first.commit(adding("theirs"))
        seen.append(len(state.files))
        return Entry(add=[FileEntry("ours", 1, 2, 3)])

    second.commit(make)

    assert seen == [0, 1]
    assert set(Log(tmp_path).state().files) == {"ours", "theirs"}


def test_many_writers_lose_nothing_and_old_entries_go(tmp_path: Path) -> None:
    def work(writer: int) -> None:
        log = Log(tmp_path)
        for number in range(STATE_EVERY):
            log.commit(adding(f"{writer}-{number}"))

    threads = [Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    state = Log(tmp_path).state()
    assert (len(state.files), state.number) == (4 * STATE_EVERY, 4 * STATE_EVERY - 1)
    assert len(list(tmp_path.glob("*.state.json"))) <= STATES_KEPT
    assert len(list(tmp_path.iterdir())) <= STATES_KEPT + STATES_KEPT * STATE_EVERY


def test_a_sum_is_written_though_another_writes_right_behind_its_last_entry(tmp_path: Path) -> None:
    class Overtaken(Log):
        def _create(self, path: Path, content: bytes) -> bool:
            created = super()._create(path, content)
            if path.name == f"{STATE_EVERY - 1:012}.json":
                Log(tmp_path).commit(adding("theirs"))
            return created

    log = Overtaken(tmp_path)
    for number in range(STATE_EVERY):
        log.commit(adding(str(number)))
    (path,) = tmp_path.glob("*.state.json")
    assert path.name == f"{STATE_EVERY:012}.state.json"
    assert len(Log(tmp_path).state().files) == STATE_EVERY + 1


def test_who_was_idle_while_others_wrote_much_reads_their_sum_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "STATE_EVERY", 4)
    idle, busy = Log(tmp_path), Log(tmp_path)
    idle.commit(adding("first"))
    for number in range(12):
        busy.commit(adding(f"busy-{number}"))
    assert not (tmp_path / f"{1:012}.json").exists()

    idle.commit(adding("last"))

    assert len(idle.state().files) == 12 + 2
    assert Log(tmp_path).state() == idle.state()


def test_who_was_suspended_before_writing_while_others_wrote_much_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "STATE_EVERY", 4)
    suspended, busy = Log(tmp_path), Log(tmp_path)
    suspended.commit(adding("first"))
    asked: list[int] = []

    def make(state: State) -> Entry:
        if not asked:
            for number in range(12):
                busy.commit(adding(f"busy-{number}"))
        asked.append(len(state.files))
        return Entry(add=[FileEntry("last", 1, 2, 3)])

    suspended.commit(make)

    assert asked == [1, 12 + 1]
    assert len(Log(tmp_path).state().files) == 12 + 2
    assert suspended.state() == Log(tmp_path).state()


def test_a_damaged_or_foreign_entry_is_told(tmp_path: Path) -> None:
    Log(tmp_path).commit(adding("a"))
    file = tmp_path / f"{0:012}.json"
    file.write_text(file.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(ArchiveError, match=r"written by another version \(2\)"):
        Log(tmp_path).state()
    file.write_text("{")
    with pytest.raises(ArchiveError, match=r"damaged: .*restore the file"):
        Log(tmp_path).state()
