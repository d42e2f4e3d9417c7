"""Who may do what over bulk transfer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    AuthenticationError,
    PermissionDeniedError,
)
from tests.bulk.helpers import away, bench, bulk_client, stage_name

READER = UserDeclaration(HASHER.hash("secret"), (), {"/": PermissionDeclaration(read="^open", write="^amq.topic$")})
GUEST = UserDeclaration(HASHER.hash("guest"), (), {"/": PermissionDeclaration(".*", ".*", ".*")})


async def test_permissions(tmp_path: Path) -> None:
    users = {"ann": READER, "guest": GUEST}
    async with bench(tmp_path, users=users) as here:
        for name in ("open", "closed"):
            here.declare(name)

        def work() -> None:
            ann = bulk_client(here, user="ann", password="secret")
            ann.act(protocol.OpenBrowse(queue="open"))
            with pytest.raises(PermissionDeniedError, match="user 'ann' may not read queue 'closed'"):
                ann.act(protocol.OpenBrowse(queue="closed"))
            with pytest.raises(PermissionDeniedError, match="virtual host 'other'"):
                ann.act(protocol.OpenBrowse(queue="open", virtual_host="other"))
            guest = bulk_client(here)
            guest.act(protocol.OpenLease(queue="closed", lease="l", owner="o", fresh=True))
            view = guest.act(protocol.OpenBrowse(queue="closed"))["snapshot"]
            assert ann.act(protocol.ListLeases()) == {"leases": []}
            for request in (protocol.LeaseStatus(lease="l"), protocol.ReleaseLease(lease="l")):
                with pytest.raises(PermissionDeniedError):
                    ann.act(request)
            with pytest.raises(PermissionDeniedError):
                list(ann.get(protocol.BrowseTicket(snapshot=view, after=0, upto=0)))
            rows = pa.record_batch({"body": ["a"]})
            name = stage_name()
            ann.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows])
            with pytest.raises(PermissionDeniedError, match="may not write to exchange"):
                ann.act(protocol.CommitPublish(query="x", batch=0, stages=[name], address="open"))
            for changes in ({"password": "wrong"}, {"user": "nobody"}):
                with pytest.raises(AuthenticationError, match="login refused"):
                    bulk_client(here, **changes).act(protocol.ListLeases())

        await away(work)
        assert here.bodies("open") == []
