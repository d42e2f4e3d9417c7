"""What stands in for the search process in tests: its code, when a test says so, in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from annulet.store.files.files import File
from annulet.store.searching.search import Needles, Search, Stretch
from annulet.store.searching.search_process import doubtful
from annulet.store.segments.head_reading import HeadBlocks

HeadsLook = Callable[[list[int], list[int]], tuple[list[int], list[int]]]
RED: Needles = frozenset({(b"red",)})


def wanted(*texts: bytes) -> Needles:
    """Return what is looked for: any of these."""
    return frozenset((text,) for text in texts)


class StandIn:
    """Keeps what it was asked until :meth:`answer`."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.asked: list[Stretch] = []
        self.blocks = HeadBlocks()
        self.told = 0  # records of which a file of heads said whether they may have what is looked for
        search.submit = self.asked.append
        search.prompt = True

    def answer(self, count: int = 1 << 30) -> int:
        """Answer the oldest; return how many."""
        now, self.asked[:] = self.asked[:count], self.asked[count:]
        for stretch in now:
            doubts = self.doubts_of(stretch)
            if doubts is not None:
                self.search.answer(stretch.number, doubts)
        return len(now)

    def doubts_of(self, stretch: Stretch) -> Sequence[int] | None:
        """Look at a stretch as the process does."""
        files = self.search.files_of(stretch)
        if not files:
            return None
        needles = [list(demanded) for demanded in stretch.needles]
        reads = [partial(_read, file) for file in files]
        heads = None
        if len(files) > 1:
            heads = partial(self._heads, partial(self.blocks.doubtful, reads[1], stretch.first, stretch.seed, needles))
        return doubtful(reads[0], stretch.places, stretch.end, needles, heads)

    def _heads(self, look: HeadsLook, places: list[int], numbers: list[int]) -> tuple[list[int], list[int]]:
        found, missing = look(places, numbers)
        self.told += len(places) - len(missing)
        return found, missing


def _read(file: File, length: int, offset: int) -> bytes:
    return file.read(offset, length)
