"""How much of a message is converted between protocols, and the forms of what is more.

A conversion runs on the event loop, so its time is bounded by what it decodes. A part of a message beyond a bound
travels as the octets its sender's protocol has for it, under a name that says so. Nothing is lost: a consumer of the
sender's protocol that gets it back finds the original part. See docs/conversion.md.
"""

from __future__ import annotations

from typing import Final

CONVERTED_VALUES_MAX: Final = 2500
"""Values of a body, and of the footer, that are converted: keys and elements of lists, maps and arrays, nested ones as
well. A value takes 1 to 6 µs, so the largest body takes 15 ms."""

CONVERTED_FIELDS_MAX: Final = 5120
"""The same of application properties (headers) and of annotations; a name and its value are two. They are twice as many
and some because the record of a body that was converted may have a name and a type for each of its values. A name and
value take 2 to 6 µs together, so the largest message takes 45 ms in pure Python."""

CONVERTED_BYTES_MAX: Final = 2_097_152
"""Bytes of a text, or of a list or map in a body, that is decoded. The slowest character sets take 18 ms for 1 MiB."""

ENCODED_TYPE: Final = "application/x-amqp-1.0"
"""Content type of the body sections and the footer of an AMQP 1.0 message as their sender encoded them (§3.2)."""

APPLICATION_PROPERTIES_OCTETS: Final = "x-annulet-application-properties"
"""Property whose value is the map of the application-properties section of AMQP 1.0 as its sender encoded it."""

ANNOTATIONS_OCTETS: Final = "x-opt-annulet-message-annotations"
"""Annotation whose value is the map of the message-annotations section of AMQP 1.0 as its sender encoded it."""

HEADERS_OCTETS: Final = "x-annulet-headers"
"""Property whose value is the field table of the headers of AMQP 0-9-1 as its sender encoded it, without its size."""
