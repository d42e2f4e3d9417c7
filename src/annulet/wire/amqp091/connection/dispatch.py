"""From a decoded channel method to the handler's call; one short function a method, one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from annulet.wire.amqp091.connection.handler import ConnectionHandler
from annulet.wire.amqp091.connection.methods import Method, method_identifier

Dispatcher: TypeAlias = Callable[[ConnectionHandler, int, Method], None]


def _exchange_declare(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.exchange_declare(
        channel,
        method.text("exchange"),
        method.text("type"),
        method.flag("passive"),
        method.flag("durable"),
        method.flag("auto_delete"),
        method.flag("internal"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _exchange_delete(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.exchange_delete(channel, method.text("exchange"), method.flag("if_unused"), method.flag("no_wait"))


def _exchange_bind(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.exchange_bind(
        channel,
        method.text("destination"),
        method.text("source"),
        method.text("routing_key"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _exchange_unbind(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.exchange_unbind(
        channel,
        method.text("destination"),
        method.text("source"),
        method.text("routing_key"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _queue_declare(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.queue_declare(
        channel,
        method.text("queue"),
        method.flag("passive"),
        method.flag("durable"),
        method.flag("exclusive"),
        method.flag("auto_delete"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _queue_bind(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.queue_bind(
        channel,
        method.text("queue"),
        method.text("exchange"),
        method.text("routing_key"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _queue_unbind(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.queue_unbind(
        channel,
        method.text("queue"),
        method.text("exchange"),
        method.text("routing_key"),
        method.table("arguments"),
    )


def _queue_purge(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.queue_purge(channel, method.text("queue"), method.flag("no_wait"))


def _queue_delete(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.queue_delete(
        channel, method.text("queue"), method.flag("if_unused"), method.flag("if_empty"), method.flag("no_wait")
    )


def _qos(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.qos(channel, method.integer("prefetch_size"), method.integer("prefetch_count"), method.flag("global"))


def _consume(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.consume(
        channel,
        method.text("queue"),
        method.text("consumer_tag"),
        method.flag("no_local"),
        method.flag("no_ack"),
        method.flag("exclusive"),
        method.flag("no_wait"),
        method.table("arguments"),
    )


def _cancel(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.cancel(channel, method.text("consumer_tag"), method.flag("no_wait"))


def _cancel_ok(_handler: ConnectionHandler, _channel: int, _method: Method) -> None:
    """Clients may answer the server's basic.cancel (RabbitMQ's consumer cancel notification); nothing waits for it."""


def _flow_ok(_handler: ConnectionHandler, _channel: int, _method: Method) -> None:
    """The client has read the server's channel.flow (§1.5.2.3); later publishes show whether it obeys."""


def _get(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.get(channel, method.text("queue"), method.flag("no_ack"))


def _acknowledge(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.acknowledge(channel, method.integer("delivery_tag"), method.flag("multiple"))


def _reject(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.reject(channel, method.integer("delivery_tag"), method.flag("requeue"))


def _negative_acknowledge(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.negative_acknowledge(
        channel, method.integer("delivery_tag"), method.flag("multiple"), method.flag("requeue")
    )


def _recover(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.recover(channel, method.flag("requeue"))


def _confirm_select(handler: ConnectionHandler, channel: int, method: Method) -> None:
    handler.confirm_select(channel, method.flag("no_wait"))


def _tx_select(handler: ConnectionHandler, channel: int, _method: Method) -> None:
    handler.tx_select(channel)


def _tx_commit(handler: ConnectionHandler, channel: int, _method: Method) -> None:
    handler.tx_commit(channel)


def _tx_rollback(handler: ConnectionHandler, channel: int, _method: Method) -> None:
    handler.tx_rollback(channel)


DISPATCHERS: Final[dict[int, Dispatcher]] = {
    method_identifier("channel.flow-ok"): _flow_ok,
    method_identifier("exchange.declare"): _exchange_declare,
    method_identifier("exchange.delete"): _exchange_delete,
    method_identifier("exchange.bind"): _exchange_bind,
    method_identifier("exchange.unbind"): _exchange_unbind,
    method_identifier("queue.declare"): _queue_declare,
    method_identifier("queue.bind"): _queue_bind,
    method_identifier("queue.unbind"): _queue_unbind,
    method_identifier("queue.purge"): _queue_purge,
    method_identifier("queue.delete"): _queue_delete,
    method_identifier("basic.qos"): _qos,
    method_identifier("basic.consume"): _consume,
    method_identifier("basic.cancel"): _cancel,
    method_identifier("basic.cancel-ok"): _cancel_ok,
    method_identifier("basic.get"): _get,
    method_identifier("basic.ack"): _acknowledge,
    method_identifier("basic.reject"): _reject,
    method_identifier("basic.nack"): _negative_acknowledge,
    method_identifier("basic.recover"): _recover,
    method_identifier("basic.recover-async"): _recover,
    method_identifier("confirm.select"): _confirm_select,
    method_identifier("tx.select"): _tx_select,
    method_identifier("tx.commit"): _tx_commit,
    method_identifier("tx.rollback"): _tx_rollback,
}
"""Methods a handler serves, by identifier; connection, channel, access and basic.publish are the engine's own."""
