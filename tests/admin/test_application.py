from __future__ import annotations

from starlette.routing import Route

from annulet.admin.application import build_application
from annulet.broker.broker import Broker
from annulet.broker.configuration import BrokerConfiguration
from tests.admin.conftest import Site


def test_every_path_only_reads(site: Site) -> None:
    routes = [route for route in build_application(site.broker).routes if isinstance(route, Route)]
    assert {route.path for route in routes} >= {"/health/live", "/health/ready", "/metrics", "/api/v1/queues"}
    for route in routes:
        assert route.methods == {"GET", "HEAD"}, route.path


def test_two_applications_keep_their_brokers_apart(site: Site) -> None:
    other = Broker(BrokerConfiguration(data_directory=None))
    assert build_application(site.broker).state.broker is site.broker
    assert build_application(other).state.broker is other
