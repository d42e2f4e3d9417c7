"""The methods a handler answers with, one function each."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.connection.output import FrameWriter

_GET_EMPTY: Final = encode_method("basic.get-empty")
_QOS_OK: Final = encode_method("basic.qos-ok")
_EXCHANGE_DECLARE_OK: Final = encode_method("exchange.declare-ok")
_EXCHANGE_DELETE_OK: Final = encode_method("exchange.delete-ok")
_EXCHANGE_BIND_OK: Final = encode_method("exchange.bind-ok")
_EXCHANGE_UNBIND_OK: Final = encode_method("exchange.unbind-ok")
_QUEUE_BIND_OK: Final = encode_method("queue.bind-ok")
_QUEUE_UNBIND_OK: Final = encode_method("queue.unbind-ok")
_CONFIRM_SELECT_OK: Final = encode_method("confirm.select-ok")
_TX_SELECT_OK: Final = encode_method("tx.select-ok")
_TX_COMMIT_OK: Final = encode_method("tx.commit-ok")
_TX_ROLLBACK_OK: Final = encode_method("tx.rollback-ok")
_COUNT_MAX: Final = 0xFFFFFFFF  # a long-uint; larger counts are shown as this


class Replies:
    """Sends the replies. Each raises LocalProtocolError when its channel was never opened."""

    def __init__(self, output: FrameWriter) -> None:
        self._output = output

    def send_queue_declare_ok(self, channel: int, queue: str, message_count: int, consumer_count: int) -> None:
        """Answer queue.declare; ``message_count`` counts ready messages, as in RabbitMQ."""
        self._output.send_method(
            channel,
            encode_method(
                "queue.declare-ok",
                {
                    "queue": queue,
                    "message_count": min(message_count, _COUNT_MAX),
                    "consumer_count": min(consumer_count, _COUNT_MAX),
                },
            ),
        )

    def send_queue_bind_ok(self, channel: int) -> None:
        """Answer queue.bind."""
        self._output.send_method(channel, _QUEUE_BIND_OK)

    def send_queue_unbind_ok(self, channel: int) -> None:
        """Answer queue.unbind."""
        self._output.send_method(channel, _QUEUE_UNBIND_OK)

    def send_queue_purge_ok(self, channel: int, message_count: int) -> None:
        """Answer queue.purge with the number of messages removed."""
        self._output.send_method(
            channel, encode_method("queue.purge-ok", {"message_count": min(message_count, _COUNT_MAX)})
        )

    def send_queue_delete_ok(self, channel: int, message_count: int) -> None:
        """Answer queue.delete with the number of messages deleted with it."""
        self._output.send_method(
            channel, encode_method("queue.delete-ok", {"message_count": min(message_count, _COUNT_MAX)})
        )

    def send_exchange_declare_ok(self, channel: int) -> None:
        """Answer exchange.declare."""
        self._output.send_method(channel, _EXCHANGE_DECLARE_OK)

    def send_exchange_delete_ok(self, channel: int) -> None:
        """Answer exchange.delete."""
        self._output.send_method(channel, _EXCHANGE_DELETE_OK)

    def send_exchange_bind_ok(self, channel: int) -> None:
        """Answer exchange.bind."""
        self._output.send_method(channel, _EXCHANGE_BIND_OK)

    def send_exchange_unbind_ok(self, channel: int) -> None:
        """Answer exchange.unbind."""
        self._output.send_method(channel, _EXCHANGE_UNBIND_OK)

    def send_qos_ok(self, channel: int) -> None:
        """Answer basic.qos."""
        self._output.send_method(channel, _QOS_OK)

    def send_consume_ok(self, channel: int, consumer_tag: str) -> None:
        """Answer basic.consume with the consumer's tag."""
        self._output.send_method(channel, encode_method("basic.consume-ok", {"consumer_tag": consumer_tag}))

    def send_cancel_ok(self, channel: int, consumer_tag: str) -> None:
        """Answer basic.cancel."""
        self._output.send_method(channel, encode_method("basic.cancel-ok", {"consumer_tag": consumer_tag}))

    def send_get_empty(self, channel: int) -> None:
        """Answer basic.get from a queue without ready messages."""
        self._output.send_method(channel, _GET_EMPTY)

    def send_confirm_select_ok(self, channel: int) -> None:
        """Answer confirm.select."""
        self._output.send_method(channel, _CONFIRM_SELECT_OK)

    def send_tx_select_ok(self, channel: int) -> None:
        """Answer tx.select."""
        self._output.send_method(channel, _TX_SELECT_OK)

    def send_tx_commit_ok(self, channel: int) -> None:
        """Answer tx.commit."""
        self._output.send_method(channel, _TX_COMMIT_OK)

    def send_tx_rollback_ok(self, channel: int) -> None:
        """Answer tx.rollback."""
        self._output.send_method(channel, _TX_ROLLBACK_OK)
