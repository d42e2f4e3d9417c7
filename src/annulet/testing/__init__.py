"""Tools for tests of programs that use a broker: a real broker in the test's process, and a clock set by hand.

Names are imported when they are used: a test run that uses none of them does not wait for the broker's modules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from annulet.testing.clock import BrokerClock, VirtualClock
    from annulet.testing.context import broker
    from annulet.testing.in_process import RunningBroker
    from annulet.testing.threaded import ThreadedBroker
    from annulet.testing.unittest_mixin import BrokerMixin

__all__ = ["BrokerClock", "BrokerMixin", "RunningBroker", "ThreadedBroker", "VirtualClock", "broker"]

_MODULES: Final = {
    "BrokerClock": "clock",
    "BrokerMixin": "unittest_mixin",
    "RunningBroker": "in_process",
    "ThreadedBroker": "threaded",
    "VirtualClock": "clock",
    "broker": "context",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
