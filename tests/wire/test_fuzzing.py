from __future__ import annotations

import random

import pytest

from tests.wire import fuzzing
from tests.wire.fuzzing import MAX_INPUT_OCTETS, SEED_VARIABLE, TEST_INPUTS, TEST_SEED, fuzz, mutated

CORPUS = [b"first input", b"another one", b""]


def inputs_of(count: int, seed: int | None = None) -> list[bytes]:
    seen: list[bytes] = []
    fuzz(seen.append, CORPUS, count, seed=seed)
    return seen


def test_a_seed_repeats_its_inputs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    first = inputs_of(50, seed=7)
    assert inputs_of(50, seed=7) == first != inputs_of(50, seed=8)
    monkeypatch.setenv(SEED_VARIABLE, "7")
    capsys.readouterr()
    assert inputs_of(50) == first
    assert capsys.readouterr().out == f"{SEED_VARIABLE}=7\n"


def test_tests_have_one_seed_and_soaks_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    inputs_of(TEST_INPUTS)
    assert capsys.readouterr().out == f"{SEED_VARIABLE}={TEST_SEED}\n"
    seeds = set()
    for _ in range(3):
        inputs_of(TEST_INPUTS + 1)
        seeds.add(capsys.readouterr().out)
    assert len(seeds) == 3


def test_the_failing_input_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def target(data: bytes) -> None:
        if len(data) > 11:
            raise ValueError("too long")

    with pytest.raises(ValueError, match="too long"):
        fuzz(target, CORPUS, 1000, seed=1)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("input ")
    assert len(bytes.fromhex(printed[1].split(": ")[1])) > 11


def test_an_input_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "MAX_CPU_SECONDS", 0.0)
    with pytest.raises(AssertionError, match="s of CPU"):
        fuzz(lambda data: sorted(data * 1000), CORPUS, 10, seed=1)  # type: ignore[arg-type, return-value]


def test_mutations_change_most_inputs_and_bound_their_size() -> None:
    generator = random.Random(1)
    large = [bytes(MAX_INPUT_OCTETS)]
    assert max(len(mutated(generator, large)) for _ in range(200)) == MAX_INPUT_OCTETS
    assert sum(mutated(generator, CORPUS) in CORPUS for _ in range(500)) < 100
