from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.settings.setting_values import (
    ConfigurationError,
    Endpoint,
    machine_memory_bytes,
    parse_endpoint,
    parse_memory,
    parse_patterns,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:1", Endpoint("localhost", 1)),
        ("localhost", Endpoint("localhost", 7)),
        (":0", Endpoint("127.0.0.1", 0)),
        ("[::1]:65535", Endpoint("::1", 65535)),
        ("[::]", Endpoint("::", 7)),
        (" host:2 ", Endpoint("host", 2)),
        ("10.0.0.1", Endpoint("10.0.0.1", 7)),
        ("1host.example", Endpoint("1host.example", 7)),
    ],
)
def test_endpoints(text: str, expected: Endpoint) -> None:
    assert parse_endpoint(text, 7) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "::1", "a:b", "a:65536", "a:-1", "a:", "[::1", "a b:1", "a:1:2", "5672:1", "0x10", "127.1", "0x7f.1:9"],
)
def test_bad_endpoints(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_endpoint(text, 7)


def test_amounts_of_memory() -> None:
    assert parse_memory(5) == 5
    assert parse_memory("5") == 5
    assert parse_memory("5 B") == 5
    assert parse_memory("1.5KiB") == 1536
    assert parse_memory("2GB") == 2_000_000_000
    assert parse_memory("50%") == machine_memory_bytes() // 2
    for text in ("-1", "101%", "5 XB", ""):
        with pytest.raises(ConfigurationError):
            parse_memory(text)


def test_a_container_limit_counts_when_it_is_lower(tmp_path: Path) -> None:
    machine = machine_memory_bytes(tmp_path / "absent")
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    assert machine_memory_bytes(limit) == 1_000_000
    limit.write_text("max\n")
    assert machine_memory_bytes(limit) == machine


def test_patterns_are_checked() -> None:
    assert parse_patterns("here", ["orders.#", "*"]) == ("orders.#", "*")
    with pytest.raises(ConfigurationError, match=r"here: address pattern 'a\*': '\*' stands for whole words"):
        parse_patterns("here", ["a*"])
