"""Octets in headers survive a way through Spark (issue 30, C31)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from annulet.bulk.protocol import protocol
from annulet.wire.amqp091.messages.properties import decode_properties
from tests.bulk.helpers import away, bench, bulk_client, stage_name


async def test_octets_of_a_header_are_octets_after_a_copy(tmp_path: Path) -> None:
    """C31: they were read as text with escapes, and written as that text."""
    octets = bytes(range(256))
    async with bench(tmp_path) as here:
        for queue in ("from", "to"):
            here.declare(queue)
        await here.publish("from", [b"a"], headers={"signature": octets, "text": "caf\u00e9", "number": 7})

        def copy() -> None:
            client = bulk_client(here)
            view = client.act(protocol.OpenBrowse(queue="from"))
            ticket = protocol.BrowseTicket(
                snapshot=view["snapshot"], after=view["after"], upto=view["upto"], columns=["body", "properties"]
            )
            rows = pa.Table.from_batches(list(client.get(ticket))).combine_chunks().to_batches()
            name = stage_name()
            client.put(protocol.PutStage(query="x", stage=name), rows[0].schema, rows)
            client.act(protocol.CommitPublish(query="x", batch=0, stages=[name], address="to"))

        await away(copy)
        (entry,) = here.host.queues["to"].browse()
        headers = decode_properties(entry.message.header).headers
        assert headers == {"signature": octets, "text": "caf\u00e9", "number": "7"}
