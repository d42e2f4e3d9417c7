"""What a hostile or broken peer does to a session: each mutation is a function of a random generator and the recording.

The result is a :class:`Script`: what is sent, how, and how the connection ends. The same seed gives the same script.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.hostile.recording import DOORS, SECURED_DOORS, Session

Ending = Literal["close", "reset", "half-close", "silence"]
ENDINGS: tuple[Ending, ...] = ("close", "reset", "half-close", "silence")

REPEATED_OCTETS_MAX = 256 * 1024
"""A repeated piece is sent until it comes to so much."""

EXTREME_LENGTHS = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

HOSTILE_TEXTS = (b"\0", b"\r\n", b"\n\n", b"\xff\xfe", b"%00", b"../../", b"\xce", "ä".encode("latin-1"), b"A" * 70_000)


@dataclass(frozen=True)
class Script:
    """One input: where it goes, its pieces, whether answers are waited for between them, and its end.

    ``tls``: the pieces are sent within TLS.
    """

    name: str
    door: str
    pieces: tuple[bytes, ...]
    patient: bool
    ending: Ending
    tls: bool = False


def _cut(octets: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    at = chance.randrange(len(octets) + 1)
    return octets[:at], octets[at:]


def flipped_bits(chance: random.Random, session: Session) -> list[bytes]:
    """Change 1 to 8 bits."""
    pieces = [bytearray(piece) for piece in session.pieces]
    for _ in range(chance.randint(1, 8)):
        piece = chance.choice(pieces)
        piece[chance.randrange(len(piece))] ^= 1 << chance.randrange(8)
    return [bytes(piece) for piece in pieces]


def cut_short(chance: random.Random, session: Session) -> list[bytes]:
    """Send a beginning only, most often one that ends within a frame."""
    kept = list(session.pieces[: chance.randint(1, len(session.pieces))])
    kept[-1] = kept[-1][: chance.randint(0, len(kept[-1]))]
    return kept


def extreme_length(chance: random.Random, session: Session) -> list[bytes]:
    """Put an extreme number over four octets, where a length may be."""
    pieces = list(session.pieces)
    at = chance.randrange(len(pieces))
    before, after = _cut(pieces[at], chance)
    pieces[at] = before + struct.pack("!I", chance.choice(EXTREME_LENGTHS)) + after[4:]
    return pieces


def inserted_text(chance: random.Random, session: Session) -> list[bytes]:
    """Insert octets that texts do not expect."""
    pieces = list(session.pieces)
    at = chance.randrange(len(pieces))
    before, after = _cut(pieces[at], chance)
    pieces[at] = before + chance.choice(HOSTILE_TEXTS) + after
    return pieces


def left_out(chance: random.Random, session: Session) -> list[bytes]:
    """Leave a stretch out."""
    pieces = list(session.pieces)
    at = chance.randrange(len(pieces))
    before, after = _cut(pieces[at], chance)
    pieces[at] = before + after[chance.randint(1, 64) :]
    return pieces


def repeated_piece(chance: random.Random, session: Session) -> list[bytes]:
    """Send one piece again and again."""
    pieces = list(session.pieces)
    at = chance.randrange(len(pieces))
    times = max(2, min(chance.choice((2, 10, 1000)), REPEATED_OCTETS_MAX // len(pieces[at])))
    pieces[at] *= times
    return pieces


def other_order(chance: random.Random, session: Session) -> list[bytes]:
    """Send the pieces in another order; the first stays, or it would be one of a few refusals."""
    rest = list(session.pieces[1:])
    chance.shuffle(rest)
    return [session.pieces[0], *rest]


def octet_by_octet(chance: random.Random, session: Session) -> list[bytes]:
    """Send a stretch in pieces of one octet."""
    octets = session.octets
    at = chance.randrange(len(octets))
    stretch = octets[at : at + 400]
    return [octets[:at], *(bytes((octet,)) for octet in stretch), octets[at + len(stretch) :]]


def noise(chance: random.Random, session: Session) -> list[bytes]:
    """Go on with noise after a beginning."""
    return [*session.pieces[: chance.randrange(len(session.pieces))], chance.randbytes(chance.randint(1, 20_000))]


def unchanged(chance: random.Random, session: Session) -> list[bytes]:
    """Send what was recorded; only the end is wrong, or the waiting."""
    return list(session.pieces)


MUTATIONS: tuple[Callable[[random.Random, Session], list[bytes]], ...] = (
    flipped_bits, cut_short, extreme_length, inserted_text, left_out, repeated_piece, other_order, octet_by_octet,
    noise, unchanged,
)  # fmt: skip

WRONG_DOOR_SHARE = 0.03
"""Of the inputs, so many go to a listener of another protocol."""

SECURED_SHARE = 0.25
"""Of the inputs, so many are sent within TLS, to the listener for that."""

SPLICED_SHARE = 0.1
"""Of the inputs, so many go on with the end of another session."""


def script(seed: int, sessions: Sequence[Session]) -> Script:
    """Return input number ``seed``."""
    chance = random.Random(seed)
    session = chance.choice(sessions)
    mutation = chance.choice(MUTATIONS)
    pieces = mutation(chance, session)
    name = f"{seed} {session.name} {mutation.__name__}"
    if chance.random() < SPLICED_SHARE:
        other = chance.choice(sessions)
        pieces = [*pieces[: chance.randint(1, len(pieces))], *other.pieces[chance.randrange(len(other.pieces)) :]]
        name += f" spliced with {other.name}"
    door = session.door
    if chance.random() < WRONG_DOOR_SHARE:
        door = chance.choice((*DOORS, *SECURED_DOORS))
    tls = chance.random() < SECURED_SHARE and door in DOORS
    patient, ending = chance.random() < 0.5, chance.choice(ENDINGS)
    sent = tuple(piece for piece in pieces if piece)
    return Script(name, f"{door}s" if tls else door, sent, patient, ending, tls)
