"""The list of a reader that keeps entries only has nothing to do in turns."""

from __future__ import annotations

import pytest

from annulet import _build
from annulet.core.model.order import UnseenMessages
from tests.core.helpers import queue_of, send

PURE = pytest.mark.skipif(_build.compiled(), reason="a compiled class takes no interpreted subclass")


def one_entry(entry):
    """Return the shortest list there is."""

    class OneEntry(UnseenMessages):
        def __init__(self):
            super().__init__(of_rows=False)

        def first(self):
            return entry

    return OneEntry()


@PURE
def test_defaults_are_those_of_entries():
    queue = queue_of()
    send(queue, "a")
    entry = queue.order.first()
    unseen = one_entry(entry)
    for change in (unseen.paged, unseen.emptied, unseen.end, unseen.ask_turn, unseen.note_handed_out):
        change()
    unseen.stored_anew(entry)
    assert not any([unseen.due(ready=True), unseen.waits_for_turn(), unseen.is_looking(9), unseen.is_behind()])
    assert unseen.read_on()
    assert not unseen.has_read(entry)
    assert not unseen.exhausted()


@PURE
@pytest.mark.parametrize("call", ["take_first", "arrived", "reinsert", "revised"])
def test_each_list_says_itself_how_it_changes(call):
    queue = queue_of()
    send(queue, "a")
    entry = queue.order.first()
    arguments = {"take_first": [], "revised": [entry, entry]}.get(call, [entry])
    with pytest.raises(NotImplementedError):
        getattr(one_entry(entry), call)(*arguments)


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, True), ({"max_priority": 3}, True), ({"sort_key": "k"}, False)], ids=str
)
def test_orders_in_memory_say_whether_rows_may_come_back(settings, expected):
    order = queue_of(**settings).order
    order.bound_front(1, 1)
    assert order.restores_rows() is expected
    assert order.whole_area() is None
    assert not order.split
    assert not order.enough_written(0, 9)
    assert order.keeps_compact() is not bool(settings)
