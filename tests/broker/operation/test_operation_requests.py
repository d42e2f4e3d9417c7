"""Operations as they are asked for: permissions first, then the fields, then what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.connections.access import Access
from annulet.broker.operation.operation_requests import CHANGES, FIND, TAKES, OperationRequests
from annulet.broker.operation.undo_window import UNDONE_OPERATIONS
from annulet.core.base.errors import AccessRefused, CoreError
from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import PASSWORD_HASH, Site, site

__all__ = ["site"]


def test_every_change_takes_a_rate_and_says_whether_it_is_undone() -> None:
    assert set(CHANGES) == set(TAKES) - {FIND}
    assert all({"rate", "undo"} <= set(TAKES[name]) for name in CHANGES)


@pytest.mark.parametrize(
    ("browse", "manage", "write", "allowed"),
    [
        ("", "^shop$", "", {"delete", "purge", "expire", "cancel-scheduled", "deliver-now", "change-priority"}),
        ("^shop$", "", "", {"find"}),
        ("^shop$", "^shop$", "", {"find", "delete"}),
        ("^shop$", "^shop$", "^other$", {"find", "delete", "move", "copy"}),
        ("^shop$", "", "^other$", {"find"}),
        ("", "^shop$", ".*", {"delete", "retry"}),
    ],
)
async def test_permissions(site: Site, browse: str, manage: str, write: str, allowed: set[str]) -> None:
    queue, host = site.queue("shop"), site.broker.hosts["/"]
    site.queue("other")
    site.broker.access_directory.set_user("ann", [], password_hash=PASSWORD_HASH)
    record = PermissionRecord("ann", "/", "", write, "", browse=browse, manage=manage)
    site.broker.access_directory.set_permission(record)
    access = Access(site.broker.authenticator, site.broker.catalogue, host, "ann")
    requests = OperationRequests(host, site.broker.undo)
    for name in ("find", "delete", "move", "copy", "retry"):
        given = {"destination": "other"} if name in {"move", "copy"} else {}
        try:
            requests.require(access, queue, name, given)
        except AccessRefused:
            assert name not in allowed
        else:
            assert name in allowed


@pytest.mark.parametrize("name", sorted(TAKES))
async def test_each_operation_is_built_and_ends(site: Site, name: str) -> None:
    queue, host = site.queue("shop", dead_letter_exchange="", dead_letter_routing_key="dead"), site.broker.hosts["/"]
    for other in ("other", "dead"):
        site.queue(other)
    site.publish("shop", b"x")
    given: dict[str, Any] = {} if name == "purge" else {"everything": True, "limit": 5}
    given |= {"destination": "other"} if name in {"move", "copy"} else {}
    given |= {"priority": 7} if name == "change-priority" else {}
    requests = OperationRequests(host, site.broker.undo)
    operation = requests.build(queue, name, given, user="ann", now=site.clock())
    requests.keep(operation, given)
    while not operation.step(site.clock()):
        pass
    assert operation.state == "finished"
    kept = UNDONE_OPERATIONS - {"expire"}  # of expired messages the exchange has copies
    assert (operation.action.keeper is not None) == (name in kept)


async def test_what_goes_to_an_expiry_address_is_not_kept_as_well(site: Site) -> None:
    queue = site.queue("shop", expiry_address="late")
    site.queue("late")
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    operation = requests.build(queue, "expire", {"everything": True}, user="ann", now=site.clock())
    requests.keep(operation, {"everything": True})
    assert operation.action.keeper is None


async def test_a_selection_is_given_in_one_way(site: Site) -> None:
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    with pytest.raises(CoreError, match="exactly one way"):
        requests.build(site.queue("shop"), "delete", {"text": "x"}, user="ann", now=site.clock())
