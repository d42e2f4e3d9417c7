"""The parts of the broker that only connections of AMQP 1.0 use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.broker.amqp10.remembered import RememberedOutcomes
from annulet.broker.connections.services import BrokerServices

if TYPE_CHECKING:
    from annulet.broker.amqp10.dynamic_nodes import DynamicNodes
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.configuration import BrokerConfiguration


class Amqp10Services(BrokerServices):
    """The services that connections of AMQP 1.0 share beside those of all protocols."""

    def __init__(self, configuration: BrokerConfiguration, clock: Clock) -> None:
        super().__init__(configuration, clock)
        self.dynamic_nodes: dict[str, dict[str, DynamicNodes]] = {}  # by virtual host and name
        self.remembered_outcomes = RememberedOutcomes()
