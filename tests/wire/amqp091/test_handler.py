from __future__ import annotations

import inspect

import pytest

from annulet.wire.amqp091.handler import ConnectionHandler

CALLS = [name for name in vars(ConnectionHandler) if not name.startswith("_")]


@pytest.mark.parametrize("name", CALLS)
def test_the_base_class_serves_nothing_by_itself(name: str) -> None:
    method = getattr(ConnectionHandler(), name)
    with pytest.raises(NotImplementedError):
        method(*(None for _ in inspect.signature(method).parameters))
