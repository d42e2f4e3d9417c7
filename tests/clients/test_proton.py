"""Qpid Proton as its own examples use it: the blocking interface, handlers in a Container, transactions."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.clients.amqp10 import DEBIAN_PYTHON, HERE, proton_missing
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene

pytestmark = [pytest.mark.debian, pytest.mark.skipif(bool(proton_missing()), reason=proton_missing() or "installed")]


def run(scene: Scene, program: str, name: str) -> Any:
    """Run one of the programs of tests/clients/proton on a queue of its own and return what it reports."""
    command = [DEBIAN_PYTHON, str(HERE / "proton" / program), name, scene.peer.url, scene.name()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_blocking_send_and_receive(scene: Scene, ours: Peer) -> None:
    report = run(scene, "blocking.py", "hello")
    assert report == {"state": "ACCEPTED", "body": "Hello World!", "delivery_counts": [0, 0, 0], "empty": True}


def test_blocking_programs_see_refusals(scene: Scene, ours: Peer) -> None:
    report = run(scene, "blocking.py", "refusals")
    assert report == {"attach": "amqp:not-found", "send": "REJECTED", "host": "unknown"}


def test_synchronous_requests(scene: Scene, ours: Peer) -> None:
    report = run(scene, "blocking.py", "calls")
    assert report["answers"] == ["TWAS BRILLIG, AND THE SLITHY TOVES", "DID GIRE AND GYMBLE IN THE WABE."]
    assert report["ended"]


def test_handlers_send_and_receive(scene: Scene) -> None:
    assert run(scene, "container.py", "simple") == {"confirmed": 500, "in_order": True}


def test_link_options(scene: Scene, ours: Peer) -> None:
    report = run(scene, "container.py", "modes")
    assert report["browsed"] == list(range(20))
    assert report["blue"] == list(range(0, 20, 2))
    assert report["rest"] == list(range(1, 20, 2))


def test_transactions_of_the_example(scene: Scene, ours: Peer) -> None:
    report = run(scene, "container.py", "transactions")
    assert (report["committed"], report["aborted"]) == (3, 3)
    assert report["received"] == [number for number in range(60) if number // 10 % 2 == 0]
