"""``/api/v1/tokens`` and ``/api/v1/tokens/{user}/{token}``: tokens for automation, with a scope and an end.

Administrators manage the tokens of all users; other users of the API their own, after a login with their password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATOR, API_TAGS
from annulet.admin.requests.bodies import INTEGER, TEXTS
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges
from annulet.broker.security.tokens import OPERATIONS, TokenScope

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.security.authentication import User
    from annulet.store.database.definitions import TokenRecord

SECONDS_MOST: Final = 10 * 366 * 24 * 3600
"""The longest life of a token that ends: ten years."""


async def list_tokens(call: Call) -> Response:
    """A page of the tokens that the user may manage, without their texts."""
    owner = call.parameters.get("user")
    every = [token for token in call.broker.access_directory.tokens() if _may_manage(call.user, token.user)]
    found = [token for token in every if owner in {None, token.user}]
    return await LISTING.answer(call, found, total=len(every))


async def get_token(call: Call) -> Response:
    """One token, without its text."""
    owner, name = _chosen(call)
    return json_response(_described(call.broker.access_directory.token(owner, name)))


async def put_token(call: Call) -> Response:
    """Make a token, or another text for it. No other answer has the text."""
    owner, name = _chosen(call)
    scope, expires_at = _read(call)
    text = AccessChanges(call.request, call.user).make_token(owner, name, scope, expires_at)
    return json_response({**_described(call.broker.access_directory.token(owner, name)), "token": text}, 201)


async def delete_token(call: Call) -> Response:
    """Revoke a token."""
    owner, name = _chosen(call)
    AccessChanges(call.request, call.user).delete_token(owner, name)
    return json_response({"user": owner, "name": name, "deleted": True})


def _chosen(call: Call) -> tuple[str, str]:
    """Return the owner and the name of the path; 403 when the user may not manage the owner's tokens."""
    owner = call.names["user"]
    if not _may_manage(call.user, owner):
        raise ResourceError(403, f"the tokens of user {owner!r} are for administrators, and for it with its password")
    return owner, call.names["token"]


def _may_manage(user: User, owner: str) -> bool:
    """Return whether a user manages the tokens of ``owner``: a token makes no tokens that may more than itself."""
    if user.token:
        return False
    return ADMINISTRATOR in user.tags or user.name == owner


def _read(call: Call) -> tuple[TokenScope, int]:
    """Return scope and end of a body. ``seconds``: the life from now, in place of ``expires_at``."""
    given = call.fields
    expires_at = given.get("expires_at", 0)
    if "seconds" in given:
        if "expires_at" in given:
            raise ResourceError(400, f"field 'seconds': give 1 to {SECONDS_MOST}, without 'expires_at'")
        expires_at = call.now + given["seconds"] * 1000
    scope = TokenScope(
        tuple(given.get("operations", OPERATIONS)), tuple(given.get("virtual_hosts", ())), tuple(given.get("tags", ()))
    )
    return scope, expires_at


def _described(token: TokenRecord) -> dict[str, Any]:
    scope = msgspec.json.decode(token.scope, type=TokenScope)
    return {
        "user": token.user,
        "name": token.name,
        "operations": scope.operations,
        "virtual_hosts": scope.virtual_hosts,
        "tags": scope.tags,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }


def _key(token: TokenRecord) -> tuple[str, str]:
    return token.user, token.name


def _name_of(token: TokenRecord) -> str:
    return token.name


LISTING: Final[Listing[TokenRecord]] = Listing(
    (Part(frozenset({"user", "name", "operations", "virtual_hosts", "tags", "created_at", "expires_at"}), _described),),
    _key,
    (str, str),
    _name_of,
)

TOKEN_SCHEMA: Final = object_of(user=TEXT_SCHEMA, name=TEXT_SCHEMA)
OWN: Final = "tokens of others are for administrators; a token manages no tokens"

RESOURCES: Final = (
    Resource(
        "tokens",
        "access",
        (
            Operation(
                "GET",
                "list_tokens",
                "Tokens that the user may manage, without their texts.",
                list_tokens,
                parameters=(*LIST_PARAMETERS, Value("user", "a user, for its tokens only")),
                answers={200: Answer("A page of tokens.", page_of(TOKEN_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "tokens/{user}/{token}",
        "access",
        (
            Operation(
                "GET",
                "get_token",
                "One token, without its text.",
                get_token,
                answers={200: Answer("The token.", TOKEN_SCHEMA)},
                further=OWN,
            ),
            Operation(
                "PUT",
                "put_token",
                "Make a token, or another text for it. No other answer has the text.",
                put_token,
                tags=API_TAGS,
                body=Fields(
                    (
                        Value("operations", "a list of operations", TEXTS, example=["read"]),
                        Value("virtual_hosts", "a list of virtual hosts; empty for all", TEXTS),
                        Value("tags", "a list of the user's tags", TEXTS),
                        Value("expires_at", "milliseconds since 1970, or 0 for never", INTEGER),
                        Value("seconds", "the life from now, in place of expires_at", INTEGER, 1, SECONDS_MOST),
                    )
                ),
                answers={201: Answer("The token with its text.", TOKEN_SCHEMA)},
                further=OWN,
            ),
            Operation(
                "DELETE",
                "delete_token",
                "Revoke a token; connections that logged in with it end.",
                delete_token,
                tags=API_TAGS,
                answers={200: Answer("The token is revoked.")},
                further=OWN,
            ),
        ),
    ),
)
