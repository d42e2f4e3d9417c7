"""Refusals of the core and the store as ERROR frames: STOMP has no other answer, and ends the connection with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from annulet.core.base.errors import CoreError
from annulet.store.files.errors import StoreError
from annulet.wire.stomp.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def translated(command: str) -> Iterator[None]:
    """Turn errors of the core and of the store into the text of an ERROR that begins with the frame's command."""
    try:
        yield
    except (CoreError, StoreError) as error:
        raise translate(command, error) from error


def translate(command: str, error: CoreError | StoreError) -> RemoteProtocolError:
    """Return the text of an ERROR for what the core or the store refused."""
    return RemoteProtocolError(f"{command}: {error}")
