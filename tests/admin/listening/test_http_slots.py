from __future__ import annotations

from collections.abc import Callable

from annulet.admin.listening.http_slots import HttpSlot, HttpSlots
from annulet.broker.security.admission import LIMIT_HTTP, Admission
from annulet.broker.settings.limits import Limits


class Bench:
    def __init__(self, most: int) -> None:
        self.admission = Admission(Limits())
        self.slots = HttpSlots(self.admission)
        self.most = most
        self.cut: list[str] = []

    def take(self, name: str, now: float, address: str = "10.0.0.1") -> HttpSlot | None:
        cut: Callable[[], None] = lambda: self.cut.append(name)  # noqa: E731
        return self.slots.take(address, self.most, now, cut)


def taken(slot: HttpSlot | None) -> HttpSlot:
    assert slot is not None
    return slot


def test_slots_are_counted_until_they_are_released_once() -> None:
    bench = Bench(2)
    first = taken(bench.take("a", 1))
    taken(bench.take("b", 2))
    assert (bench.admission.http_connections, bench.cut) == (2, [])
    first.release()
    first.release()
    assert bench.admission.http_connections == 1
    taken(bench.take("c", 3))
    assert (bench.cut, bench.admission.refused[LIMIT_HTTP]) == ([], 0)


def test_the_peer_that_was_waited_for_longest_gives_way() -> None:
    bench = Bench(2)
    first, second = taken(bench.take("a", 1)), taken(bench.take("b", 2))
    first.waiting_since = 5
    taken(bench.take("c", 6))
    assert (bench.cut, bench.admission.http_connections, bench.admission.refused[LIMIT_HTTP]) == (["b"], 2, 1)
    second.release()
    assert bench.admission.http_connections == 2, "it has none any longer"


def test_requests_that_are_being_answered_keep_their_slots() -> None:
    bench = Bench(1)
    taken(bench.take("a", 1)).waiting_since = None
    assert bench.take("b", 2) is None
    assert (bench.cut, bench.admission.http_connections, bench.admission.refused[LIMIT_HTTP]) == ([], 1, 1)


def test_an_address_with_many_connections_takes_slots_from_itself_only() -> None:
    bench = Bench(4)
    taken(bench.take("quiet", 1, "10.0.0.9"))
    for number in range(10):
        taken(bench.take(f"flood {number}", 2 + number))
    assert bench.cut == [f"flood {number}" for number in range(7)]
