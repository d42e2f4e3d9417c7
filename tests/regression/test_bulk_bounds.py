"""What one user, and a stranger, may take of the broker by bulk transfer (issue 30, A7)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from annulet.broker.limits import Limits
from annulet.bulk import protocol
from annulet.bulk.errors import InvalidRequestError
from tests.bulk.helpers import away, bench, bulk_client, stage_name

MEBIBYTE = 2**20


async def test_stages_of_one_user_are_bounded_and_counted(tmp_path: Path) -> None:
    """A7: the stages of one user filled the disk."""
    async with bench(tmp_path, limits=Limits(max_stage_bytes_per_user=2 * MEBIBYTE)) as here:
        here.declare("q")
        rows = pa.record_batch({"body": [b"x" * (MEBIBYTE - 100)]})

        def work() -> None:
            client = bulk_client(here)
            for _ in range(2):
                client.put(protocol.PutStage(query="x", stage=stage_name()), rows.schema, [rows])
            with pytest.raises(InvalidRequestError, match="max_stage_bytes_per_user"):
                client.put(protocol.PutStage(query="x", stage=stage_name()), rows.schema, [rows])

        await away(work)
        assert here.broker.staged.figures() == (2, 2 * rows.nbytes)
        assert here.broker.admission.limit_hits["bulk transfer", "max_stage_bytes_per_user"] == 1
