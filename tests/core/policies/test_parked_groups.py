"""Parked sequences are an ascending list in little memory; a holding knows the lowest of its groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.model.entry import BEHIND_ALL
from annulet.core.policies.message_groups import Group
from annulet.core.policies.parked_groups import CHUNK_MAX, OUTDATED_MINIMUM, OwnerBacklog, ParkedSequences

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([1, 1, 1, 2, 7])),
        st.tuples(st.just("run"), st.integers(60, 70)),
        st.tuples(st.just("extend"), st.integers(1, 70)),
        st.tuples(st.just("gaps"), st.integers(1, 9)),
        st.tuples(st.just("drop"), st.integers(1, 90)),
        st.tuples(st.just("below"), st.integers(0, 100)),
        st.tuples(st.just("insert"), st.integers(0, 300)),
        st.tuples(st.just("sift"), st.integers(2, 90)),
    ),
    max_size=60,
)


def sifted(parked: ParkedSequences, number: int, expected: list[int]) -> list[int]:
    """Sift all of them, ``number`` at a time at most; return what is expected to be left."""
    seen: list[int] = []

    def standing(sequences: Sequence[int]) -> list[int]:
        seen.extend(sequences)
        assert len(sequences) <= number
        return [sequence for sequence in sequences if sequence % number > number // 4]

    looked, least = parked.sift(0, number, standing)
    while looked:
        looked, least = parked.sift(least, number, standing)
    assert seen == expected
    return [sequence for sequence in expected if sequence % number > number // 4]


@given(STEPS)
def test_it_is_the_list_it_stands_for(steps: list[tuple[str, int]]) -> None:
    parked, expected, upto = ParkedSequences(), list[int](), 100
    for step, number in steps:
        if step == "append":
            upto += number
            parked.append(upto)
            expected.append(upto)
        elif step == "run":
            for upto in range(upto + 2, upto + 2 + number):  # noqa: B020 - goes on from its end
                parked.append(upto)
                expected.append(upto)
        elif step in ("extend", "gaps"):
            some = (
                [*range(upto + number % 3 + 1, upto + number + 4)]
                if step == "extend"
                else [upto + 1, upto + number + 1]
            )
            parked.extend(some)
            expected += some
            upto = some[-1]
        elif step == "drop":
            count = min(number, len(expected))
            parked.drop(count)
            del expected[:count]
        elif step == "below" and expected:
            below = expected[0] + number - 5
            assert parked.drop_below(below) == len([known for known in expected if known < below])
            expected = [known for known in expected if known >= below]
        elif step == "insert" and expected:
            sequence = expected[0] - 5 + number
            assert parked.insert(sequence) is (sequence not in expected)
            expected = sorted({*expected, sequence})
            upto = max(upto, sequence)
        elif step == "sift":
            expected = sifted(parked, number, expected)
        assert parked.count == len(expected)
        assert parked.leading(1 << 30) == expected
        assert parked.leading(3) == expected[:3]
        if expected:
            assert parked.first == expected[0]


def test_a_run_takes_next_to_nothing_and_others_eight_bytes_each() -> None:
    run, scattered = ParkedSequences(), ParkedSequences()
    for number in range(100_000):
        run.append(number)
        scattered.append(3 * number)
    assert len(run.chunks()) == 1
    assert sum(map(sys.getsizeof, scattered.chunks())) < 9.5 * 100_000
    assert max(map(len, scattered.chunks())) <= CHUNK_MAX + 1


def test_what_is_left_of_many_chunks_becomes_few_again() -> None:
    parked, least, looked = ParkedSequences(), 0, 1
    for number in range(100_000):
        parked.append(3 * number)
    while looked:
        looked, least = parked.sift(least, 1000, lambda sequences: [known for known in sequences if known % 100 == 0])
    assert parked.leading(1 << 30) == list(range(0, 300_000, 300))
    assert len(parked.chunks()) <= 2


def test_a_holding_names_the_lowest_until_the_last_group_goes() -> None:
    holding, one, other = OwnerBacklog(None), Group("one"), Group("other")
    assert (holding.low, holding.empty) == (BEHIND_ALL, True)
    holding.file(one, 30)
    holding.file(other, 10)
    assert (holding.low, holding.empty) == (10, False)
    holding.unfile(other)
    assert holding.low == 10, "a bound, until somebody looks"
    holding.unfile(one)
    assert (holding.low, holding.empty) == (BEHIND_ALL, True)


def parked_group(name: str, *sequences: int) -> Group:
    group = Group(name)
    group.parked_sequences = ParkedSequences()
    for sequence in sequences:
        group.parked_sequences.append(sequence)
    return group


HOLDING_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("park"), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("go"), st.integers(0, 5)),
        st.tuples(st.just("come back"), st.integers(0, 5)),
    ),
    max_size=80,
)


@given(steps=HOLDING_STEPS, most=st.integers(1, 12))
def test_the_oldest_of_all_groups_come_first(steps: list[tuple[str, int]], most: int) -> None:
    holding = OwnerBacklog(None)
    groups = [Group(str(number)) for number in range(6)]
    expected: dict[Group, list[int]] = {group: [] for group in groups}
    away: set[Group] = set()  # of another holding now
    for sequence, (step, which) in enumerate(steps):
        group = groups[which]
        known = group.parked_sequences
        if step == "park":
            if known is None:
                known = parked_group("", sequence).parked_sequences
                group.parked_sequences = known
                if group not in away:
                    holding.file(group, sequence)
            else:
                known.append(sequence)
            expected[group].append(sequence)
        elif step == "drop" and known is not None:
            known.drop(1)
            del expected[group][0]
            if not known.count:
                group.parked_sequences = None
                holding.unfile(group)
        elif step == "go":
            away.add(group)
            holding.unfile(group)
        elif step == "come back" and group in away:
            away.discard(group)
            if known is not None:
                holding.file(group, known.first)
        there = sorted((number, group) for group in groups if group not in away for number in expected[group])[:most]
        assert holding.low <= (there[0][0] if there else BEHIND_ALL)
        assert holding.oldest(most) == there == holding.oldest(most), "nothing is taken"
        holding.find_low()
        assert holding.low == (there[0][0] if there else BEHIND_ALL)


def test_a_group_that_comes_and_goes_leaves_no_more_than_a_bounded_number_of_outdated_items() -> None:
    holding, stays, comes = OwnerBacklog(None), parked_group("stays", 1), parked_group("comes", 2)
    holding.file(stays, 1)
    for _ in range(OUTDATED_MINIMUM + 3):  # with one for each group
        holding.unfile(comes)
        holding.file(comes, 2)
    assert holding.size == OUTDATED_MINIMUM + 4
    holding.unfile(comes)
    holding.file(comes, 2)
    assert holding.size == 2
    assert holding.oldest(5) == [(1, stays), (2, comes)]
