"""Options of ``format("annulet")``: names, defaults, and errors that name the option, its value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from annulet.bulk.client import RETRY_SECONDS
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.schema import COLUMNS, select_columns
from annulet.bulk.protocol.url import EXAMPLE, BulkUrl, parse_url

MESSAGES_PER_TRIGGER: Final = 10_000
"""Rows of a micro-batch: large enough that Spark's fixed cost per batch is small, small enough to recompute gladly."""

BYTES_PER_TRIGGER: Final = 64 * 1024 * 1024
"""Body bytes of a micro-batch, so that large bodies do not make huge batches."""

PARTITIONS: Final = 2
"""Tasks a batch is split into. Each costs a Python worker; two keep two cores busy."""
PARTITIONS_MAX: Final = 10_000

READ_OPTIONS: Final = (
    "url",
    "queue",
    "lease",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "partitions",
    "failOnDataLoss",
    "onExistingLease",
    "includeBody",
    "includeHeaders",
    "columns",
    "pushdown",
    "partitionBy",
    "selector",
    "nonDestructive",
    "retrySeconds",
)
WRITE_OPTIONS: Final = (
    "url",
    "address",
    "exchange",
    "routingKey",
    "persistent",
    "mandatory",
    "writeId",
    "rejectFrom",
    "writeBatch",
    "timestampsWithoutZone",
    "retrySeconds",
)
SPARK_OPTIONS: Final = frozenset(
    ("path", "checkpointlocation", "queryname", "mergeschema", "asyncprogresstrackingenabled", "outputmode", "truncate")
)
"""Options that Spark itself adds, lower case."""

ON_EXISTING: Final = ("fail", "resume", "release")
BY_POSITION: Final = "position"
BY_GROUP: Final = "group"


class OptionError(InvalidRequestError):
    """An option is unknown, missing or has an impossible value."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. ``lease`` of ``None`` mints a name that lives in the checkpoint."""

    url: BulkUrl
    queue: str
    lease: str | None
    messages_max: int
    bytes_max: int
    partitions: int
    fail_on_data_loss: bool
    on_existing: str
    columns: tuple[str, ...]
    pushdown: bool
    by_group: bool
    selector: str
    non_destructive: bool
    retry_seconds: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Check and read all options. Raises :class:`OptionError`."""
        given = _Given(options, READ_OPTIONS, "read")
        on_existing = given.text("onExistingLease") or "fail"
        if on_existing not in ON_EXISTING:
            raise OptionError(f"option onExistingLease: {on_existing!r} is unknown; choose {', '.join(ON_EXISTING)}")
        partition_by = given.text("partitionBy") or BY_POSITION
        if partition_by not in (BY_POSITION, BY_GROUP):
            raise OptionError(f"option partitionBy: {partition_by!r} is unknown; choose {BY_POSITION} or {BY_GROUP}")
        return cls(
            url=given.url(),
            queue=given.required("queue", "the queue to read"),
            lease=given.text("lease"),
            messages_max=given.number("maxMessagesPerTrigger", MESSAGES_PER_TRIGGER, 1),
            bytes_max=given.number("maxBytesPerTrigger", BYTES_PER_TRIGGER, 1),
            partitions=given.number("partitions", PARTITIONS, 1, PARTITIONS_MAX),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            on_existing=on_existing,
            columns=_columns(given),
            pushdown=given.flag("pushdown", default=False),
            by_group=partition_by == BY_GROUP,
            selector=given.text("selector") or "",
            non_destructive=given.flag("nonDestructive", default=False),
            retry_seconds=float(given.number("retrySeconds", int(RETRY_SECONDS), 0)),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write. ``address`` and ``exchange`` win over the columns of the same names.

    ``write_batch`` numbers the batches of one ``write_id``: those not above the highest published one are done.
    """

    url: BulkUrl
    address: str | None
    exchange: str | None
    routing_key: str | None
    persistent: bool
    mandatory: bool
    write_id: str | None
    reject_from: str | None  # a lease: the rows are positions of it that are rejected
    write_batch: int
    naive_as_utc: bool  # times without a zone are those of UTC
    retry_seconds: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check and read all options. Raises :class:`OptionError`."""
        given = _Given(options, WRITE_OPTIONS, "write")
        if given.flag("asyncProgressTrackingEnabled", default=False):
            raise OptionError(
                "option asyncProgressTrackingEnabled: this sink and source are exactly once because Spark writes "
                "its logs "
                "before it goes on; with asynchronous progress it does not. Leave the option out"
            )
        address, exchange = given.text("address"), given.text("exchange", empty=True)
        if address is not None and exchange is not None:
            raise OptionError("options address and exchange exclude each other: an address is a queue or an exchange")
        write_id = given.text("writeId")
        if write_id is None and given.text("writeBatch") is not None:
            raise OptionError("option writeBatch numbers the batches of a writeId, which is missing; add it")
        return cls(
            url=given.url(),
            address=address,
            exchange=exchange,
            routing_key=given.text("routingKey", empty=True),
            persistent=given.flag("persistent", default=True),
            mandatory=given.flag("mandatory", default=True),
            reject_from=given.text("rejectFrom"),
            write_id=write_id,
            write_batch=given.number("writeBatch", 0, 0),
            naive_as_utc=given.choice("timestampsWithoutZone", "refuse", ("refuse", "utc")) == "utc",
            retry_seconds=float(given.number("retrySeconds", int(RETRY_SECONDS), 0)),
        )


def _columns(given: _Given) -> tuple[str, ...]:
    """Return the columns of a read, in their order. Raises :class:`OptionError`."""
    without = {
        column
        for option, column in (("includeBody", "body"), ("includeHeaders", "properties"))
        if not given.flag(option, default=True)
    }
    text = given.text("columns")
    if text is None:
        return tuple(name for name in COLUMNS if name not in without)
    names = [name.strip() for name in text.split(",")]
    try:
        select_columns(names)
    except InvalidRequestError as error:
        raise OptionError(f"option columns: {error}") from error
    for name in without.intersection(names):
        raise OptionError(f"option columns names {name!r}, which another option leaves out; leave one of them out")
    return tuple(names)


class _Given:
    """The options as Spark hands them over: names in any case, values text."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name in names or name in SPARK_OPTIONS or name.startswith("asyncprogresstracking"):
                continue
            other = READ_OPTIONS if what == "write" else WRITE_OPTIONS
            if name in {option.lower() for option in other}:
                raise OptionError(f"option {name!r} does not belong to a {what}; its options are {', '.join(known)}")
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {names[near[0]]!r}?" if near else f"the options of a {what} are {', '.join(known)}"
            raise OptionError(f"option {name!r} is unknown; {hint}")

    def text(self, name: str, *, empty: bool = False) -> str | None:
        value = self._values.get(name.lower())
        if value == "" and not empty:
            raise OptionError(f"option {name}: the value is empty; leave the option out instead")
        return value

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if value is None:
            raise OptionError(f'option {name} is missing: {what}; add .option("{name}", ...)')
        return value

    def url(self) -> BulkUrl:
        return parse_url(self.required("url", f"the broker's address, {EXAMPLE}"))

    def number(self, name: str, default: int, least: int, most: int = 2**63 - 1) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise OptionError(f"option {name}: {text!r} is not a whole number") from None
        if not least <= value <= most:
            limit = f"at least {least}" if most == 2**63 - 1 else f"{least} to {most}"
            raise OptionError(f"option {name}: {value} is out of range; give {limit}")
        return value

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in allowed:
            raise OptionError(f"option {name}: {text!r} is unknown; it is {' or '.join(allowed)}")
        return text

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"option {name}: {text!r} is neither true nor false")
        return text.lower() == "true"
