from __future__ import annotations

import pytest

from annulet.broker.operation.queue_inspection import fair_keys_of, groups_of, kept_keys_of, key_text
from annulet.core.base.errors import PreconditionFailed
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def test_each_names_the_setting_that_is_missing(site: Site) -> None:
    queue = site.queue("plain")
    for function, setting in ((groups_of, "group-mode"), (fair_keys_of, "fair-key"), (kept_keys_of, "last-value-key")):
        with pytest.raises(PreconditionFailed, match=f"queue 'plain' .*{setting} is not set"):
            list(function(queue))


def test_keys_as_text() -> None:
    assert (key_text(("int", 1)), key_text(("str", "a"))) == ("1", "a")
