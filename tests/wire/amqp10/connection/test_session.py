from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp10.connection.session import SERIAL_MODULUS, DispositionBatch, EngineSession, unwrap_serial


@pytest.mark.parametrize(
    ("serial", "reference", "number"),
    [
        (0, 0, 0),
        (5, 3, 5),
        (0, 0xFFFFFFFF, 0x100000000),
        (0xFFFFFFFF, 0x100000000, 0xFFFFFFFF),
        (0xFFFFFFFF, 0, -1),
        (0x7FFFFFFF, 0, 0x7FFFFFFF),
        (0x80000000, 0, -0x80000000),
        (7, 5 * SERIAL_MODULUS + 3, 5 * SERIAL_MODULUS + 7),
    ],
)
def test_serial_numbers_unwrap_to_the_nearest_number(serial: int, reference: int, number: int) -> None:
    assert unwrap_serial(serial, reference) == number


@given(st.integers(0, 1 << 70), st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_number_within_half_of_the_modulus_is_found_again(reference: int, distance: int) -> None:
    number = reference + distance
    assert unwrap_serial(number % SERIAL_MODULUS, reference) == number


def test_a_session_begins_with_its_whole_window_and_nothing_to_tell() -> None:
    session = EngineSession(3, 4, 50)
    assert (session.channel, session.remote_channel) == (3, 4)
    assert session.incoming_window == session.incoming_window_size == 50
    assert session.mapped
    assert session.writable
    assert session.incoming_batch.state is session.outgoing_batch.state is None


def test_a_batch_is_empty_at_first() -> None:
    batch = DispositionBatch()
    assert batch.state is None
    assert batch.last < batch.first
