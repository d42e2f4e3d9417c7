from __future__ import annotations

from annulet.admin.rabbitmq.routes import METHODS, TABLE


def test_every_method_of_a_route_reaches_the_application() -> None:
    for route in TABLE.routes:
        assert set(route.methods) | set(route.levels) <= set(METHODS), route.path
        assert set(route.levels) <= set(route.methods), route.path
