"""Long readers of an archive: their files stay, and those of dead readers go."""

from __future__ import annotations

import os
import time
from pathlib import Path

from annulet.spark.archive.holding import DEAD_SECONDS, held, held_since
from annulet.spark.archive.maintenance import Upkeep, expire, vacuum
from annulet.spark.archive.table import Table
from tests.spark.archive.test_maintenance import NOW, Clock, table_of

OLD = "date=2023-11-11/address=a/x"


def test_what_a_living_reader_may_read_is_not_deleted(tmp_path: Path) -> None:
    clock = Clock()
    table = table_of(tmp_path, clock, [OLD, "date=2023-11-14/address=a/x"])
    upkeep = Upkeep(keep_days=1, grace_seconds=60)
    with held(table) as first:
        os.utime(first, (NOW / 1000, NOW / 1000))  # by the table's clock
        clock.now = NOW + 1
        expire(table, upkeep)
        clock.now = NOW + 70_000
        with held(table) as second:
            os.utime(second, (clock.now / 1000, clock.now / 1000))
            assert held_since(table) == NOW
            assert vacuum(table, upkeep) == 0
        clock.now = NOW + int(DEAD_SECONDS * 1000) + 1  # it was not renewed since
        assert vacuum(table, upkeep) == 1
        assert (held_since(table), first.exists()) == (None, False)
    assert not (tmp_path / OLD).exists()


def test_a_reader_renews_its_file_until_it_ends(tmp_path: Path) -> None:
    table = Table(tmp_path)
    with held(table, renew_seconds=0.001) as file:
        os.utime(file, (0, 0))
        while file.stat().st_mtime == 0:
            time.sleep(0.001)
        assert held_since(table) is not None
    assert list((table.inside / "readers").iterdir()) == []
