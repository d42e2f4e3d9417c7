"""``/api/v1/virtual-hosts``."""

from __future__ import annotations

import pytest

from annulet.admin.resources import access_changes
from tests.admin.conftest import Site


async def test_one_is_made_described_listed_and_deleted(site: Site) -> None:
    body = {"description": "of the shop", "tags": ["a"], "limits": {"max-queues": 5}}
    status, made = await site.send("PUT", "/api/v1/virtual-hosts/shop", body)
    wanted = {"name": "shop", **body, "deleting": False, "queues": 0, "connections": 0}
    assert (status, made) == (201, wanted)
    assert (await site.send("PUT", "/api/v1/virtual-hosts/shop", {"tags": []}))[1] == {**wanted, "tags": []}
    listed = (await site.send("GET", "/api/v1/virtual-hosts?name=sh"))[1]["items"]
    assert [host["description"] for host in listed] == ["of the shop"]
    assert site.broker.hosts["shop"].queues_max == 5
    assert await site.send("DELETE", "/api/v1/virtual-hosts/shop") == (200, {"name": "shop", "deleted": True})
    assert (await site.refused("GET", "/api/v1/virtual-hosts/shop"))[0] == 404


async def test_a_long_deletion_goes_on_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_changes, "DELETION_SECONDS", 0.0)
    await site.send("PUT", "/api/v1/virtual-hosts/shop", {})
    assert await site.send("DELETE", "/api/v1/virtual-hosts/shop") == (202, {"name": "shop", "deleted": False})


async def test_users_see_those_they_may_enter(site: Site) -> None:
    listed = (await site.send("GET", "/api/v1/virtual-hosts", user="manager:pass"))[1]["items"]
    assert [host["name"] for host in listed] == ["other"]
    assert (await site.refused("GET", "/api/v1/virtual-hosts/%2F", user="manager:pass"))[0] == 404
    assert (await site.refused("PUT", "/api/v1/virtual-hosts/mine", {}, user="manager:pass"))[0] == 403
    assert (await site.refused("DELETE", "/api/v1/virtual-hosts/other", user="manager:pass"))[0] == 403


async def test_the_file_keeps_its_own(site: Site) -> None:
    status, reason = await site.refused("DELETE", "/api/v1/virtual-hosts/other")
    assert (status, "permissions of user 'manager' in virtual host 'other'" in reason) == (409, True)


async def test_the_maker_may_enter_unless_it_is_the_files(site: Site) -> None:
    await site.send("PUT", "/api/v1/users/ann", {"tags": ["administrator"], "password": "secret"})
    await site.send("PUT", "/api/v1/virtual-hosts/hers", {}, user="ann:secret")
    await site.send("PUT", "/api/v1/virtual-hosts/his", {})
    assert site.broker.authenticator.may_enter("ann", "hers")
    assert not site.broker.authenticator.may_enter("guest", "his")


async def test_wrong_requests(site: Site) -> None:
    for body, words in (({"tag": []}, "did you mean 'tags'"), ({"limits": {"max-channels": 1}}, "is unknown")):
        assert words in (await site.refused("PUT", "/api/v1/virtual-hosts/shop", body))[1]
    assert (await site.refused("GET", "/api/v1/virtual-hosts/a/b"))[0] == 404
