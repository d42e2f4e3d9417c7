"""``/api/v1/users``."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.network.listening import PeerFacts
from tests.admin.conftest import Site

ANN = {"tags": ["monitoring"], "password": "secret"}
LOCAL = PeerFacts("127.0.0.1", 50_000, is_loopback=True)


async def test_a_user_is_made_listed_changed_and_deleted(site: Site) -> None:
    status, made = await site.send("PUT", "/api/v1/users/ann", {**ANN, "limits": {"max-connections": 3}})
    assert (status, made) == (
        201,
        {
            "name": "ann",
            "tags": ["monitoring"],
            "has_password": True,
            "hashing_algorithm": "argon2id",
            "source": "run time",
            "limits": {"max-connections": 3},
            "connections": 0,
        },
    )
    assert (await site.send("GET", "/api/v1/users?name=ann"))[1]["items"] == [made]
    assert (await site.send("GET", "/api/v1/overview", user="ann:secret"))[0] == 200
    status, changed = await site.send("PUT", "/api/v1/users/ann", {"tags": []})
    assert (status, changed["tags"], changed["has_password"]) == (200, [], True)
    assert (await site.send("GET", "/api/v1/overview", user="ann:secret"))[0] == 403
    assert await site.send("DELETE", "/api/v1/users/ann") == (200, {"name": "ann", "deleted": True})
    assert (await site.send("GET", "/api/v1/overview", user="ann:secret"))[0] == 401
    assert (await site.refused("GET", "/api/v1/users/ann"))[0] == 404


async def test_scram_is_offered_beside_passwords_that_are_set_here(site: Site) -> None:
    for user in ("guest", "manager", "plain", "watcher", "shop"):
        site.broker.catalogue.access.delete_user(user)
    site.broker.authenticator.reload()
    site.broker.catalogue.access.set_user("boss", "", ("administrator",))
    site.broker.authenticator.reload()
    text, scram = await site.broker.authenticator.hash_password("secret")
    site.broker.catalogue.access.set_user("ann", text, (), scram)
    site.broker.authenticator.reload()
    assert "SCRAM-SHA-256" in site.broker.authenticator.mechanisms(LOCAL, "amqp10")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"tags": ["administartor"]}, "unknown tag 'administartor'; did you mean 'administrator'"),
        ({"tags": "administrator"}, "field 'tags' must be a list of texts"),
        ({"tags": [1]}, "field 'tags' must be a list of texts"),
        ({"pasword": "x"}, "unknown field 'pasword'; did you mean 'password'"),
        ({"password": "x", "password_hash": "y"}, "give one of them"),
        ({"password": ""}, "'password' has 0 bytes"),
        ({"password": "x" * 1025}, "'password' has 1025 bytes"),
        ({"password": "annulet-token-x"}, "as tokens do"),
        ({"password_hash": "x"}, "'password_hash': not base64"),
        ({"limits": {"max-queues": 1}}, "limit 'max-queues' is unknown"),
    ],
)
async def test_wrong_bodies_are_refused_by_field(site: Site, body: dict[str, Any], words: str) -> None:
    status, reason = await site.refused("PUT", "/api/v1/users/ann", body)
    assert status == 400
    assert words in reason


async def test_users_of_the_file_stay_as_they_are(site: Site) -> None:
    for method in ("PUT", "DELETE"):
        status, reason = await site.refused(method, "/api/v1/users/plain", {} if method == "PUT" else None)
        assert (status, "is declared in" in reason) == (409, True)
    assert (await site.send("GET", "/api/v1/users/plain"))[1]["source"] == "file"


async def test_the_last_administrator_goes_by_force_only(site: Site) -> None:
    await site.send("PUT", "/api/v1/users/ann", {"tags": ["administrator"], "password": "secret"})
    site.broker.access_directory.reload_file({})
    status, reason = await site.refused("DELETE", "/api/v1/users/ann", user="ann:secret")
    assert (status, "force=true" in reason) == (409, True)
    assert (await site.refused("DELETE", "/api/v1/users/ann?force=maybe", user="ann:secret"))[0] == 400
    assert (await site.send("DELETE", "/api/v1/users/ann?force=true", user="ann:secret"))[0] == 200


async def test_they_are_for_administrators(site: Site) -> None:
    for path in ("/api/v1/users", "/api/v1/users/plain"):
        for user in ("watcher:pass", "manager:pass"):
            assert (await site.refused("GET", path, user=user))[0] == 403
    assert (await site.refused("PUT", "/api/v1/users/x", ANN, user="manager:pass"))[0] == 403


async def test_each_change_is_in_the_audit_trail_without_secrets(site: Site) -> None:
    await site.send("PUT", "/api/v1/users/ann", ANN)
    await site.send("DELETE", "/api/v1/users/ann")
    items = (await site.send("GET", "/api/v1/audit"))[1]["items"]
    assert [(item["operation"], item["target"], item["user"], item["vhost"]) for item in items] == [
        ("delete-user", "ann", "guest", ""),
        ("put-user", "ann", "guest", ""),
    ]
    assert "secret" not in str(items)
    assert (await site.send("GET", "/api/v1/audit", user="watcher:pass"))[1]["items"] == []


async def test_a_path_with_more_is_no_user(site: Site) -> None:
    assert (await site.refused("GET", "/api/v1/users/a/b"))[0] == 404
    assert (await site.send("PUT", "/api/v1/users/a%2Fb", ANN))[0] == 201
