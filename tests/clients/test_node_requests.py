"""NestJS's and rabbitmq-client's requests, which need direct reply-to: the tests themselves are in tests/node."""

from __future__ import annotations

from tests.clients.node_suite import needs, run_file
from tests.clients.support import Peer

pytestmark = [*needs("@nestjs"), *needs("rabbitmq-client")]


def test_requests_of_node_clients(peer: Peer) -> None:
    run_file("request.test.mjs", {"ANNULET_TEST_URL": peer.url})
