from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, EXIT_USAGE
from annulet.cli.remote.message_commands import body_text
from tests.cli.remote.test_queue_commands import publish


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_message_is_published_browsed_and_consumed(annulet: Any) -> None:
    annulet.done("queue", "create", "mail")
    annulet.done("publish", "mail", "first", "-H", "kind=a", "-H", "n=5", "-p", "priority=3", "-p", "type=t")
    annulet.done("publish", "mail", "second\x1b", "--transient")
    (first, second) = annulet.json("browse", "mail")
    assert (body_text(first), first["priority"], first["durable"]) == ("first", 3, True)
    assert second["durable"] is False
    assert [each["id"] for each in annulet.json("browse", "mail", "--selector", "n = 5")] == [first["id"]]
    assert "second\\x1b" in annulet.done("browse", "mail").output
    taken = lines(annulet.done("consume", "mail", "--count", "1", "--json").output)
    assert [(each["payload"], each["headers"]["kind"]) for each in taken] == [("first", "a")]
    assert annulet.done("consume", "mail", "--wait", "0.5").output == "/queue/mail second\\x1b\n"
    assert annulet.json("queue", "show", "mail")["messages"] == 0


def test_a_body_of_octets_comes_from_a_file(annulet: Any, tmp_path: Any) -> None:
    annulet.done("queue", "create", "octets")
    file = tmp_path / "body"
    file.write_bytes(b"\xff\x00")
    annulet.done("publish", "octets", "--file", str(file))
    annulet.done("publish", "octets", "--file", "-", given="of standard input")
    first, second = lines(annulet.done("consume", "octets", "--json", "-n", "2").output)
    assert (first["payload"], first["payload_encoding"]) == ("/wA=", "base64")
    assert second["payload"] == "of standard input"


def test_a_whole_message_is_shown_with_its_body_in_ranges(annulet: Any, tmp_path: Any) -> None:
    annulet.done("queue", "create", "whole")
    octets = bytes(range(256)) * 8192  # 2 MiB: two ranges, and the end
    file = tmp_path / "body"
    file.write_bytes(octets)
    text = "ä" * 5000
    annulet.done("publish", "whole", "--file", str(file), "-H", "kind=a", "-p", "app_id=till", "-p", "timestamp=5")
    published = annulet.json("publish", "whole", text)
    assert published == {"routed": True, "queues": 1, "bytes": 10_000}
    first, second = annulet.json("browse", "whole")
    shown = annulet.json("browse", "whole", str(first["id"]))
    assert (shown["headers"], shown["properties"]["app_id"], shown["body_size"]) == ({"kind": "a"}, "till", len(octets))
    assert (base64.b64decode(shown["body"]), shown["body_encoding"], shown["body_complete"]) == (octets, "base64", True)
    assert annulet.json("browse", "whole", str(second["id"]))["body"] == text
    assert annulet.done("browse", "whole", str(second["id"]), "--body").output == text
    lines = annulet.done("browse", "whole", "--whole").output.splitlines()
    assert [json.loads(line)["body_size"] for line in lines] == [len(octets), 10_000]
    assert "give its ID" in annulet.refused(EXIT_USAGE, "browse", "whole", "--body")
    annulet.refused(EXIT_NOT_FOUND, "browse", "whole", "77")
    assert annulet.json("queue", "show", "whole")["messages"] == 2


def test_tail_shows_what_waits_and_what_comes_and_takes_nothing(annulet: Any) -> None:
    annulet.done("queue", "create", "live")
    annulet.done("publish", "live", "old")
    shown = annulet.done("tail", "live", "-n", "1", "--json").output
    assert [each["payload"] for each in lines(shown)] == ["old"]
    later = threading.Timer(1.0, lambda: publish(annulet, "live", 1))
    later.start()
    assert annulet.done("tail", "live", "--new", "-n", "1").output == "/queue/live 0\n"
    later.join()
    assert annulet.json("queue", "show", "live")["messages"] == 2


def test_refusals(annulet: Any) -> None:
    assert "give the body" in annulet.refused(EXIT_USAGE, "publish", "q")
    assert "cannot be read" in annulet.refused(EXIT_USAGE, "publish", "q", "--file", "/nix")
    assert "no queue takes" in annulet.refused(EXIT_REFUSED_BY_BROKER, "publish", "nix", "x")
    annulet.refused(EXIT_NOT_FOUND, "browse", "nix")
    annulet.refused(EXIT_NOT_FOUND, "tail", "nix")
    assert "nix" in annulet.refused(EXIT_REFUSED_BY_BROKER, "consume", "nix")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"body": "eA==", "body_complete": True}, "x"),
        ({"body": "eA==", "body_complete": False}, "x …"),
        ({"body": None, "body_unavailable": "damaged"}, "damaged"),
    ],
)
def test_bodies_as_text(item: dict[str, Any], text: str) -> None:
    assert body_text(item) == text
