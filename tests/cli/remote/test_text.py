from __future__ import annotations

import pytest

from annulet.cli.remote.text import cell, counted, duration_text, printable, size_text, time_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\nb\r", r"a\nb\r"),
        ("\u202ex", r"\u202ex"),
        ("\x9b", r"\x9b"),
    ],
)
def test_control_characters_are_written(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1,234,567"),
        (1.25, "1.2"),
        ({"a": 1000, "b": "x"}, "a=1000, b=x"),
        (["a", 5], "a, 5"),
        ("\x1b", r"\x1b"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert cell(value) == shown


@pytest.mark.parametrize(
    ("octets", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 52, "4096.0 TiB")],
)
def test_sizes(octets: int, text: str) -> None:
    assert size_text(octets) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0 s"), (59_999, "59 s"), (60_000, "1 min 0 s"), (3_660_000, "1 h 1 min"), (90_000_000, "1 d 1 h")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_numbers_of_things() -> None:
    assert [counted(count, "queue") for count in (0, 1, 2000)] == ["0 queues", "1 queue", "2,000 queues"]


def test_times() -> None:
    assert time_text(1_700_000_000_000)[:6] == "2023-1"
