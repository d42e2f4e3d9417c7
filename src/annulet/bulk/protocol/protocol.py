"""The requests of bulk transfer: JSON bodies of Flight actions, tickets and put descriptors. Shared by client and
server.

Every request names its virtual host. Positions and sequences are 64-bit integers, times milliseconds since 1970.
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import quote

import msgspec

BATCH_MAX: Final = 2**63 - 1
ANY: Final = -1
"""The one spelling of "no limit"."""
END_OF_STAGE: Final = b"end"
"""Metadata of the last message of a stage's stream: without it the stream was cut and is no stage."""


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The common fields of all requests."""

    virtual_host: str = "/"


class Login(Request, tag="login"):
    """Exchange ``Authorization: Basic`` for a bearer token."""


class OpenLease(Request, tag="lease.open"):
    """Create or find a lease; see ``LeaseRequest``."""

    queue: str
    lease: str
    owner: str
    fresh: bool
    position: int = 0
    generated: bool = False
    on_existing: Literal["fail", "resume", "release"] = "fail"
    fail_on_data_loss: bool = True


class ExtendLease(Request, tag="lease.extend"):
    """Acknowledge up to ``start`` and offer positions above it, of messages that match ``selector`` if it is given.

    If there are none, the answer waits for one for up to ``wait_milliseconds``.
    """

    lease: str
    generation: int
    start: int
    messages_max: int = ANY
    bytes_max: int = ANY
    last_sequence: int = ANY
    selector: str = ""
    fail_on_data_loss: bool = True
    wait_milliseconds: int = 0


class AcknowledgeLease(Request, tag="lease.ack"):
    """Everything up to ``upto`` is done."""

    lease: str
    generation: int
    upto: int


class RejectPositions(Request, tag="lease.reject"):
    """Have positions rejected instead of acknowledged when they are done."""

    lease: str
    positions: list[int]


class RenewLease(Request, tag="lease.renew"):
    """Keep an idle lease."""

    lease: str
    generation: int


class ReleaseLease(Request, tag="lease.release"):
    """End a lease and return its messages."""

    lease: str


class LeaseStatus(Request, tag="lease.status"):
    """Describe a lease. Versions add fields to the answer: ``lag_milliseconds`` exists since 0.4.0."""

    lease: str


class ListLeases(Request, tag="lease.list"):
    """Describe all leases of the virtual host that the user may read."""


class QueueStatus(Request, tag="queue.status"):
    """Tell a queue's depth, how long the oldest of it has waited, and the highest sequence number."""

    queue: str


class OpenBrowse(Request, tag="browse.open"):
    """Take a point-in-time view of a queue, of the messages that match a JMS selector if there is one.

    Only of those with sequence numbers ``first`` to ``last`` that were accepted from ``accepted_from`` to
    ``accepted_upto`` (milliseconds since 1970).
    """

    queue: str
    selector: str = ""
    first: int = 0
    last: int = BATCH_MAX
    accepted_from: int = 0
    accepted_upto: int = BATCH_MAX


class SequenceRequest(Request, kw_only=True):
    """The common fields of a non-destructive stream: its owner, and the meaning of its checkpoint's numbers.

    ``reader`` is minted by each run. ``incarnation`` and ``boot`` are the broker's own words of an earlier answer, kept
    in the checkpoint, empty in a new one; up to ``safe`` the numbers outlive a restart of the broker.
    """

    queue: str
    reader: str
    incarnation: str = ""
    boot: str = ""
    safe: int = 0
    selector: str = ""
    fail_on_data_loss: bool = True


class PlanSequences(SequenceRequest, tag="sequence.plan", kw_only=True):
    """Plan the batch behind the sequence number ``start``, -1 for a checkpoint without one, up to ``last_sequence``.

    If there is nothing, the answer waits for a message for up to ``wait_milliseconds``.
    """

    start: int
    messages_max: int = ANY
    bytes_max: int = ANY
    last_sequence: int = ANY
    wait_milliseconds: int = 0


class SplitSequences(SequenceRequest, tag="sequence.split", kw_only=True):
    """Split the planned batch ``(after, upto]`` of ``rows`` rows into at most ``parts`` ranges."""

    after: int
    upto: int
    rows: int
    parts: int = 1


class CommitPublish(Request, tag="publish.commit"):
    """Publish the named stages of a batch, in this order. Answered when it is on disk; it is not visible before."""

    query: str
    batch: int
    stages: list[str]
    address: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    persistent: bool = True
    mandatory: bool = True


class AbortPublish(Request, tag="publish.abort"):
    """Drop stages."""

    query: str
    stages: list[str]


class ForgetPublish(Request, tag="publish.forget"):
    """The query id will not be used again."""

    query: str


Action = (
    Login
    | OpenLease
    | ExtendLease
    | AcknowledgeLease
    | RejectPositions
    | RenewLease
    | ReleaseLease
    | LeaseStatus
    | ListLeases
    | QueueStatus
    | OpenBrowse
    | PlanSequences
    | SplitSequences
    | CommitPublish
    | AbortPublish
    | ForgetPublish
)


class FetchTicket(Request, tag="fetch"):
    """Read the positions ``(after, upto]`` of a lease, without the first ``skip`` rows.

    Of ``shares`` above 1 only the rows of number ``share`` (from 0): those of its groups.
    """

    lease: str
    owner: str
    after: int
    upto: int
    skip: int = 0
    share: int = 0
    shares: int = 1
    columns: list[str] | None = None
    fail_on_data_loss: bool = True


class BrowseTicket(Request, tag="browse"):
    """Read the places ``(after, upto]`` of a point-in-time view, without the first ``skip`` rows.

    If its places are sequences, each batch has the place of its last row, after which a read may continue.
    """

    snapshot: str
    after: int
    upto: int
    skip: int = 0
    columns: list[str] | None = None


class SequenceTicket(SequenceRequest, tag="sequences", kw_only=True):
    """Read the messages ``(after, upto]`` of a non-destructive stream, which were ``rows`` when they were split.

    Without those up to number ``received``: after a restart of the broker there may be fewer than the client has seen,
    so they cannot be counted. Of ``shares`` above 1 only the rows of number ``share`` (from 0).
    """

    after: int
    upto: int
    rows: int
    received: int = 0
    share: int = 0
    shares: int = 1
    columns: list[str] | None = None


Ticket = FetchTicket | BrowseTicket | SequenceTicket


class PutStage(Request, tag="stage"):
    """Write a stage; ``stage`` is ``batch-partition-attempt-nonce``."""

    query: str
    stage: str


def scoped(virtual_host: str, user: str, query: str) -> str:
    """Return the name under which stages and marks of a query are kept: query ids belong to a user and a virtual host.

    A ``writeId`` is the user's text; the same one of another user, or in another virtual host, is another write. Empty
    stays empty. The quoted parts contain neither ``@`` nor ``/``, so no two triples share a name.
    """
    return f"{quote(user, safe='')}@{quote(virtual_host, safe='')}/{query}" if query else ""


def scoped_before(virtual_host: str, query: str) -> str:
    """Return the name that versions before 0.4.0 kept marks under, without a user.

    Such marks are read, so that a batch published before an upgrade is not published again after it. They are not
    written any more.
    """
    return f"{quote(virtual_host, safe='')}/{query}" if query else ""


def owner_of(scoped_query: str) -> str:
    """Return the user part of a name made by :func:`scoped`; empty when it has none."""
    user, mark, _ = scoped_query.partition("@")
    return user if mark else ""


def tag_of(request: Request) -> str:
    """Return the name of a request: its action type."""
    tag = request.__struct_config__.tag
    assert isinstance(tag, str)
    return tag
