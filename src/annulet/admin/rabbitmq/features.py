"""``/api/extensions``, ``/api/feature-flags``, ``/api/deprecated-features``, ``/api/auth``: features of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.responses import json_response

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call


async def list_nothing(_call: Call) -> Response:
    """No extensions of a console, no feature flags to enable, nothing deprecated: every feature is always on."""
    return json_response([])


async def login_methods(_call: Call) -> Response:
    """Return how users log in: name and password. OAuth 2 is not enabled, by its names in old and new versions."""
    return json_response({"enable_uaa": False, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": False})


ROUTES: Final = (
    Route("extensions", {"GET": list_nothing}),
    Route("feature-flags", {"GET": list_nothing}, ADMINISTRATORS),
    Route("deprecated-features", {"GET": list_nothing}, ADMINISTRATORS),
    Route("deprecated-features/used", {"GET": list_nothing}, ADMINISTRATORS),
    Route("auth", {"GET": login_methods}),
)
