"""What tests of programs that use a broker need: a real broker in the test's process, and a clock to turn by hand."""

from annulet.testing.clock import VirtualClock
from annulet.testing.in_process import RunningBroker, broker

__all__ = ["RunningBroker", "VirtualClock", "broker"]
