from __future__ import annotations

from annulet.core.message import conversion_bounds
from annulet.core.message.conversion_bounds import (
    ANNOTATIONS_OCTETS,
    APPLICATION_PROPERTIES_OCTETS,
    HEADERS_OCTETS,
)


def test_the_names_of_what_was_not_decoded_can_be_headers_of_every_protocol() -> None:
    names = (APPLICATION_PROPERTIES_OCTETS, ANNOTATIONS_OCTETS, HEADERS_OCTETS)
    assert len(set(names)) == len(names)
    assert all(name.isascii() and len(name) <= 255 and ":" not in name for name in names)
    assert ANNOTATIONS_OCTETS.startswith("x-opt-")  # AMQP 1.0 §3.2.10


def test_a_bound_has_its_unit_in_its_name() -> None:
    bounds = {name for name in dir(conversion_bounds) if name.endswith("_MAX")}
    assert bounds == {"CONVERTED_VALUES_MAX", "CONVERTED_FIELDS_MAX", "CONVERTED_BYTES_MAX"}
    # each typed value of a body has a name and a type in its record
    assert conversion_bounds.CONVERTED_FIELDS_MAX >= 2 * conversion_bounds.CONVERTED_VALUES_MAX + 100
