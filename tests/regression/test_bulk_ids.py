"""Ids of Spark queries belong to their user (issue 30, A7)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import NotFoundError, PermissionDeniedError
from tests.bulk.helpers import away, bench, bulk_client, stage_name

NOTHING = UserDeclaration(HASHER.hash("secret"), (), {"/": PermissionDeclaration()})
GUEST = UserDeclaration(HASHER.hash("guest"), (), {"/": PermissionDeclaration(".*", ".*", ".*")})
USERS = {"eve": NOTHING, "guest": GUEST}


def _publish(client: BulkClient, query: str, batch: int, bodies: list[str]) -> dict[str, int]:
    rows = pa.record_batch({"body": pa.array(bodies, pa.string())})
    name = f"{batch}{stage_name()[1:]}"
    client.put(protocol.PutStage(query=query, stage=name), rows.schema, [rows])
    return client.act(protocol.CommitPublish(query=query, batch=batch, stages=[name], address="q"))


async def test_a_user_without_permission_cannot_have_later_batches_dropped(tmp_path: Path) -> None:
    """A7: a commit of no rows by a user without any permission marked a later batch as published."""
    async with bench(tmp_path, users=USERS) as here:
        here.declare("q")

        def work() -> None:
            guest, eve = bulk_client(here), bulk_client(here, user="eve", password="secret")
            assert _publish(guest, "query", 0, ["a"])["messages"] == 1
            assert _publish(eve, "query", 1_000_000, []) == {"messages": 0, "unroutable": 0, "repeated": 0}
            with pytest.raises(PermissionDeniedError):
                _publish(eve, "query", 1_000_000, ["x"])
            assert _publish(guest, "query", 1, ["b"]) == {"messages": 1, "unroutable": 0, "repeated": 0}

        await away(work)
        assert here.bodies("q") == [b"a", b"b"]


async def test_a_user_without_permission_cannot_have_a_batch_published_twice(tmp_path: Path) -> None:
    """A7: any user who knew the id could delete the mark of what was published, or the stages of a batch under way."""
    async with bench(tmp_path, users=USERS) as here:
        here.declare("q")

        def work() -> None:
            guest, eve = bulk_client(here), bulk_client(here, user="eve", password="secret")
            assert _publish(guest, "query", 0, ["a"])["messages"] == 1
            eve.act(protocol.ForgetPublish(query="query"))
            assert _publish(guest, "query", 0, ["a"])["repeated"] == 1
            rows, name = pa.record_batch({"body": ["b"]}), f"1{stage_name()[1:]}"
            guest.put(protocol.PutStage(query="query", stage=name), rows.schema, [rows])
            eve.act(protocol.AbortPublish(query="query", stages=[name]))
            with pytest.raises(NotFoundError):
                eve.act(protocol.CommitPublish(query="query", batch=1, stages=[name], address="q"))
            commit = protocol.CommitPublish(query="query", batch=1, stages=[name], address="q")
            assert guest.act(commit)["messages"] == 1

        await away(work)
        assert here.bodies("q") == [b"a", b"b"]


async def test_two_users_may_have_the_same_write_id(tmp_path: Path) -> None:
    """A7, a brother: the ``writeId`` of one user made the write of another one with it publish nothing."""
    both = {**USERS, "ann": UserDeclaration(HASHER.hash("secret"), (), {"/": PermissionDeclaration(".*", ".*", ".*")})}
    async with bench(tmp_path, users=both) as here:
        here.declare("q")

        def work() -> None:
            guest, ann = bulk_client(here), bulk_client(here, user="ann", password="secret")
            assert _publish(guest, "write:nightly", 0, ["a"])["messages"] == 1
            assert _publish(ann, "write:nightly", 0, ["b"])["messages"] == 1
            assert _publish(ann, "write:nightly", 0, ["b"])["repeated"] == 1

        await away(work)
        assert here.bodies("q") == [b"a", b"b"]
