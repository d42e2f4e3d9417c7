"""``/api/v1/users`` and ``/api/v1/users/{user}``: users, their tags, passwords and limits. For administrators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import OBJECT, SWITCH, TEXT, TEXTS
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges, limits_of
from annulet.broker.security.password_hashes import describe_hash
from annulet.broker.settings.configuration import TAGS, nearest_name
from annulet.core.base.errors import NotFound
from annulet.store.database.definitions import OF_FILE, USER

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.store.database.definitions import UserRecord

RUN_TIME: Final = "run time"

NAMES: Final = frozenset({"name", "tags", "has_password", "hashing_algorithm", "source", "limits", "connections"})


async def list_users(call: Call) -> Response:
    """A page of users by name."""
    listing: Listing[UserRecord] = Listing((Part(NAMES, partial(_described, call)),), _key, (str,), _name_of)
    return await listing.answer(call, call.broker.access_directory.users())


def _key(user: UserRecord) -> tuple[str]:
    return (user.name,)


def _name_of(user: UserRecord) -> str:
    return user.name


async def get_user(call: Call) -> Response:
    """One user."""
    return json_response(_described(call, call.broker.access_directory.user(call.names["user"])))


async def delete_user(call: Call) -> Response:
    """Delete a user, and end its connections."""
    name = call.names["user"]
    AccessChanges(call.request, call.user).delete_users([name], force=call.parameters["force"])
    return json_response({"name": name, "deleted": True})


async def put_user(call: Call) -> Response:
    """Make or change a user."""
    name, given = call.names["user"], call.fields
    changes = AccessChanges(call.request, call.user)
    directory = call.broker.access_directory
    former = {user.name: user.tags for user in directory.users()}
    tags = given.get("tags", former.get(name, ()))
    for tag in tags:
        if tag not in TAGS and tag not in former.get(name, ()):
            raise ResourceError(400, f"field 'tags': unknown tag {tag!r}{nearest_name(tag, dict.fromkeys(TAGS))}")
    made = await changes.put_user(
        name,
        tags,
        password=given.get("password"),
        password_hash=given.get("password_hash"),
        algorithm=given.get("hashing_algorithm"),
        force=call.parameters["force"],
    )
    for limit, value in given.get("limits", {}).items():
        changes.set_limit(USER, name, limit, value)
    return json_response(_described(call, directory.user(name)), 201 if made else 200)


def _described(call: Call, user: UserRecord) -> dict[str, Any]:
    """Return a user without its hash. ``source`` says where it is changed: in the file, or here."""
    return {**_definition(call, user), "connections": call.broker.admission.by_user[user.name]}


def _definition(call: Call, user: UserRecord) -> dict[str, Any]:
    return {
        "name": user.name,
        "tags": list(user.tags),
        "has_password": bool(user.password_hash),
        "hashing_algorithm": describe_hash(user.password_hash)[1] if user.password_hash else None,
        "source": OF_FILE if user.source == OF_FILE else RUN_TIME,
        "limits": limits_of(call.request, USER, user.name),
    }


def _revision(call: Call) -> Any:
    try:
        user = call.broker.access_directory.user(call.names["user"])
    except NotFound:
        return None
    return {**_definition(call, user), "hash": user.password_hash}


FORCE: Final = Value("force", "true to do it even if no administrator is left", SWITCH, default=False)
USER_SCHEMA: Final = object_of(name=TEXT_SCHEMA, has_password=SWITCH_SCHEMA, connections=COUNT)

RESOURCES: Final = (
    Resource(
        "users",
        "access",
        (
            Operation(
                "GET",
                "list_users",
                "Users by name.",
                list_users,
                tags=ADMINISTRATORS,
                parameters=LIST_PARAMETERS,
                answers={200: Answer("A page of users.", page_of(USER_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "users/{user}",
        "access",
        (
            Operation(
                "GET",
                "get_user",
                "One user, without its hash.",
                get_user,
                tags=ADMINISTRATORS,
                answers={200: Answer("The user.", USER_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_user",
                "Make or change a user; without password and hash it keeps its own.",
                put_user,
                tags=ADMINISTRATORS,
                parameters=(FORCE,),
                body=Fields(
                    (
                        Value("tags", "a list of tags", TEXTS, example=["management"]),
                        Value("password", "the password", TEXT),
                        Value("password_hash", "a hash of the password, in place of it", TEXT),
                        Value("hashing_algorithm", "the algorithm of the hash, by RabbitMQ's name", TEXT),
                        Value("limits", "limits by name, with their values", OBJECT, example={"max-connections": 10}),
                    )
                ),
                answers={200: Answer("The changed user.", USER_SCHEMA), 201: Answer("The new user.", USER_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_user",
                "Delete a user; its connections end.",
                delete_user,
                tags=ADMINISTRATORS,
                parameters=(FORCE,),
                answers={200: Answer("The user is deleted.")},
            ),
        ),
        _revision,
    ),
)
