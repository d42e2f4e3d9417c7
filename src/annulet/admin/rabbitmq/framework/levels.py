"""The rights that RabbitMQ's tags give, from the least to the most; each route names the one that it takes."""

from __future__ import annotations

from typing import Final

ADMINISTRATORS: Final = frozenset({"administrator"})
"""Users, virtual hosts, permissions, limits, global parameters, operator policies."""

MONITORS: Final = frozenset({"administrator", "monitoring"})
"""Nodes, and the connections and channels of others."""

POLICY_MAKERS: Final = frozenset({"administrator", "policymaker"})
"""Policies and parameters of the user's virtual hosts."""

MANAGEMENT: Final = frozenset({"administrator", "monitoring", "policymaker", "management"})
"""Everything in the user's virtual hosts, as far as permissions allow."""

REFUSALS: Final = {
    ADMINISTRATORS: "Not administrator user",
    MONITORS: "Not monitor user",
    POLICY_MAKERS: "Not policymaker user",
    MANAGEMENT: "Not management user",
}
"""RabbitMQ's texts."""
