"""A kill in the middle of an application leaves a part of it; the next one does the rest, and then there is none."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess

COUNT = 1500
UNTIL_SECONDS = 60.0


def ask(broker: BrokerProcess, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(f"{broker.http_url}/api/v1/{path}", method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    octets = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, octets, timeout=UNTIL_SECONDS) as response:
        return json.load(response)


def document(first: str, second: str) -> dict[str, Any]:
    """Return many queues of one name, each bound, and exchanges, policies and settings of another."""
    names = [f"{first}-{number}" for number in range(COUNT)]
    ends = {"source": second, "destination_type": "queue", "routing_key": "k"}
    return {
        "vhosts": [{"name": "/"}, {"name": second}],
        "policies": [{"vhost": "/", "name": second, "pattern": f"^{first}", "definition": {"max-length": 9}}],
        "exchanges": [{"vhost": "/", "name": second, "type": "direct"}],
        "queues": [{"vhost": "/", "name": name} for name in names],
        "queue_settings": [{"vhost": "/", "name": names[-1], "settings": {"max-length": 5}}],
        "bindings": [{"vhost": "/", "destination": name, **ends} for name in names],
    }


@pytest.mark.parametrize("prune", [False, True])
def test_a_kill_in_the_middle_and_the_same_again(tmp_path: Path, prune: bool) -> None:
    query = f"prune={str(prune).lower()}"
    with BrokerProcess(tmp_path / "data") as broker:
        if prune:
            ask(broker, "POST", "definitions", document("old", "former"))
        wanted = {"vhosts": [{"name": "/"}]} if prune else document("new", "later")
        steps = len(ask(broker, "POST", f"definitions?plan=true&{query}", wanted)["steps"])
        ended: list[object] = []

        def begin() -> None:
            try:
                ended.append(ask(broker, "POST", f"definitions?{query}", wanted))
            except (OSError, urllib.error.URLError) as error:
                ended.append(error)

        applying = threading.Thread(target=begin)
        applying.start()
        until = time.monotonic() + UNTIL_SECONDS
        while not 0 < (left := remaining(broker, wanted, query)) < steps - 50:
            assert time.monotonic() < until, f"the application does not go on: {left} of {steps} steps are left"
        broker.kill()
        applying.join()
        assert isinstance(ended[0], Exception), "it was killed after the end"
        broker.start()
        rest = remaining(broker, wanted, query)
        assert 0 < rest < steps
        assert len(ask(broker, "POST", f"definitions?{query}", wanted)["steps"]) == rest
        assert remaining(broker, wanted, query) == 0
        broker.restart()
        assert remaining(broker, wanted, query) == 0
        queues = ask(broker, "GET", "definitions?vhost=%2F")["queues"]
        assert len(queues) == (0 if prune else COUNT)


def remaining(broker: BrokerProcess, wanted: dict[str, Any], query: str) -> int:
    """Return how many steps a plan has now."""
    return len(ask(broker, "POST", f"definitions?plan=true&{query}", wanted)["steps"])
