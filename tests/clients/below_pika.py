"""What pika's blocking adapter has below it: the channel and connection with callbacks that it drives.

Tests take these where the adapter waits for an answer, makes up an argument or refuses what the broker has to refuse.
The adapter offers no way to them, so this is the one module of the suite that knows pika's private names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.channel import Channel
from pika.connection import Connection


def channel_below(channel: BlockingChannel) -> Channel:
    """Return the channel with callbacks."""
    below: Channel = channel._impl
    return below


def connection_below(connection: BlockingConnection) -> Connection:
    """Return the connection with callbacks."""
    below: Connection = connection._impl
    return below


def send_method(channel: BlockingChannel, method: Any, content: Any = None) -> None:
    """Send a method, for a publish with properties and body, without a check and without waiting for its answer."""
    channel_below(channel)._send_method(method, content)


def send_and_call(channel: BlockingChannel, method: Any, answered: Callable[[Any], object], answer: Any) -> None:
    """Send a method, and call ``answered`` with the frame of its answer."""
    channel_below(channel)._rpc(method, answered, [answer])


def bytes_received_for_heartbeats(connection: BlockingConnection) -> int:
    """Return what pika's check of heartbeats has counted."""
    checker = connection_below(connection)._heartbeat_checker
    assert checker is not None, "heartbeats were negotiated"
    return int(checker.bytes_received_on_connection)
