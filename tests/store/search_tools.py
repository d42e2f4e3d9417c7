"""What stands in for the search process in tests: its code, when a test says so, in the test's own process."""

from __future__ import annotations

from collections.abc import Sequence

from annulet.store.search import Needles, Search, Stretch
from annulet.store.search_process import doubtful

RED: Needles = frozenset({(b"red",)})


def wanted(*texts: bytes) -> Needles:
    """Return what is looked for: any of these."""
    return frozenset((text,) for text in texts)


class StandIn:
    """Keeps what it was asked until :meth:`answer`."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.asked: list[Stretch] = []
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
        file = self.search.file_of(stretch)
        if file is None:
            return None
        needles = [list(demanded) for demanded in stretch.needles]
        return doubtful(lambda length, offset: file.read(offset, length), stretch.places, stretch.end, needles)
