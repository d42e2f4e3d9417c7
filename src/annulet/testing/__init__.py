"""Tools for tests of programs that use a broker: a real broker in the test's process, and a clock set by hand."""

from annulet.testing.clock import VirtualClock
from annulet.testing.in_process import RunningBroker, broker

__all__ = ["RunningBroker", "VirtualClock", "broker"]
