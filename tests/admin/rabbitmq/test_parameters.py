from __future__ import annotations

from tests.admin.conftest import Site


async def test_policies_are_parameters_too_and_other_components_are_not_there(site: Site) -> None:
    site.broker.hosts["/"].policies.set("p", "^q", {"max-length": 7})
    item = {
        "value": {"pattern": "^q", "apply-to": "queues", "definition": {"max-length": 7}, "priority": 0},
        "vhost": "/", "component": "policy", "name": "p",
    }  # fmt: skip
    for path in ("/api/parameters/policy", "/api/parameters/policy/%2F"):
        assert (await site.get(path)).json() == [item]
    assert (await site.get("/api/parameters/policy/%2F/p")).json() == item
    for path in ("/api/parameters", "/api/parameters/shovel", "/api/parameters/shovel/%2F"):
        assert (await site.get(path)).json() == []
    assert await site.status("GET", "/api/parameters/shovel/%2F/x") == 404
    assert await site.status("DELETE", "/api/parameters/policy/%2F/p") == 404
    for component, reason in (("shovel", "no such component"), ("policy", "set policies with PUT /api/policies")):
        status, answer = await site.send("PUT", f"/api/parameters/{component}/%2F/x", {"value": {}})
        assert status == 400
        assert reason in answer["reason"]
    assert await site.status("GET", "/api/parameters", user="shop:pass") == 401


async def test_global_parameters_are_kept(site: Site) -> None:
    path = "/api/global-parameters/x"
    value = {"a": [1, None]}
    assert await site.status("PUT", path, {"value": value}) == 201
    assert await site.status("PUT", path, {"value": value}) == 204
    assert (await site.get(path)).json() == {"name": "x", "value": value}
    assert (await site.get("/api/global-parameters")).json() == [{"name": "x", "value": value}]
    assert await site.status("PUT", path, {}) == 400
    assert await site.status("PUT", "/api/global-parameters/cluster_name", {"value": "shop"}) == 201
    assert (await site.get("/api/cluster-name")).json() == {"name": "shop"}
    assert await site.status("DELETE", "/api/global-parameters/cluster_name") == 204
    assert site.broker.server_properties["cluster_name"] == "annulet"
    assert await site.status("DELETE", path) == 204
    assert await site.status("DELETE", path) == 404
    assert await site.status("GET", path) == 404
    assert await site.status("GET", "/api/global-parameters", user="watcher:pass") == 401
