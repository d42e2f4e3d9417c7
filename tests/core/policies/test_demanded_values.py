"""Whom a message is not for is known by its values, and nobody is left out whom it is for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.selector_names import lookup_for
from annulet.core.policies.demanded_values import Demands
from annulet.core.queue.delivery import ASKED_IN_VAIN
from annulet.core.queue.queue import Queue
from annulet.selector.selector import compile_selector
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of


def demands_of(*selectors: str) -> Demands:
    """Return what these demand: the first has bit 1, the second 2, and so on."""
    demands = Demands()
    for number, text in enumerate(selectors):
        demands.add(compile_selector(text), 1 << number)
    return demands


def unmet(demands: Demands, **properties: Any) -> int:
    return demands.unmet_by(make_message(**properties))


def test_another_value_or_none_is_for_nobody_who_demands_one() -> None:
    demands = demands_of("k = 'a'", "k = 'b' AND n > 1", "k IN ('a', 'c')", "n = 1", "k LIKE 'a%'")
    assert unmet(demands, k="a") == 0b00010
    assert unmet(demands, k="b", n=0) == 0b00101, "what else it demands is asked"
    assert unmet(demands, k="c") == 0b00011
    assert unmet(demands, k="d") == unmet(demands) == 0b00111


def test_equal_numbers_are_one_value_whatever_their_types() -> None:
    demands = demands_of("n = 1", "n = 2.0", "n IN (3)")
    assert unmet(demands, n=1.0) == unmet(demands, n=1) == 0b110
    assert unmet(demands, n=2) == 0b101
    assert unmet(demands, n=3.0) == 0b011


@pytest.mark.parametrize("value", [b"a", ["a"], {"a": 1}, None, float("nan")])
def test_what_equals_no_literal_meets_no_demand(value: object) -> None:
    assert unmet(demands_of("k = 'a'", "k = 1"), k=value) == 0b11


def test_what_one_class_alone_demands_it_is_asked_for() -> None:
    demands = demands_of("k = 'a'", "n = 1")
    assert unmet(demands, k="b", n=2) == 0
    demands.add(compile_selector("n = 2"), 4)
    assert unmet(demands, k="b", n=2) == 0b010


def test_what_left_demands_nothing() -> None:
    texts = ["k = 'a'", "k = 'b'", "k IN ('a', 'a', 'b')"]
    demands = demands_of(*texts)
    demands.remove(compile_selector(texts[0]), 1)
    assert unmet(demands, k="a") == 0b010
    demands.remove(compile_selector(texts[2]), 4)
    assert unmet(demands, k="c") == 0, "one is left"
    demands.remove(compile_selector(texts[1]), 2)
    assert demands.empty


NAMES = st.sampled_from(["k", "n", "JMSType"])
LITERALS = st.sampled_from(["'a'", "'b'", "''", "1", "1.0", "2", "TRUE", "FALSE", "9007199254740993"])
TERMS = st.one_of(
    st.builds("{} = {}".format, NAMES, LITERALS),
    st.builds("{} = {}".format, LITERALS, NAMES),
    st.builds("{} <> {}".format, NAMES, LITERALS),
    st.builds(
        "{}{} IN ({})".format, NAMES, st.sampled_from(["", " NOT"]),
        st.lists(st.sampled_from(["'a'", "'b'"]), min_size=1, max_size=3).map(", ".join),
    ),
    st.builds("{} IS NULL".format, NAMES),
)  # fmt: skip
SELECTORS = st.one_of(
    TERMS,
    st.builds("{} AND {}".format, TERMS, TERMS),
    st.builds("{} OR {}".format, TERMS, TERMS),
    st.builds("NOT ({})".format, TERMS),
)
VALUES = st.sampled_from(
    ["a", "b", "", 1, 1.0, 2, True, False, b"a", ["a"], None, float("nan"), 9007199254740993, 9007199254740992.0]
)


@given(st.lists(SELECTORS, min_size=2, max_size=6), st.dictionaries(st.sampled_from(["k", "n"]), VALUES))
def test_nobody_is_left_out_who_would_say_yes(texts: list[str], properties: dict[str, Any]) -> None:
    selectors = [compile_selector(text) for text in texts]
    message = make_message(**properties)
    unmet = demands_of(*texts).unmet_by(message)
    for number, selector in enumerate(selectors):
        if unmet >> number & 1:
            assert not selector.matches(lookup_for(message)), texts[number]


# ---------------------------------------------------------------------- in a queue


def waiting(queue: Queue, count: int) -> list[RecordingSession]:
    sessions = [RecordingSession(str(number)) for number in range(count)]
    for number, session in enumerate(sessions):
        session.consume(queue, selector=f"id = 'answer {number}'")
    return sessions


def test_of_a_thousand_who_wait_for_an_answer_each_few_are_asked() -> None:
    queue = queue_of()
    sessions = waiting(queue, 1000)
    for number in (500, 999, 0, 500):
        queue.enqueue(make_message(f"to {number}", id=f"answer {number}"), NOW)
    assert queue.matchers.evaluations <= 4 * (ASKED_IN_VAIN + 1)
    assert {number: session.received for number, session in enumerate(sessions) if session.received} == {
        500: ["to 500", "to 500"], 999: ["to 999"], 0: ["to 0"],
    }  # fmt: skip


def test_what_is_for_nobody_is_looked_at_once() -> None:
    queue = queue_of()
    sessions = waiting(queue, 10)
    for _ in range(3):
        queue.enqueue(make_message("late", id="answer 10"), NOW)
        queue.wake(NOW)
    assert queue.matchers.evaluations == 3 * ASKED_IN_VAIN
    entry = queue.order.first()
    assert entry is not None
    assert entry.blocked == entry.evaluated == 2**10 - 1, "as if all had been asked"
    sessions.append(RecordingSession("10"))
    sessions[-1].consume(queue, selector="id = 'answer 10'")
    assert sessions[-1].received == ["late"] * 3
    assert queue.matchers.evaluations == 3 * ASKED_IN_VAIN + 3


def test_only_who_could_have_it_now_is_said_not_to_want_it() -> None:
    """As with asking: a deep backlog keeps nothing with answers of those who have not come to it."""
    queue = queue_of()
    sessions = waiting(queue, 6)
    full = RecordingSession("full")
    full.consume(queue, selector="id = 'answer 0'", messages=1)
    busy = RecordingSession("busy")
    busy.consume(queue, selector="id = 'elsewhere'", messages=0)
    queue.enqueue(make_message("late", id="answer 10"), NOW)
    entry = queue.order.first()
    assert entry is not None
    assert entry.evaluated == 0b0111111, "the seventh has no room"
    assert not any(session.received for session in sessions)
