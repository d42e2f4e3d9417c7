"""Answers of a channel to work of several turns or of the disk: transactions, and publishes to very many queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.broker.connections.client_session import SessionCommit
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.types import constants

if TYPE_CHECKING:
    from annulet.broker.amqp091.channel import Channel
    from annulet.broker.durability.blocked import BlockedTarget
    from annulet.core.message.message import Message
    from annulet.core.routing.routes import Route


class WidePublish(SessionCommit):
    """A message on its way to very many queues."""

    def __init__(
        self,
        channel: Channel,
        message: Message,
        route: Route,
        further_keys: tuple[str, ...],
        *,
        mandatory: bool,
    ) -> None:
        super().__init__(channel)
        self._channel = channel
        self._message = message
        self._route = route
        self._further_keys = further_keys
        self._mandatory = mandatory
        self._marks = channel.blocked.marks()

    def answer(self, unroutable: list[Message]) -> None:
        """Confirm it."""
        channel = self._channel
        if not channel.closed:
            targets: list[BlockedTarget] = []
            if channel.blocked.any:
                targets = channel.blocked.entered(self._marks) + channel.blocked.at([self._route.address])
            channel.published_wide(self._message, targets, self._mandatory, not unroutable)

    def refuse(self, error: Exception) -> None:
        """Refuse it."""
        if not self._channel.closed:
            self._channel.refused_wide(error, self._message, self._mandatory)


def commit_refusal(error: Exception) -> tuple[int, str]:
    """Return code and text of the channel's end for a commit of which nothing was done."""
    if isinstance(error, StoreError):
        return constants.RESOURCE_ERROR, f"the transaction is not durable: {error}"
    if isinstance(error, CoreError):
        return constants.PRECONDITION_FAILED, str(error)
    return constants.INTERNAL_ERROR, "the broker failed to commit; see its log"


class ChannelCommit(SessionCommit):
    """The answer to tx.commit once everything took effect. Takes the channel's notes of the sends."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._channel = channel
        self._mandatory, channel.mandatory = channel.mandatory, []
        self._sent_to, channel.sent_to = channel.sent_to, {}
        self._marks = channel.blocked.marks()

    def answer(self, unroutable: list[Message]) -> None:
        """Send commit-ok when it is durable; send back the mandatory messages that no queue took."""
        channel = self._channel
        broker = channel.connection.broker
        broker.unroutable += len(unroutable)
        if not channel.closed:
            if channel.blocked.any:
                channel.hold(channel.blocked.entered(self._marks) + channel.blocked.at(self._sent_to))
            lost = {id(message) for message in unroutable}
            for message in self._mandatory:
                if id(message) in lost:
                    channel.return_unroutable(message)
        broker.commit.wait(TransactionWaiter(channel))

    def refuse(self, error: Exception) -> None:
        """Close the channel, or the connection for a defect."""
        channel = self._channel
        if not channel.closed:
            code, text = commit_refusal(error)
            if code == constants.INTERNAL_ERROR:
                channel.engine.close_connection(code, text)
                channel.connection.mark_dirty()
            else:
                channel.client.fail_channel(channel.number, code, text, 90, 20)
        channel.end_commit()


class TransactionWaiter:
    """Sends commit-ok when the transaction is durable."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        """Answer the client."""
        channel = self.channel
        if not channel.closed:
            channel.engine.replies.send_tx_commit_ok(channel.number)
            channel.connection.mark_dirty()
        channel.end_commit()

    def window_failed(self, window: int) -> None:  # noqa: ARG002 - as above
        """The commit is not durable: the channel ends with an error."""
        channel = self.channel
        if not channel.closed:
            channel.client.fail_channel(
                channel.number, constants.RESOURCE_ERROR, "the transaction could not be written to disk", 90, 20
            )
        channel.end_commit()
