"""Damage in the journal of an SQLite file (``-wal``) that SQLite treats as its end.

After a crash there is a journal with the writes since it was last emptied. SQLite reads it up to the first frame whose
checksum is wrong, as a crash tears the last transaction; everything behind a flipped bit would be dropped silently.
Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
SUMMED_BYTES: Final = 8
"""Of the header of a frame; salts and checksum follow."""

SALTS_BYTES: Final = 8
"""Of the header of a frame, behind those."""

USUAL_PAGE: Final = 4096
"""Bytes of a page, unless SQLite is given another size."""

COMMITS_OF_DAMAGE: Final = 2
"""Transactions at and behind a wrong frame that prove damage: a crash tears one."""

BIG_ENDIAN: Final = 0x377F0683
LITTLE_ENDIAN: Final = 0x377F0682
WORD: Final = 0xFFFFFFFF
PAGE_SIZES: Final = frozenset(1 << bits for bits in range(9, 17))


class JournalDamage(NamedTuple):
    """Describes the damage in a journal; ``transactions``: how many are dropped because of it, as far as is known."""

    text: str
    transactions: int


NO_DAMAGE: Final = JournalDamage("", 0)


def journal_damage(path: str) -> str:
    """Describe the damage in a journal whose transactions were synced one by one; empty for none, or no file."""
    damage = find_damage(path).text
    return f"{damage}, and later commits would be lost" if damage else ""


def find_damage(path: str) -> JournalDamage:
    """Look for damage in a journal.

    A crash tears the last transaction only, or in a journal that is not synced with each, those since the last sync. So
    if a committed one ends at or behind a wrong frame, and another one follows, the cause was not a crash. Damage in
    the last transaction cannot be distinguished from a crash. Frames without a following commit belong to a transaction
    that was rolled back or whose process died, and prove nothing.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return NO_DAMAGE
    if len(content) <= HEADER_BYTES or not any(content[:HEADER_BYTES]):
        return NO_DAMAGE  # nothing was ever committed into it
    magic, _, page, _, *salts = struct.unpack(">6I", content[:24])
    order = {BIG_ENDIAN: ">", LITTLE_ENDIAN: "<"}.get(magic, "")
    sums = _summed(content[:24], order, (0, 0)) if order else (0, 0)
    if page not in PAGE_SIZES or not order or sums != struct.unpack(">2I", content[24:HEADER_BYTES]):
        return JournalDamage(f"the header of its journal {path} is damaged", _commits_of(content))
    commits = 0  # at and behind the wrong frame
    wrong = -1
    frame = FRAME_HEADER_BYTES + page
    for number, start in enumerate(range(HEADER_BYTES, len(content) - frame + 1, frame)):
        _, committed, *rest = struct.unpack(">6I", content[start : start + FRAME_HEADER_BYTES])
        known = rest[:2] == salts
        if wrong < 0:
            sums = _summed(content[start : start + SUMMED_BYTES], order, sums)
            sums = _summed(content[start + FRAME_HEADER_BYTES : start + frame], order, sums)
            if known and sums == tuple(rest[2:]):
                continue
            wrong = number
        if not known and number > wrong:
            break  # left by an earlier use of the file
        if known or rest[0] == salts[0] or rest[1] == salts[1]:  # of an earlier use both differ
            commits += committed != 0
    if commits < COMMITS_OF_DAMAGE:
        return NO_DAMAGE
    return JournalDamage(f"frame {wrong} of its journal {path} is damaged", commits)


def _commits_of(content: bytes) -> int:
    """Count commits in a journal whose header is of no use, if its pages have the usual size."""
    frame = FRAME_HEADER_BYTES + USUAL_PAGE
    starts = range(HEADER_BYTES, len(content) - frame + 1, frame)
    salts = content[HEADER_BYTES + SUMMED_BYTES : HEADER_BYTES + SUMMED_BYTES + SALTS_BYTES]
    return sum(
        any(content[start + 4 : start + 8]) and content[start + SUMMED_BYTES :][:SALTS_BYTES] == salts
        for start in starts
    )


def _summed(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """Go on with SQLite's checksum over pairs of words."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & WORD
        second = (second + words[place + 1] + first) & WORD
    return first, second
