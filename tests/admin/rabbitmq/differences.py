"""The answers of RabbitMQ 3.10.8, key by key, and why a key is absent here; ``python -m`` writes it into the page.

``rabbitmq_3_10.json`` was recorded from a running RabbitMQ 3.10.8 (Debian's rabbitmq-server) with queues, bindings, a
policy and a consumer: by route the keys of its answers, those of objects within joined by dots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

RECORDED: dict[str, list[str]] = json.loads((Path(__file__).parent / "rabbitmq_3_10.json").read_text())

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "rabbitmq-management-api.md"
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"

ERLANG = "A figure of the Erlang virtual machine"
NOT_COUNTED = "Not counted: a counter would cost time for each message"
NOT_RATED = "Not sampled"
STORE = "A figure of RabbitMQ's message store"
CHURN = "Not counted"
CLUSTER = "There is one node"
USER = "Not recorded for definitions"
CONSOLE = "For RabbitMQ's console"

ABSENT: dict[str, dict[str, str]] = {
    "overview": {
        "churn_rates.*": CHURN,
        "message_stats.confirm*": NOT_COUNTED,
        "message_stats.deliver": NOT_COUNTED,
        "message_stats.deliver_details": NOT_COUNTED,
        "message_stats.deliver_no_ack*": NOT_COUNTED,
        "message_stats.disk_*": STORE,
        "message_stats.drop_unroutable*": NOT_COUNTED,
        "message_stats.return_unroutable*": NOT_COUNTED,
        "message_stats.get*": NOT_COUNTED,
        "release_series_support_status": CONSOLE,
        "statistics_db_event_queue": CONSOLE,
    },
    "nodes": {
        "*_details": NOT_RATED,
        "channel_*": CHURN,
        "connection_closed": CHURN,
        "queue_*": CHURN,
        "cluster_links": CLUSTER,
        "net_ticktime": CLUSTER,
        "context_switches": ERLANG,
        "gc_*": ERLANG,
        "proc_*": ERLANG,
        "run_queue": ERLANG,
        "metrics_gc_queue_length": ERLANG,
        "io_*": STORE,
        "mnesia_*": STORE,
        "msg_store_*": STORE,
        "ra_open_file_metrics": STORE,
        "disk_free_limit": "A full disk is found by its refusal, not by a limit",
    },
    "extensions": {"*": CONSOLE},
    "feature-flags": {"*": "Every feature is always on: the list is empty"},
    "exchanges": {"message_stats.*": NOT_COUNTED, "user_who_performed_action": USER},
    "exchanges/%2F/e1": {
        "message_stats.*": NOT_COUNTED,
        "user_who_performed_action": USER,
        "incoming": NOT_COUNTED,
        "outgoing": NOT_COUNTED,
    },
    "queues": {
        "backing_queue_status": STORE,
        "consumer_capacity": NOT_COUNTED,
        "consumer_utilisation": NOT_COUNTED,
        "garbage_collection": ERLANG,
        "reductions*": ERLANG,
        "head_message_timestamp": "Not kept in memory; /api/v1/queues/VHOST/NAME has lag_milliseconds",
        "memory": "/api/v1/queues/VHOST/NAME has body_bytes_in_memory",
        "message_bytes_paged_out": "/api/v1/queues/VHOST/NAME has body_bytes_in_memory",
        "message_bytes_ram": "/api/v1/queues/VHOST/NAME has body_bytes_in_memory",
        "message_bytes_persistent": NOT_COUNTED,
        "messages_persistent": NOT_COUNTED,
        "messages_ready_ram": STORE,
        "messages_unacknowledged_ram": STORE,
        "message_stats.deliver": NOT_COUNTED,
        "message_stats.deliver_details": NOT_COUNTED,
        "message_stats.deliver_no_ack*": NOT_COUNTED,
        "message_stats.get*": NOT_COUNTED,
        "recoverable_slaves": CLUSTER,
        "single_active_consumer_tag": "The page of the queue's consumers has the active one",
    },
    "connections": {
        "garbage_collection": ERLANG,
        "reductions*": ERLANG,
        "recv_cnt": NOT_COUNTED,
        "send_cnt": NOT_COUNTED,
        "recv_oct_details": NOT_RATED,
        "send_oct_details": NOT_RATED,
    },
    "channels": {
        "garbage_collection": ERLANG,
        "reductions*": ERLANG,
        "acks_uncommitted": NOT_COUNTED,
        "messages_uncommitted": NOT_COUNTED,
        "messages_unconfirmed": NOT_COUNTED,
        "message_stats.*": "Counters and rates are kept by queue",
        "pending_raft_commands": CLUSTER,
    },
}
"""By route: patterns of the keys that our answers do not have, and why."""

ABSENT["queues/%2F/q1"] = {**ABSENT["queues"], "deliveries": NOT_COUNTED, "incoming": NOT_COUNTED}
ABSENT["connections/{connection}"] = ABSENT["connections"]
ABSENT["channels/{channel}"] = {**ABSENT["channels"], "deliveries": NOT_COUNTED, "publishes": NOT_COUNTED}

OPAQUE = frozenset(
    {
        "client_properties", "arguments", "definition", "value", "effective_policy_definition", "garbage_collection",
        "applications", "socket_opts", "memory", "contexts", "auth_mechanisms", "exchange_types",
        "sample_retention_policies",
    }
)  # fmt: skip
"""Objects whose content is the broker's, the client's or the operator's own."""


def keys_of(value: Any, prefix: str = "") -> set[str]:
    """Return the keys of an answer, those of objects within joined by dots; of a list those of all items."""
    keys: set[str] = set()
    if isinstance(value, list):
        for item in value:
            keys |= keys_of(item, prefix)
    elif isinstance(value, dict):
        for name, item in value.items():
            rate = isinstance(item, dict) and set(item) == {"rate"}
            if name in OPAQUE or rate or not isinstance(item, dict | list):
                keys.add(prefix + name)
            else:
                keys |= keys_of(item, f"{prefix}{name}.") or {prefix + name}
    return keys


def reason(route: str, key: str) -> str:
    """Return why a key is absent; empty when it has to be there."""
    return next((text for pattern, text in ABSENT.get(route, {}).items() if fnmatchcase(key, pattern)), "")


def table() -> str:
    """Return the table of the page."""
    lines = ["| route | keys of RabbitMQ | present | absent, and why |", "| --- | --- | --- | --- |"]
    for route, keys in RECORDED.items():
        absent: dict[str, list[str]] = {}
        for pattern, text in ABSENT.get(route, {}).items():
            if any(reason(route, key) == text and fnmatchcase(key, pattern) for key in keys):
                absent.setdefault(text, []).append(pattern)
        present = sum(not reason(route, key) for key in keys)
        why = "; ".join(f"{text}: {_names(patterns)}" for text, patterns in absent.items())
        path = route.replace("%2F/e1", "VHOST/NAME").replace("%2F/q1", "VHOST/NAME").replace("%2F", "VHOST")
        path = path.replace("{connection}", "NAME").replace("{channel}", "NAME").replace("{node}", "NAME")
        lines.append(f"| `{path}` | {len(keys)} | {present} | {why} |")
    return "\n".join(lines)


def _names(patterns: Iterable[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)


def page() -> str:
    """Return the page with the present table."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
