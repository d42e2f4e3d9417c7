from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from annulet.cli.remote.client import BrokerClient
from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, EXIT_UNREACHABLE, EXIT_USAGE, Failure
from annulet.cli.remote.target import Target
from annulet.demo.ports import free_ports


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by path; ``/drop`` closes the connection after its answer."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        body, status = b'{"ok": true}', 200
        if self.path == "/html":
            body, status = b"<html>", 200
        elif self.path == "/missing":
            body, status = b'{"error": "x", "reason": "no \\u001b[31m thing"}', 404
        elif self.path == "/proxy":
            body, status = b"bad gateway", 502
        elif self.path == "/events":
            body = b'id: 1\n\nid: 2\ndata: {"number": 2}\n\nevent: missed\ndata: {"missed": 3}\n\n'
        elif self.path == "/stopped":
            body = b'event: end\ndata: {"reason": "the broker stops"}\n\n'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path == "/drop"

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@pytest.fixture
def client() -> Iterator[BrokerClient]:
    Answers.protocol_version = "HTTP/1.1"
    Answers.seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    client = BrokerClient(Target("http", "127.0.0.1", server.server_port, "u", "p"))
    yield client
    client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_segments_are_encoded_and_the_connection_is_used_again(client: BrokerClient) -> None:
    assert client.get("api", "/", "a b/ü?#", query={"x": "1 &"}) == {"ok": True}
    assert client.get("drop") == {"ok": True}
    assert client.get("after") == {"ok": True}
    assert Answers.seen == ["/api/%2F/a%20b%2F%C3%BC%3F%23?x=1%20%26", "/drop", "/after"]


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("missing", EXIT_NOT_FOUND, "thing"),
        ("proxy", EXIT_REFUSED_BY_BROKER, "status 502"),
        ("html", EXIT_UNREACHABLE, "without JSON"),
        ("", EXIT_USAGE, "a name is empty"),
    ],
)
def test_refusals(client: BrokerClient, path: str, code: int, text: str) -> None:
    with pytest.raises(Failure, match=text) as caught:
        client.get(path)
    assert caught.value.exit_code == code


def test_an_endless_answer_is_not_read(client: BrokerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.cli.remote.client.ANSWER_BYTES_MAX", 5)
    with pytest.raises(Failure, match="more than 5 bytes"):
        client.get("x")


def test_a_closed_port_is_said_with_the_address() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Failure, match=f"no answer from http://127.0.0.1:{port}") as caught:
        BrokerClient(Target("http", "127.0.0.1", port, "u", "p")).get("x")
    assert caught.value.exit_code == EXIT_UNREACHABLE


def test_a_ca_file_that_is_missing_is_a_usage_error() -> None:
    with pytest.raises(Failure, match="ca file 'nix'") as caught:
        BrokerClient(Target("https", "127.0.0.1", 1, "u", "p", "nix")).get("x")
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("path", "items", "words"),
    [
        ("events", [{"number": 2}, {"missed": 3}], "was lost"),
        ("stopped", [], "ended the events: the broker stops"),
    ],
)
def test_server_sent_events_end_with_a_failure(client: BrokerClient, path: str, items: list[Any], words: str) -> None:
    found = []
    with pytest.raises(Failure) as raised:
        found += iter(client.events(path))  # what came before the failure stays in the list
    assert (raised.value.exit_code, words in raised.value.message) == (EXIT_UNREACHABLE, True)
    assert found == items


def test_refused_events_are_refused_as_all_requests(client: BrokerClient) -> None:
    with pytest.raises(Failure, match="thing") as raised:
        next(client.events("missing"))
    assert raised.value.exit_code == EXIT_NOT_FOUND
