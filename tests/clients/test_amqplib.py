"""amqplib of Node.js: the tests themselves are in tests/node."""

from __future__ import annotations

from tests.clients.node_suite import needs, run_file
from tests.clients.support import Peer

pytestmark = needs("amqplib")


def test_amqplib(peer: Peer) -> None:
    environment = {"ANNULET_TEST_URL": peer.url, "ANNULET_TEST_OURS": "yes" if peer.ours else "no"}
    run_file("client.test.mjs", environment, may_skip=not peer.ours)
