"""Columns of numbers as bytes, each number 64 bits, least significant byte first.

A segment's index has several columns of some ten thousand numbers, and they are encoded while publishers wait for the
interpreter: compiled, nothing here makes an object of a number.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from annulet.store.segments.records import swapped_where_big

NUMBER_BYTES: Final = 8


def grows_by_one(column: bytes) -> bool:
    """Return whether each number of a column that has some is the one before plus 1."""
    end: i64 = len(column)
    at: i64 = NUMBER_BYTES
    expected: i64 = read_i64_le(column, 0)
    while at < end:
        expected += 1
        if read_i64_le(column, at) != expected:
            return False
        at += NUMBER_BYTES
    return True


def extremes(column: bytes) -> tuple[int, int]:
    """Return the lowest and highest number of a column that has some."""
    lowest: i64 = read_i64_le(column, 0)
    highest: i64 = lowest
    end: i64 = len(column)
    at: i64 = NUMBER_BYTES
    while at < end:
        number: i64 = read_i64_le(column, at)
        if number < lowest:
            lowest = number
        elif number > highest:
            highest = number
        at += NUMBER_BYTES
    return lowest, highest


def narrowed(column: bytes, lowest: i64) -> bytes:
    """Return how far each number is above ``lowest``, less than 2**31, as 32 bits."""
    writer = BytesWriter()
    end: i64 = len(column)
    at: i64 = 0
    while at < end:
        write_i32_le(writer, i32(read_i64_le(column, at) - lowest))
        at += NUMBER_BYTES
    return writer.getvalue()


def shifted(numbers: list[int], by: i64) -> array[int]:
    """Return each of some numbers plus ``by``, as 64 bits."""
    writer = BytesWriter()
    for number in numbers:
        value: i64 = number
        write_i64_le(writer, value + by)
    return swapped_where_big(array("Q", writer.getvalue()))


def picked(numbers: list[int], places: list[int]) -> array[int]:
    """Return the numbers at some places, as 64 bits."""
    writer = BytesWriter()
    for place in places:
        value: i64 = numbers[place]
        write_i64_le(writer, value)
    return swapped_where_big(array("Q", writer.getvalue()))


def places_by_number(numbers: list[int], mask: bytes) -> dict[int, list[int]]:
    """Return by number the places where it occurs and ``mask`` is not 0."""
    found: dict[int, list[int]] = {}
    for place in range(len(mask)):
        if mask[place]:
            number = numbers[place]
            places = found.get(number)
            if places is None:
                places = found[number] = []
            places.append(place)
    return found


def grows(column: Sequence[int]) -> bool:
    """Return whether each number of a column is higher than the one before."""
    last: i64 = -1
    for number in list(column):
        value: i64 = number
        if value <= last:
            return False
        last = value
    return True


def little_endian(column: array[int]) -> bytes:
    """Return the numbers of a column, as many bytes each as it has of them."""
    return (column if sys.byteorder == "little" else swapped_where_big(column[:])).tobytes()


def short_numbers(data: bytes) -> array[int]:
    """Return the numbers of 32 bits that :func:`narrowed` has written."""
    return swapped_where_big(array("I", data))


def is_uniform(column: array[int]) -> bool:
    """Return whether all numbers of a column are equal, or it has none: without an object for each."""
    return column[1:] == column[:-1]


def is_zero(column: array[int]) -> bool:
    """Return whether a column has no number but 0."""
    return not any(column[:1]) and is_uniform(column)
