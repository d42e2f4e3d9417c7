"""Drives a target with mutations of valid inputs: a seeded thousand in ``make test``, 200,000 in ``make soak``.

A target takes one input and raises for whatever it must not do; the driver adds seed, number and octets of the input,
with which ``ANNULET_FUZZ_SEED=N`` and a test of its own repeat it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

SEED_VARIABLE: Final = "ANNULET_FUZZ_SEED"
TEST_SEED: Final = 20100
TEST_INPUTS: Final = 1000
SOAK_INPUTS: Final = 200_000
MAX_CPU_SECONDS: Final = 1.0
"""Of this process for one input: four orders more than the slowest valid one takes, and none of other processes."""

MAX_INPUT_OCTETS: Final = 4096
"""Mutations grow an input no further."""

INTERESTING: Final = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)


def fuzz(target: Callable[[bytes], None], corpus: Sequence[bytes], inputs: int, *, seed: int | None = None) -> None:
    """Feed ``inputs`` mutations of ``corpus`` to ``target``; prints the seed and the first input that fails.

    ``seed`` defaults to that of the environment, else :data:`TEST_SEED` for a thousand and a new one for more.
    """
    if seed is None:
        given = os.environ.get(SEED_VARIABLE)
        new = TEST_SEED if inputs <= TEST_INPUTS else int.from_bytes(os.urandom(4), "big")
        seed = int(given) if given else new
    print(f"{SEED_VARIABLE}={seed}")
    generator = random.Random(seed)
    for number in range(inputs):
        data = mutated(generator, corpus)
        started = time.process_time()
        try:
            target(data)
        except BaseException:
            print(f"input {number} of seed {seed}: {data.hex()}")
            raise
        taken = time.process_time() - started
        assert taken < MAX_CPU_SECONDS, f"input {number} of seed {seed} took {taken:.1f} s of CPU: {data.hex()}"


def mutated(generator: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Return one of ``corpus`` after one to five mutations."""
    data = bytearray(generator.choice(corpus))
    for _ in range(generator.randint(1, 5)):
        _mutate(generator, data, corpus)
    return bytes(data[:MAX_INPUT_OCTETS])


def _mutate(generator: random.Random, data: bytearray, corpus: Sequence[bytes]) -> None:
    place = generator.randrange(len(data) + 1)
    length = generator.randint(1, 8)
    kind = generator.randrange(7)
    if kind == 0 and place < len(data):
        data[place] ^= 1 << generator.randrange(8)
    elif kind == 1 and place < len(data):
        data[place] = generator.choice(INTERESTING)
    elif kind == 2 and place < len(data):
        data[place] = generator.randrange(256)
    elif kind == 3:
        del data[place : place + length]
    elif kind == 4:
        data[place:place] = generator.randbytes(length)
    elif kind == 5:
        del data[place:]
    else:
        other = generator.choice(corpus)
        start = generator.randrange(len(other) + 1)
        data[place : place + length] = other[start : start + generator.randint(1, 32)]
