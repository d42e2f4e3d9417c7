"""One peer's share of the broker: the section ``[limits]`` of the configuration.

Each limit has a name, a unit, a default and a reason; docs/security.md lists what happens at each and which metric
counts it. 0 means "no limit of this kind" where a limit says so.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of connections, logins and messages. The defaults' reasons stand beside them."""

    max_connections: int = 10_000  # all protocols of the messaging ports; about 300 MB when each has a channel
    max_connections_per_user: int = 0  # 0: none of its own; programs of one application often share a user
    max_connections_per_address: int = 0  # 0: none of its own; whole sites come through one address translation
    max_handshakes: int = 1000  # connections that are not logged in yet; 64 MB with max_unauthenticated_bytes
    max_handshakes_per_address: int = 750  # a quarter stays for other addresses; 0: no limit of its own
    max_sessions_per_connection: int = 256  # AMQP 1.0 channels; clients use one, or one per thread
    max_links_per_session: int = 256  # AMQP 1.0 handles; RabbitMQ's link_max_per_session
    max_message_bytes: int = 134_217_728  # body of one message; RabbitMQ's max_message_size up to 3.13
    max_unfinished_bytes: int = 0  # open transactions and messages on their way, all; 0: half of memory_limit
    max_transaction_operations: int = 100_000  # sends and settlements; a commit is one turn of the loop
    max_header_bytes: int = 65_536  # properties of one message where the protocol has no frame that bounds them
    max_unauthenticated_bytes: int = 65_536  # from one peer before its login; the longest handshake needs a tenth
    idle_timeout: float = 0.0  # seconds without a byte from a peer that negotiated no heartbeat; 0: for ever
    login_delay_first: float = 0.1  # seconds; doubles with each further failure of a peer address or user; 0: none
    login_delay_most: float = 4.0  # seconds; below the hand-shake time-out, so that the answer still arrives
    max_login_attempts_waiting: int = 64  # of one peer address; more are refused unchecked
    max_stage_bytes_per_user: int = 8_589_934_592  # 8 GiB of rows before their commit: four of the largest stages
    max_stage_bytes: int = 34_359_738_368  # 32 GiB, of all users: the share of four users with the most
    max_commit_bytes: int = 0  # of memory for the batches that are published; 0: half of memory_limit


class LimitRange(msgspec.Struct, frozen=True):
    """The range of a setting, both ends included, and its unit."""

    least: float
    most: float
    unit: str


RANGES: Final[dict[str, LimitRange]] = {
    "max_connections": LimitRange(1, 1_000_000, "connections"),
    "max_connections_per_user": LimitRange(0, 1_000_000, "connections"),
    "max_connections_per_address": LimitRange(0, 1_000_000, "connections"),
    "max_handshakes": LimitRange(1, 1_000_000, "connections"),
    "max_handshakes_per_address": LimitRange(0, 1_000_000, "connections"),
    "max_sessions_per_connection": LimitRange(1, 65_536, "sessions"),
    "max_links_per_session": LimitRange(1, 65_536, "links"),
    "max_message_bytes": LimitRange(1, 536_870_912, "bytes"),
    "max_unfinished_bytes": LimitRange(0, 1 << 40, "bytes"),
    "max_transaction_operations": LimitRange(1, 10_000_000, "operations"),
    "max_header_bytes": LimitRange(1024, 16_777_216, "bytes"),
    "max_unauthenticated_bytes": LimitRange(4096, 16_777_216, "bytes"),
    "idle_timeout": LimitRange(0, 86_400, "seconds"),
    "login_delay_first": LimitRange(0, 60, "seconds"),
    "login_delay_most": LimitRange(0, 60, "seconds"),
    "max_login_attempts_waiting": LimitRange(1, 10_000, "attempts"),
    "max_stage_bytes_per_user": LimitRange(1_048_576, 1 << 50, "bytes"),
    "max_stage_bytes": LimitRange(1_048_576, 1 << 50, "bytes"),
    "max_commit_bytes": LimitRange(0, 1 << 40, "bytes"),
}
"""By the name of the setting."""
