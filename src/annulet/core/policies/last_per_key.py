"""Keep the last N messages of each key. Ring (constant key) and last value (N = 1 with key) are its two ends.

The ring half needs no table: a queue's order already knows its oldest entry. This module is the keyed half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.entry import KeyRecord
from annulet.core.policies.retention import Retention

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message, PropertyValue
    from annulet.core.model.entry import Key, QueueEntry


def key_of(value: PropertyValue) -> Key | None:
    """Make a key of a property value: equal only with equal type and value, so 1, 1.0, True and "1" are four keys.

    Nested values are compared by their representation. ``None`` (absent or void) is no key.
    """
    if value is None:
        return None
    if isinstance(value, (list, dict)):
        return (type(value).__name__, repr(value))
    return (type(value).__name__, value)


class KeyTable(Retention):
    """Tracks the last ``keep`` messages of each key of one queue.

    A message is superseded once ``keep`` newer messages of its key were accepted. Superseded and pending: it goes at
    once. Superseded and in delivery: it goes if it comes back, even if the newer ones have gone meanwhile.
    """

    __slots__ = ("_accepted", "_fallback", "_property", "_records", "keep")

    def __init__(self, property_name: str, keep: int, fallback: str = "") -> None:
        super().__init__(f"last-value-key={property_name}, keep-per-key={keep}")
        self._property = property_name
        self._fallback = fallback
        self._records: dict[Key, KeyRecord] = {}
        self._accepted = 0
        self.keep = keep

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[KeyRecord]:
        """Return the records of all keys, as they came."""
        return list(self._records.values())

    def key_for(self, message: Message) -> Key | None:
        """Return the key of a message, ``None`` when it carries none and so is never replaced."""
        view = message.origin.view
        value = view.application_property(message, self._property)
        if value is None and self._fallback:
            value = view.application_property(message, self._fallback)
        return key_of(value)

    def accept(self, entry: QueueEntry, *, recovering: bool = False) -> QueueEntry | None:
        """Note a message that becomes current; return the entry that it supersedes and that is still alive, if any.

        While ``recovering``, messages may come out of turn: then sequences decide which are the latest.
        """
        key = self.key_for(entry.message)
        if key is None:
            return None
        record = self._records.get(key)
        if record is None:
            record = KeyRecord(key)
            self._records[key] = record
        entry.key = record
        record.live += 1
        late = recovering and record.latest > entry.sequence
        record.latest = max(record.latest, entry.sequence)
        record.recent[entry.sequence] = entry
        if late:
            record.recent = dict(sorted(record.recent.items()))
        else:
            self._accepted += 1
            record.recency = self._accepted
        if len(record.recent) <= self.keep:
            return None
        return record.recent.pop(next(iter(record.recent)))

    def detached(self) -> KeyTable:
        """Take all keys out, as a table of their own: for a caller that removes its entries later."""
        table = KeyTable(self._property, self.keep, self._fallback)
        table._records, self._records = self._records, table._records
        return table

    def superseded(self, entry: QueueEntry) -> bool:
        """Return whether enough newer messages of its key arrived that ``entry`` must not come back."""
        record = entry.key
        return record is not None and entry.sequence not in record.recent

    def withdraw(self, entry: QueueEntry) -> None:
        """Note that an entry is replaced by another form of itself, which is accepted next."""
        record = entry.key
        if record is not None:
            record.recent.pop(entry.sequence, None)
            self.forget(entry)

    def forget(self, entry: QueueEntry) -> None:
        """Note that an entry left the queue for good."""
        record = entry.key
        if record is None:
            return
        record.live -= 1
        if entry.sequence in record.recent:
            record.recent[entry.sequence] = None
        if record.live == 0:
            del self._records[record.key]


def key_table_of(settings: QueueSettings) -> KeyTable:
    """Return the table of a keep-per-key queue."""
    return KeyTable(settings.last_value_key, settings.keep_per_key, settings.last_value_fallback)
