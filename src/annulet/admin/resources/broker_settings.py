"""``/api/v1/settings`` and ``/api/v1/settings/{name}``: settings of the broker with origins, for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import SWITCH_SCHEMA, TEXT_SCHEMA, items_of, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit_access

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


async def list_settings(call: Call) -> Response:
    """All settings by name: value, unit, default, where the value comes from, whether it may change at run time."""
    return json_response({"items": call.broker.broker_settings.all()})


async def get_setting(call: Call) -> Response:
    """One setting."""
    return json_response(call.broker.broker_settings.one(call.names["name"]))


async def put_setting(call: Call) -> Response:
    """Change a setting now and for later starts."""
    name, value = call.names["name"], call.fields["value"]
    changed = call.broker.broker_settings.change(name, value)
    audit_access(call.broker, call.user, "change-setting", name, {"value": value})
    return json_response(changed)


async def delete_setting(call: Call) -> Response:
    """Let the value of the configuration hold again."""
    name = call.names["name"]
    changed = call.broker.broker_settings.take_back(name)
    audit_access(call.broker, call.user, "take-back-setting", name)
    return json_response(changed)


SETTING_SCHEMA: Final[dict[str, Any]] = object_of(name=TEXT_SCHEMA, origin=TEXT_SCHEMA, changeable=SWITCH_SCHEMA)

RESOURCES: Final = (
    Resource(
        "settings",
        "broker",
        (
            Operation(
                "GET",
                "list_settings",
                "Settings of the broker, each with the origin of its value.",
                list_settings,
                tags=ADMINISTRATORS,
                answers={200: Answer("All settings, by name.", items_of(SETTING_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "settings/{name}",
        "broker",
        (
            Operation(
                "GET",
                "get_setting",
                "One setting of the broker.",
                get_setting,
                tags=ADMINISTRATORS,
                answers={200: Answer("The setting.", SETTING_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_setting",
                "Change a setting now and for later starts.",
                put_setting,
                tags=ADMINISTRATORS,
                body=Fields((Value("value", "an integer within the range of the setting", INTEGER, required=True),)),
                answers={200: Answer("The changed setting.", SETTING_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_setting",
                "Let the value of the configuration hold again.",
                delete_setting,
                tags=ADMINISTRATORS,
                answers={200: Answer("The setting.", SETTING_SCHEMA)},
            ),
        ),
    ),
)
