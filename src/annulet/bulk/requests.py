"""Executes the requests of bulk transfer. Belongs to the broker's loop; the Flight threads bridge to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from annulet.broker.connections.access import Access
from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.authentication import User
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    AuthenticationError,
    BulkError,
    InvalidRequestError,
    PermissionDeniedError,
    RefusedError,
)
from annulet.bulk.protocol.shares import check_shares, rows_of_share
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.reading.leases import LeaseManager
from annulet.bulk.reading.sequences import SequenceStore
from annulet.bulk.reading.snapshots import Bounds, SnapshotStore
from annulet.bulk.reading.waiting import first_answer
from annulet.bulk.writing.encoding import WriteDefaults
from annulet.bulk.writing.publisher import CommitRequest, Publisher
from annulet.core.base.errors import CoreError
from annulet.core.queue.statistics import lag_of

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.bulk.protocol.schema import Row
    from annulet.bulk.reading.deep_snapshots import ViewRead


PROTOCOL: Final = "bulk transfer"
"""Its name in metrics."""


class Caller:
    """The user and the place of a request. ``known``: the user with its scope, once it has logged in."""

    __slots__ = ("known", "loopback", "peer", "user")

    def __init__(self, user: str, peer: str, *, loopback: bool, known: User | None = None) -> None:
        self.user = user
        self.peer = peer
        self.loopback = loopback
        self.known = User(user) if known is None else known


class RequestHandler:
    """Checks permissions and carries requests out."""

    def __init__(
        self,
        broker: Broker,
        leases: LeaseManager,
        publisher: Publisher,
        snapshots: SnapshotStore,
        sequences: SequenceStore,
    ) -> None:
        self._broker = broker
        self._leases = leases
        self._publisher = publisher
        self._snapshots = snapshots
        self._sequences = sequences

    async def authenticate(self, name: str, password: str, caller: Caller) -> User:
        """Check a password. Returns the user; raises :class:`AuthenticationError`."""
        address, _, port = caller.peer.rpartition(":")
        peer = PeerFacts(address.strip("[]"), int(port) if port.isdigit() else 0, caller.loopback)
        user = await self._broker.authenticator.login(name, password, peer=peer, mechanism="Flight Basic")
        if user is None:
            raise AuthenticationError(
                f"login refused for user {name!r}: user name or password is wrong or was changed, or the user may "
                "connect from the broker's own machine only (loopback_users); correct them in option url, start again"
            )
        return user

    def note_limit(self, limit: str) -> None:
        """Count a request that is too large."""
        self._broker.admission.note_limits(PROTOCOL, {limit: 1})

    def note_error(self, error: BulkError, user: str, peer: str) -> None:
        """Count and log a request that was answered with an error."""
        self._broker.protocol_errors.note_request(PROTOCOL, error.code, str(error), user=user, peer=peer)

    async def act(self, request: protocol.Action, caller: Caller) -> dict[str, Any]:
        """Carry out an action and return its answer."""
        self._enter(request.virtual_host, caller)
        if isinstance(request, (protocol.CommitPublish, protocol.AbortPublish, protocol.ForgetPublish)):
            return await self._publish(request, caller)
        if isinstance(request, (protocol.PlanSequences, protocol.SplitSequences)):
            return await self._sequence(request, caller)
        if isinstance(request, (protocol.OpenLease, protocol.QueueStatus, protocol.OpenBrowse)):
            return await self._queue(request, caller)
        if isinstance(request, protocol.ListLeases):
            return {"leases": self._list(request.virtual_host, caller)}
        assert not isinstance(request, protocol.Login)
        return await self._lease(request, caller)

    async def rows(self, ticket: protocol.Ticket, caller: Caller) -> tuple[str, list[Row] | ViewRead]:
        """Return the queue's name and the rows of a ticket, or a way to read them slice by slice."""
        self._enter(ticket.virtual_host, caller)
        if isinstance(ticket, protocol.SequenceTicket):
            return ticket.queue, await self._sequence_rows(ticket, caller)
        _check_span(ticket.after, ticket.upto, ticket.skip)
        if isinstance(ticket, protocol.BrowseTicket):
            snapshot = self._snapshots.find(ticket.virtual_host, ticket.snapshot)
            self._require("read", ticket.virtual_host, snapshot.queue, caller)
            return snapshot.queue, snapshot.read(ticket.after, ticket.upto, ticket.skip)
        check_shares(ticket.share, ticket.shares)
        queue = self._leases.queue_of(ticket.virtual_host, ticket.lease)
        self._require("read", ticket.virtual_host, queue, caller)
        rows = await self._leases.fetch(
            ticket.virtual_host,
            ticket.lease,
            ticket.owner,
            ticket.after,
            ticket.upto,
            fail_on_data_loss=ticket.fail_on_data_loss,
        )
        group_key = self._leases.group_key_of(ticket.virtual_host, ticket.lease)
        return queue, rows_of_share(rows, ticket.share, ticket.shares, group_key)[ticket.skip :]

    async def following(self, ticket: protocol.Ticket, queue: str, view: ViewRead, caller: Caller) -> list[Row] | None:
        """Return the next slice of rows of a ticket, ``None`` after the last; the permission is asked for each."""
        self._require("read", ticket.virtual_host, queue, caller)
        return await view.following()

    async def check_stage(self, request: protocol.PutStage, caller: Caller) -> None:
        """Refuse a stage whose user may not open the virtual host. Its destinations are checked at the commit."""
        self._enter(request.virtual_host, caller)

    # ------------------------------------------------------------------ actions

    async def _queue(
        self, request: protocol.OpenLease | protocol.QueueStatus | protocol.OpenBrowse, caller: Caller
    ) -> dict[str, Any]:
        host = request.virtual_host
        self._require("read", host, request.queue, caller)
        if isinstance(request, protocol.OpenLease):
            wanted = LeaseRequest(
                host=host,
                name=request.lease,
                queue=request.queue,
                owner=request.owner,
                fresh=request.fresh,
                position=request.position,
                generated=request.generated,
                on_existing=request.on_existing,
                fail_on_data_loss=request.fail_on_data_loss,
            )
            opened = dict(await self._leases.open(wanted))
            self._leases.note_user(host, request.lease, caller.known)
            return opened
        queue = self._leases.queue(host, request.queue)
        if isinstance(request, protocol.OpenBrowse):
            try:
                bounds = Bounds(request.first, request.last, request.accepted_from, request.accepted_upto)
                snapshot, rows = self._snapshots.take(host, queue, request.selector, bounds)
            except CoreError as error:
                raise RefusedError(str(error)) from error
            after, upto = self._snapshots.find(host, snapshot).places
            return {"snapshot": snapshot, "rows": rows, "after": after, "upto": upto}
        last = queue.visible_end - 1
        lag = lag_of(queue, self._broker.clock())
        return {"last_sequence": last, "pending": queue.shown_count(), "lag_milliseconds": lag}

    async def _sequence(
        self, request: protocol.PlanSequences | protocol.SplitSequences, caller: Caller
    ) -> dict[str, Any]:
        self._require("read", request.virtual_host, request.queue, caller)
        if isinstance(request, protocol.PlanSequences):
            queue = self._leases.queue(request.virtual_host, request.queue)
            return await first_answer(
                queue,
                request.wait_milliseconds,
                lambda: self._sequences.plan(request),
                lambda answer: "rows" in answer,
                lambda: self._broker.stopping,
            )
        _check_span(request.after, request.upto, 0)
        check_shares(0, request.parts)
        return await self._sequences.split(request)

    async def _sequence_rows(self, ticket: protocol.SequenceTicket, caller: Caller) -> list[Row]:
        self._require("read", ticket.virtual_host, ticket.queue, caller)
        _check_span(ticket.after, ticket.upto, 0)
        check_shares(ticket.share, ticket.shares)
        rows = await self._sequences.fetch(ticket)
        group_key = self._leases.queue(ticket.virtual_host, ticket.queue).settings.group_key
        shared = rows_of_share(rows, ticket.share, ticket.shares, group_key)
        return [row for row in shared if row.position > ticket.received]

    async def _lease(
        self,
        request: protocol.ExtendLease
        | protocol.AcknowledgeLease
        | protocol.RejectPositions
        | protocol.RenewLease
        | protocol.ReleaseLease
        | protocol.LeaseStatus,
        caller: Caller,
    ) -> dict[str, Any]:
        host, name = request.virtual_host, request.lease
        self._require("read", host, self._leases.queue_of(host, name), caller)
        self._leases.note_user(host, name, caller.known)
        if isinstance(request, protocol.ExtendLease):
            return await self._extend(request)
        if isinstance(request, protocol.AcknowledgeLease):
            await self._leases.acknowledge(host, name, request.generation, request.upto)
            return {}
        if isinstance(request, protocol.RejectPositions):
            return {"rejected": await self._leases.reject(host, name, request.positions)}
        if isinstance(request, protocol.RenewLease):
            self._leases.renew(host, name, request.generation)
            return {}
        if isinstance(request, protocol.ReleaseLease):
            return {"returned": await self._leases.release(host, name)}
        return self._leases.status(host, name)

    async def _extend(self, request: protocol.ExtendLease) -> dict[str, Any]:
        host, name = request.virtual_host, request.lease

        async def extend() -> dict[str, Any]:
            end = await self._leases.extend(
                host,
                name,
                request.generation,
                request.start,
                messages_max=request.messages_max,
                bytes_max=request.bytes_max,
                last_sequence=request.last_sequence,
                selector=request.selector,
                fail_on_data_loss=request.fail_on_data_loss,
            )
            return {"position": end, "looking": self._leases.looking(host, name, request.last_sequence)}

        queue = self._leases.queue(host, self._leases.queue_of(host, name))
        return await first_answer(
            queue,
            request.wait_milliseconds,
            extend,
            lambda answer: answer["looking"] or answer["position"] > request.start,
            lambda: self._broker.stopping,
        )

    async def _publish(
        self, request: protocol.CommitPublish | protocol.AbortPublish | protocol.ForgetPublish, caller: Caller
    ) -> dict[str, Any]:
        query = protocol.scoped(request.virtual_host, caller.user, request.query)
        former = protocol.scoped_before(request.virtual_host, request.query)
        if isinstance(request, protocol.AbortPublish):
            await self._publisher.abort(query, request.stages)
            return {}
        if isinstance(request, protocol.ForgetPublish):
            self._publisher.forget(query, former)
            return {}
        if not 0 <= request.batch <= protocol.BATCH_MAX:
            raise InvalidRequestError(f"batch {request.batch} is not a batch id")
        if not request.stages:  # it would mark a batch as published without asking for any permission to write
            raise InvalidRequestError("stages: a commit names one stage at least; a batch without rows needs no commit")
        host = request.virtual_host
        commit = CommitRequest(
            host=host,
            query=query,
            former=former,
            batch=request.batch,
            stages=tuple(request.stages),
            defaults=WriteDefaults(request.address, request.exchange, request.routing_key, request.persistent),
            mandatory=request.mandatory,
            publisher=f"{caller.user}@{caller.peer}",
        )
        access = self._enter(host, caller)
        return dict(await self._publisher.commit(commit, lambda exchange: access.allowed("write", exchange)))

    def _list(self, host: str, caller: Caller) -> list[dict[str, object]]:
        access = self._enter(host, caller)
        return [lease for lease in self._leases.statistics(host) if access.allowed("read", str(lease["queue"]))]

    # ------------------------------------------------------------------ permissions

    def _enter(self, host: str, caller: Caller) -> Access:
        """Return the caller's access to a virtual host. A call belongs to no connection that could own queues."""
        broker = self._broker
        if broker.authenticator.current(caller.known) is None:
            raise AuthenticationError(f"user {caller.user!r} or its token is gone; log in again")
        if host not in broker.hosts or not broker.authenticator.admits(caller.known, host):
            raise PermissionDeniedError(f"user {caller.user!r} may not use virtual host {host!r}, or it does not exist")
        return Access(broker.authenticator, broker.catalogue, broker.hosts[host], caller.user, user=caller.known)

    def _require(self, kind: Literal["read", "write"], host: str, queue: str, caller: Caller) -> None:
        if not self._enter(host, caller).allowed(kind, queue):
            raise PermissionDeniedError(f"user {caller.user!r} may not {kind} queue {queue!r} in virtual host {host!r}")


def _check_span(after: int, upto: int, skip: int) -> None:
    if after < 0 or upto < after or skip < 0:
        raise InvalidRequestError(f"positions ({after}, {upto}] without the first {skip} rows are not a range")
