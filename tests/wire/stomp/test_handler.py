from __future__ import annotations

from collections.abc import Callable

import pytest

from annulet.wire.stomp.frames import Frame
from annulet.wire.stomp.handler import ConnectionHandler

FRAME = Frame("SEND", {})
CALLS: dict[str, list[object]] = {
    "authenticate": ["guest", "guest", "/"],
    "connection_opened": [],
    "connection_closed": ["", True],
    "send": [FRAME, "/queue/a", "", ""],
    "subscribe": [FRAME, "1", "/queue/a", "auto", ""],
    "unsubscribe": [FRAME, "1", "", ""],
    "acknowledge": ["1", "", "", ""],
    "negative_acknowledge": [FRAME, "1", "", "", ""],
    "begin": ["t", ""],
    "commit": ["t", ""],
    "abort_transaction": ["t", ""],
    "disconnect": [""],
}


@pytest.mark.parametrize("name", CALLS)
def test_the_base_class_serves_nothing_by_itself(name: str) -> None:
    method: Callable[..., object] = getattr(ConnectionHandler(), name)
    with pytest.raises(NotImplementedError):
        method(*CALLS[name])


def test_every_call_is_covered_here() -> None:
    assert {name for name in vars(ConnectionHandler) if not name.startswith("_")} == set(CALLS)
