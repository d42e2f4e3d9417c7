"""The protocols a message may have come by, and messages of one made into messages of another.

A message keeps the form its sender's protocol gave it. Delivery by another one uses :func:`converted`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from annulet.core.message.conversion_bounds import ANNOTATIONS_OCTETS, APPLICATION_PROPERTIES_OCTETS, HEADERS_OCTETS
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.message.neutral_content import BODY_ENCODED, BODY_TEXT_OCTETS
from annulet.store.segments.index_filling import GIVES_PRIORITY, HAS_DUPLICATE_ID, SETS_TIME
from annulet.wire.amqp091.messages import conversion as amqp091
from annulet.wire.amqp091.messages.field_types import limit_field_types
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp10.messages import conversion as amqp10
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp import conversion as stomp
from annulet.wire.stomp.view import VIEW as STOMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.message.neutral_content import MessageContent

logger = structlog.get_logger(__name__)

VIEWS: Final[dict[str, ContentView]] = {view.name: view for view in (AMQP_0_9_1, AMQP_1_0, STOMP)}
"""Every protocol's view by its name, which is what the message log stores."""

_NOWHERE: Final = Origin("", "", "", AMQP_0_9_1)

WRITERS: Final[dict[ContentView, Callable[[MessageContent], tuple[bytes, bytes]]]] = {
    AMQP_0_9_1: amqp091.from_content,
    AMQP_1_0: amqp10.from_content,
    STOMP: stomp.from_content,
}
"""For every view its header and body of a neutral content."""

_TIME_FRAGMENTS: Final[dict[str, tuple[bytes, ...]]] = {
    AMQP_0_9_1.name: (b"x-del", b"AMQ_SCHED", b"x-qpid-not"),
    AMQP_1_0.name: (b"x-del", b"x-opt-deliver", b"AMQ_SCHED", b"x-qpid-not"),
    STOMP.name: (b"x-del", b"AMQ_SCHED", b"x-qpid-not"),
}
"""Every property that sets a time has one of these in its name: fewer to look for than there are names."""

_COMMON_FRAGMENTS: Final = (b"x-", b"AMQ_")
"""Every fragment has one of these, of those of duplicate ids as well: most headers have neither, so two looks do."""

_UNDECODED: Final = frozenset({BODY_ENCODED, BODY_TEXT_OCTETS})

CONVERTED_MAX: Final = 1024
"""Conversions remembered, so that fan-out and redelivery do not repeat them; the oldest is forgotten first."""

CONVERTED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of headers and bodies that are remembered, the originals' too: they live at least as long."""

LOOK_SECONDS: Final = 0.003
"""Computing time of conversions after which a connection looks at the clock: 30 to 100 small ones, or one large."""

LOGGED_FAILURES_MAX: Final = 100
"""Failed conversions of a run that are logged; the others are counted only."""


def may_ask_for(view_name: str, header: bytes) -> int:
    """Say what a message with this header may ask for: ``SETS_TIME``, ``HAS_DUPLICATE_ID``, ``GIVES_PRIORITY``.

    Errs on the side of yes with the first two, without decoding: the names of such properties stand in a header as they
    are, and perhaps as other texts. A view that is not known says yes to both; its messages are read whatever else.
    """
    fragments = _TIME_FRAGMENTS.get(view_name)
    if fragments is None:
        return SETS_TIME | HAS_DUPLICATE_ID
    asked = 0
    if _COMMON_FRAGMENTS[0] in header or _COMMON_FRAGMENTS[1] in header:
        asked = HAS_DUPLICATE_ID if b"AMQ_DUPL" in header or b"x-duplicate" in header else 0
        for fragment in fragments:
            if fragment in header:
                return asked | SETS_TIME
    if VIEWS[view_name].given_priority(Message(header, b"", _NOWHERE)) >= 0:
        asked |= GIVES_PRIORITY
    return asked


class ConversionError(Exception):
    """A message cannot be made one of another protocol. Says which, where it was sent, and why."""


class Conversions:
    """Messages in the form of another protocol, the latest of them remembered."""

    def __init__(self, entries_max: int = CONVERTED_MAX, bytes_max: int = CONVERTED_BYTES_MAX) -> None:
        self.entries_max = entries_max
        self.bytes_max = bytes_max
        self.conversions = 0  # made, not found among the remembered
        self.failures = 0
        self.undecoded = 0  # of which a part was too large to be decoded, and kept its octets
        self.bytes = 0  # the memory kept alive by the remembered ones
        self.seconds = 0.0  # that they have taken since the last look at the clock
        self._remembered: dict[tuple[int, str], tuple[Message, Message, int]] = {}  # with their bytes

    def __len__(self) -> int:
        return len(self._remembered)

    def message_for(self, message: Message, view: ContentView) -> Message:
        """Return ``message`` as one of ``view``'s protocol: itself where it is one.

        Raises :class:`ConversionError` for a message that cannot be converted, which no known content is.
        """
        if message.origin.view is view:
            return message
        key = (id(message), view.name)
        known = self._remembered.get(key)
        if known is not None:  # it is this very message: the remembered ones are alive, so no other has its id
            return known[1]
        made = self._convert(message, view)
        self._remember(key, message, made)
        return made

    def limited(self, header: bytes, field_types: bytes) -> bytes:
        """Return a header of AMQP 0-x with these field types only, its time counted: a long table takes 20 ms.

        Raises:
            RemoteProtocolError: 502 when its table is malformed.
        """
        began = time.thread_time()
        try:
            return limit_field_types(header, field_types)
        finally:
            self.seconds += time.thread_time() - began

    def took_long(self) -> bool:
        """Return whether those since the last call that did took so long that a look at the clock is due."""
        if self.seconds < LOOK_SECONDS:
            return False
        self.seconds = 0.0
        return True

    def _convert(self, message: Message, view: ContentView) -> Message:
        origin = message.origin
        began = time.thread_time()
        try:
            content = origin.view.content(message)
            self.undecoded += _keeps_octets(content)
            header, body = WRITERS[view](content)
        except Exception as error:
            self.failures += 1
            text = (
                f"message of {origin.view.name} to exchange '{origin.exchange}', key '{origin.routing_key}' cannot be "
                f"converted to {view.name}: {type(error).__name__}: {error}"
            )
            if self.failures <= LOGGED_FAILURES_MAX:
                logger.exception("conversion failed", reason=text)
            raise ConversionError(text) from error
        finally:
            self.seconds += time.thread_time() - began
        self.conversions += 1
        made = Message(
            header,
            body,
            Origin(origin.exchange, origin.routing_key, origin.publisher, view, origin.connection),
            durable=message.durable,
            priority=message.priority,
            accepted_at=message.accepted_at,
            expires_at=message.expires_at,
            deliver_at=message.deliver_at,
        )
        made.record = message.record
        return made

    def _remember(self, key: tuple[int, str], message: Message, made: Message) -> None:
        size = _size_of(message, made)
        if size > self.bytes_max or self.entries_max < 1:
            return
        self._remembered[key] = (message, made, size)
        self.bytes += size
        while self.bytes > self.bytes_max or len(self._remembered) > self.entries_max:
            self.bytes -= self._remembered.pop(next(iter(self._remembered)))[2]


def _keeps_octets(content: MessageContent) -> bool:
    """Return whether a part of a message is too large to be decoded."""
    return (
        content.body_kind in _UNDECODED
        or APPLICATION_PROPERTIES_OCTETS in content.application
        or HEADERS_OCTETS in content.application
        or ANNOTATIONS_OCTETS in content.annotations
    )


def _size_of(message: Message, made: Message) -> int:
    size = len(message.header) + message.size + len(made.header)
    return size if not message.absent and made.body is message.body else size + made.size


CONVERSIONS: Final = Conversions()
"""Those of this process: all protocols share them. Metrics ``annulet_conversions_total`` and ``_failed_total``."""


def converted(message: Message, view: ContentView) -> Message:
    """Return a message as one of ``view``'s protocol, see :meth:`Conversions.message_for`."""
    return CONVERSIONS.message_for(message, view)
