"""The frame bodies of the SASL layer (§5.3.3). Their representation for people never shows a secret."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp10.types.composite import BINARY, STRING, SYMBOL, SYMBOLS, UNSIGNED_BYTE, Composite, Field, define

# §5.3.3.6 sasl-code
SASL_OK: Final = 0
SASL_AUTHENTICATION_FAILED: Final = 1
SASL_SYSTEM_ERROR: Final = 2
SASL_PERMANENT_SYSTEM_ERROR: Final = 3
SASL_TEMPORARY_SYSTEM_ERROR: Final = 4


class SaslMechanisms(Composite):
    """The mechanisms the server offers (§5.3.3.1), best first."""

    __slots__ = ("sasl_server_mechanisms",)

    def __init__(self, sasl_server_mechanisms: list[str]) -> None:
        self.sasl_server_mechanisms = sasl_server_mechanisms


class SaslInit(Composite):
    """The client's choice (§5.3.3.2)."""

    __slots__ = ("hostname", "initial_response", "mechanism")

    def __init__(self, mechanism: str, initial_response: bytes | None = None, hostname: str | None = None) -> None:
        self.mechanism = mechanism
        self.initial_response = initial_response
        self.hostname = hostname


class SaslChallenge(Composite):
    """The server's challenge (§5.3.3.3)."""

    __slots__ = ("challenge",)

    def __init__(self, challenge: bytes) -> None:
        self.challenge = challenge


class SaslResponse(Composite):
    """The client's response to a challenge (§5.3.3.4)."""

    __slots__ = ("response",)

    def __init__(self, response: bytes) -> None:
        self.response = response


class SaslOutcome(Composite):
    """The end of the SASL exchange (§5.3.3.5); ``code`` is one of the ``SASL_...`` constants."""

    __slots__ = ("additional_data", "code")

    def __init__(self, code: int, additional_data: bytes | None = None) -> None:
        self.code = code
        self.additional_data = additional_data


define(
    "sasl-mechanisms",
    0x40,
    SaslMechanisms,
    (Field("sasl_server_mechanisms", SYMBOLS, mandatory=True),),
)
define(
    "sasl-init",
    0x41,
    SaslInit,
    (
        Field("mechanism", SYMBOL, mandatory=True),
        Field("initial_response", BINARY, secret=True),
        Field("hostname", STRING),
    ),
)
define("sasl-challenge", 0x42, SaslChallenge, (Field("challenge", BINARY, mandatory=True, secret=True),))
define("sasl-response", 0x43, SaslResponse, (Field("response", BINARY, mandatory=True, secret=True),))
define(
    "sasl-outcome",
    0x44,
    SaslOutcome,
    (
        Field("code", UNSIGNED_BYTE, mandatory=True, maximum=SASL_TEMPORARY_SYSTEM_ERROR),
        Field("additional_data", BINARY, secret=True),
    ),
)
