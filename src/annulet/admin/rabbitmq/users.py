"""``/api/users``, ``/api/whoami``: users as RabbitMQ shows and takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import Fields, read_fields
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import bad_request, json_response, missing_field
from annulet.admin.resources.access_changes import AccessChanges
from annulet.broker.security.password_hashes import NO_PASSWORD, describe_hash
from annulet.store.database.definitions import USER

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.store.database.definitions import UserRecord

FIELDS: Final = ("tags", "password", "password_hash", "hashing_algorithm", "limits", "force")
IGNORED: Final = frozenset({"name", "vhost", "node", "username"})

NAMES_MAX: Final = 1000
"""Users that one request deletes."""


def listing(call: Call) -> Listing[UserRecord]:
    """Return how users are listed."""
    limits = call.broker.access_directory.limits(USER)

    def build(user: UserRecord) -> dict[str, Any]:
        known_hash, algorithm = describe_hash(user.password_hash)
        return {
            "name": user.name,
            "password_hash": known_hash,
            "hashing_algorithm": algorithm,
            "tags": list(user.tags),
            "limits": limits.get(user.name, {}),
        }

    columns = frozenset({"name", "password_hash", "hashing_algorithm", "tags", "limits"})
    return Listing((Part(columns, build),), lambda user: user.name)


async def list_users(call: Call) -> Response:
    """All users."""
    return await listing(call).answer(call, call.broker.access_directory.users())


async def list_without_permissions(call: Call) -> Response:
    """The users that may enter no virtual host."""
    directory = call.broker.access_directory
    entered = {record.user for record in directory.permissions()}
    return await listing(call).answer(call, [user for user in directory.users() if user.name not in entered])


async def get_user(call: Call) -> Response:
    """One user."""
    return json_response(listing(call).one(call, call.broker.access_directory.user(call.names["user"])))


async def put_user(call: Call) -> Response:
    """Create or replace a user. Without ``password`` and ``password_hash`` no password lets it in (RabbitMQ)."""
    fields = await read_fields(call, FIELDS, ignored=IGNORED)
    password = fields.text("password") if fields.given("password") else None
    known_hash = fields.text("password_hash") if fields.given("password_hash") else None
    made = await AccessChanges(call.request, call.user).put_user(
        call.names["user"],
        read_tags(fields),
        password=password,
        password_hash=NO_PASSWORD if password is None and known_hash is None else known_hash,
        algorithm=fields.text("hashing_algorithm") if fields.given("hashing_algorithm") else None,
        force=fields.switch("force", default=False) or call.query.switch("force"),
    )
    changes = AccessChanges(call.request, call.user)
    for limit, value in fields.object("limits").items():
        changes.set_limit(USER, call.names["user"], limit, value)
    return Response(status_code=201 if made else 204)


async def delete_user(call: Call) -> Response:
    """Delete a user; its open connections end."""
    AccessChanges(call.request, call.user).delete_users([call.names["user"]], force=call.query.switch("force"))
    return Response(status_code=204)


async def delete_users(call: Call) -> Response:
    """Delete several users: all of ``users`` or none."""
    fields = await read_fields(call, ("users", "force"))
    names = fields.members.get("users")
    if not isinstance(names, list) or len(names) > NAMES_MAX or not all(isinstance(name, str) for name in names):
        raise bad_request("users", names, f"give a list of up to {NAMES_MAX} names")
    known = {user.name for user in call.broker.access_directory.users()}
    present = [name for name in dict.fromkeys(names) if name in known]  # RabbitMQ passes over the others
    force = fields.switch("force", default=False) or call.query.switch("force")
    AccessChanges(call.request, call.user).delete_users(present, force=force)
    return Response(status_code=204)


async def who_am_i(call: Call) -> Response:
    """The user of the credentials, and its tags."""
    return json_response({"name": call.user.name, "tags": sorted(call.user.tags)})


def read_tags(fields: Fields) -> list[str]:
    """Return the tags of a body: a list, or a text with commas as before RabbitMQ 3.9."""
    tags = fields.members.get("tags")
    if tags is None:
        raise missing_field("tags", "give a list of tags, or a text with commas between; '' for none")
    if isinstance(tags, str):
        return [tag.strip() for tag in tags.split(",") if tag.strip()]
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return tags
    raise bad_request("tags", tags, "give a list of tags, or a text with commas between")


ROUTES: Final = (
    Route("whoami", {"GET": who_am_i}),
    Route("users", {"GET": list_users}, ADMINISTRATORS),
    Route("users/without-permissions", {"GET": list_without_permissions}, ADMINISTRATORS),
    Route("users/bulk-delete", {"POST": delete_users}, ADMINISTRATORS),
    Route("users/{user}", {"GET": get_user, "PUT": put_user, "DELETE": delete_user}, ADMINISTRATORS),
)
