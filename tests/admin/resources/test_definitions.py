"""``/api/v1/definitions``."""

from __future__ import annotations

from annulet.broker.security.tokens import TokenScope
from tests.admin.conftest import Site

PATH = "/api/v1/definitions"
DOCUMENT = {"queues": [{"name": "made", "arguments": {"x-max-length": 5}}]}


async def test_a_plan_changes_nothing_and_an_application_is_audited(site: Site) -> None:
    status, plan = await site.send("POST", f"{PATH}?plan=true", DOCUMENT)
    assert (status, [step["name"] for step in plan["steps"]]) == (200, ["made"])
    assert not site.broker.hosts["/"].queues
    assert (await site.send("POST", PATH, DOCUMENT))[0] == 200
    assert site.broker.hosts["/"].queues["made"].settings.max_length == 5
    (entry,) = [each for each in site.broker.audit.query() if each.operation == "apply-definitions"]
    assert (entry.user, entry.arguments) == ("guest", '{"create":{"queue":1}}')
    assert (await site.send("POST", PATH, DOCUMENT))[1]["steps"] == []
    exported = (await site.send("GET", f"{PATH}?vhost=/"))[1]
    assert [each["name"] for each in exported["queues"]] == ["made"]
    assert "left_out" in (await site.send("GET", f"{PATH}?format=rabbitmq"))[1]


async def test_only_administrators_and_no_scoped_token(site: Site) -> None:
    for user in ("manager:pass", "watcher:pass", "plain:pass"):
        assert (await site.send("GET", PATH, user=user))[0] == 403
        assert (await site.send("POST", PATH, DOCUMENT, user=user))[0] == 403
    directory = site.broker.access_directory
    tags = ("administrator",)
    narrow = directory.make_token("guest", "narrow", TokenScope(virtual_hosts=("/",), tags=tags), now=0, expires_at=0)
    wide = directory.make_token("guest", "wide", TokenScope(tags=tags), now=0, expires_at=0)
    assert (await site.send("GET", PATH, user=f"guest:{narrow}"))[0] == 403
    assert (await site.send("POST", PATH, DOCUMENT, user=f"guest:{narrow}"))[0] == 403
    assert not site.broker.hosts["/"].queues
    assert (await site.send("GET", PATH, user=f"guest:{wide}"))[0] == 200


async def test_refusals(site: Site) -> None:
    assert (await site.send("POST", PATH, {"queue": [{}]}))[0] == 400
    assert (await site.send("POST", f"{PATH}?plann=true", DOCUMENT))[0] == 400
    assert (await site.send("GET", f"{PATH}?format=xml"))[0] == 400
    assert (await site.send("GET", f"{PATH}?vhost=nix"))[0] == 404
    await site.send("POST", PATH, DOCUMENT)
    status, answer = await site.send("POST", PATH, {"queues": [{"name": "made"}]})
    assert (status, "1 conflicts" in answer["reason"]) == (409, True)
    assert (await site.send("POST", f"{PATH}?keep=true", {"queues": [{"name": "made"}]}))[0] == 200
