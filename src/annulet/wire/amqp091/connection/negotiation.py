"""Negotiation of a connection (§2.2.4, §1.4.2): what the server offers, and values that the client may choose."""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.output import FrameWriter
from annulet.wire.amqp091.connection.versions import ProtocolVersion
from annulet.wire.amqp091.types.constants import FRAME_MIN_SIZE, NOT_ALLOWED
from annulet.wire.amqp091.types.errors import ConnectionFault, LocalProtocolError

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""RabbitMQ's extensions that are served, as clients look for them."""


def check_limits(channel_max: int, frame_max: int, heartbeat: int) -> None:
    """Check the limits that a server offers. Raises :class:`LocalProtocolError` for one that is out of range."""
    for name, value, least, most in (
        ("channel_max", channel_max, 1, 0xFFFF),
        ("frame_max", frame_max, FRAME_MIN_SIZE, 0x7FFFFFFF),
        ("heartbeat", heartbeat, 0, 0xFFFF),
    ):
        if not least <= value <= most:
            raise LocalProtocolError(f"{name} is {value}; give a number from {least} to {most}")


def send_start(output: FrameWriter, server_properties: dict[str, PropertyValue], mechanisms: str, locales: str) -> None:
    """Send connection.start, in the version that the client asked for."""
    output.send_on_zero(
        "connection.start",
        {
            "version_major": output.version.major,
            "version_minor": output.version.minor,
            "server_properties": offered_properties(server_properties, output.version),
            "mechanisms": mechanisms,
            "locales": locales,
        },
    )


def send_tune(output: FrameWriter, channel_max: int, heartbeat: int) -> None:
    """Send connection.tune: what is offered."""
    output.send_on_zero(
        "connection.tune", {"channel_max": channel_max, "frame_max": output.frame_max, "heartbeat": heartbeat}
    )


def offered_properties(given: dict[str, PropertyValue], version: ProtocolVersion) -> dict[str, PropertyValue]:
    """Return the properties that connection.start sends to a client of a version: ``given``, with capabilities."""
    properties = dict(given)
    offered = properties.pop("capabilities", None)
    if version.extended:  # older versions have neither these capabilities nor the type of their values
        capabilities: dict[str, PropertyValue] = dict(offered) if isinstance(offered, dict) else {}
        for name in CAPABILITIES:
            capabilities[name] = True
        properties["capabilities"] = capabilities
    return properties


def negotiated(name: str, proposed: int, least: int, most: int) -> int:
    """Return the value of tune-ok after checking it as RabbitMQ does; 0 means "no limit" (§1.4.2.6).

    Raises:
        ConnectionFault: 530 when the client proposes less than ``least`` or more than was offered.
    """
    if proposed != 0 and proposed < least:
        raise ConnectionFault(
            NOT_ALLOWED, f"negotiated {name} = {proposed} is lower than the minimum allowed value ({least})"
        )
    if proposed == 0 or proposed > most:
        shown = "0 (no limit)" if proposed == 0 else str(proposed)
        raise ConnectionFault(
            NOT_ALLOWED, f"negotiated {name} = {shown} is higher than the maximum allowed value ({most})"
        )
    return proposed
