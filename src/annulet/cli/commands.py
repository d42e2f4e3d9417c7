"""The table of all commands: the group ``annulet`` shows its help from it, without an import of any command."""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandRow(NamedTuple):
    """Where a command is, and what the list of commands says about it."""

    module: str  # imported when the command is used
    name: str  # in the module
    help: str  # the first sentence of the command's own help


COMMANDS: Final[dict[str, CommandRow]] = {
    "serve": CommandRow("annulet.cli.serve", "serve", "Run the broker in the foreground."),
    "demo": CommandRow(
        "annulet.cli.demo",
        "demo",
        "Publish all departures of New York in 2013, move them with Spark, account for every message.",
    ),
    "doctor": CommandRow("annulet.cli.doctor", "doctor", "Check the data directory DATA of a stopped broker."),
    "backup": CommandRow(
        "annulet.cli.backup", "backup", "Make the broker copy its data to the empty directory TARGET while it runs."
    ),
    "lease": CommandRow("annulet.cli.lease", "lease", "List and end the leases of Spark queries on a running broker."),
    "pipeline": CommandRow("annulet.cli.pipelines", "pipeline", "Move and transform messages in bulk, on Spark."),
    "password-hash": CommandRow(
        "annulet.cli.password_hash",
        "password_hash",
        "Print the Argon2 hash of a password, for [users.NAME] in the configuration file.",
    ),
    "metrics": CommandRow("annulet.cli.metrics", "metrics", "Print what Grafana and Prometheus need for /metrics."),
    "completion": CommandRow("annulet.cli.remote.completion", "completion", "Print the completion script of a shell."),
    "context": CommandRow(
        "annulet.cli.remote.context_commands",
        "context",
        "Keep addresses and logins of brokers under names, in ~/.config/annulet/contexts.toml.",
    ),
    "status": CommandRow(
        "annulet.cli.remote.status_commands", "status", "Show the broker's version, contents, alarms and warnings."
    ),
    "top": CommandRow("annulet.cli.remote.status_commands", "top", "Show the busiest queues, live. q ends it."),
    "log": CommandRow("annulet.cli.remote.status_commands", "log", "Show or change how much the broker logs."),
    "queues": CommandRow(
        "annulet.cli.remote.queue_commands", "queues", "List queues: of all virtual hosts, or of --vhost."
    ),
    "queue": CommandRow(
        "annulet.cli.remote.queue_commands",
        "queue",
        "Create, show, change, purge and delete a queue, or ask why it delivers nothing.",
    ),
    "exchanges": CommandRow(
        "annulet.cli.remote.exchange_commands", "exchanges", "List exchanges: of all virtual hosts, or of --vhost."
    ),
    "exchange": CommandRow("annulet.cli.remote.exchange_commands", "exchange", "Create and delete an exchange."),
    "bindings": CommandRow(
        "annulet.cli.remote.exchange_commands", "bindings", "List bindings, without those of the default exchange."
    ),
    "bind": CommandRow(
        "annulet.cli.remote.exchange_commands",
        "bind",
        "Bind a queue, or with --exchange an exchange, to the exchange SOURCE.",
    ),
    "unbind": CommandRow(
        "annulet.cli.remote.exchange_commands",
        "unbind",
        "Undo a binding with exactly this routing key and these arguments.",
    ),
    "connections": CommandRow(
        "annulet.cli.remote.connection_commands",
        "connections",
        "List connections that you see: of all virtual hosts, or of --vhost.",
    ),
    "connection": CommandRow(
        "annulet.cli.remote.connection_commands", "connection", "Show, trace or close a connection."
    ),
    "consumers": CommandRow(
        "annulet.cli.remote.connection_commands", "consumers", "List consumers: of all virtual hosts, or of --vhost."
    ),
    "users": CommandRow("annulet.cli.remote.access_commands", "users", "List users."),
    "user": CommandRow(
        "annulet.cli.remote.access_commands", "user", "Create a user, set its password and tags, delete it."
    ),
    "permissions": CommandRow(
        "annulet.cli.remote.access_commands", "permissions", "List permissions: of all virtual hosts, or of --vhost."
    ),
    "permission": CommandRow(
        "annulet.cli.remote.access_commands", "permission", "Set and clear what a user may do in a virtual host."
    ),
    "vhosts": CommandRow("annulet.cli.remote.access_commands", "vhosts", "List virtual hosts."),
    "vhost": CommandRow("annulet.cli.remote.access_commands", "vhost", "Create and delete virtual hosts."),
    "tokens": CommandRow("annulet.cli.remote.access_commands", "tokens", "List tokens, without their texts."),
    "token": CommandRow(
        "annulet.cli.remote.access_commands",
        "token",
        "Create and delete tokens: passwords for programs, with a scope and an end.",
    ),
    "policies": CommandRow(
        "annulet.cli.remote.policy_commands",
        "policies",
        "List policies: of all virtual hosts, or of --vhost; of each the one that wins first.",
    ),
    "policy": CommandRow("annulet.cli.remote.policy_commands", "policy", "Set and clear a policy."),
    "settings": CommandRow(
        "annulet.cli.remote.policy_commands",
        "settings",
        "Show the broker's settings with their origins, and change those that may change at run time.",
    ),
    "publish": CommandRow(
        "annulet.cli.remote.message_commands",
        "publish",
        "Publish a message to a queue, or with --exchange by a routing key.",
    ),
    "consume": CommandRow(
        "annulet.cli.remote.message_commands", "consume", "Take messages from a queue and print them."
    ),
    "browse": CommandRow(
        "annulet.cli.remote.message_commands",
        "browse",
        "Show the first messages of a queue, with up to 4 KiB of each body, or the whole message with an ID of this "
        "list.",
    ),
    "tail": CommandRow(
        "annulet.cli.remote.message_commands",
        "tail",
        "Print copies of the messages of a queue, those that wait and then live, until Control-C.",
    ),
    "redrive": CommandRow(
        "annulet.cli.remote.operation_commands",
        "redrive",
        "Send dead letters in QUEUE back to the queues where they died first (x-death).",
    ),
    "undo": CommandRow(
        "annulet.cli.remote.operation_commands",
        "undo",
        "Bring back what an operation on QUEUE deleted, moved or redrove.",
    ),
    "schedule": CommandRow(
        "annulet.cli.remote.operation_commands",
        "schedule",
        "List scheduled messages, cancel them, or deliver them now.",
    ),
    "bench": CommandRow(
        "annulet.cli.remote.bench_commands",
        "bench",
        "Measure the broker: a queue is made, loaded, emptied at the same time, and deleted.",
    ),
    "definitions": CommandRow(
        "annulet.cli.remote.definition_commands",
        "definitions",
        "Export, import, plan and apply users, virtual hosts, policies, exchanges, queues, bindings …",
    ),
    "losses": CommandRow(
        "annulet.cli.remote.ledger_commands",
        "losses",
        "List lost messages, the newest first: whose they were, which queue, why.",
    ),
    "audit": CommandRow("annulet.cli.remote.ledger_commands", "audit", "List what operators did, the newest first."),
    "events": CommandRow(
        "annulet.cli.remote.ledger_commands", "events", "List what happened in the broker lately, the oldest first."
    ),
}
"""Each command by the name in the command line, in the order of the list."""
