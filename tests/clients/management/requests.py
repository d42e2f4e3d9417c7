"""Requests to the management API, as a tool sends them."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

from tests.broker_process import BrokerProcess


def ask(managed: BrokerProcess, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Send a request; return status and the decoded answer, ``None`` for an empty one."""
    connection = http.client.HTTPConnection("127.0.0.1", managed.http_port, timeout=30)
    token = base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": f"Basic {token}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()
