"""Role assignments: answered as a tutorial's lines need; nobody is let in or kept out by one here."""

from __future__ import annotations

import re
import uuid
from typing import Any

from batchai_magics.server.call import Answer, Call
from batchai_magics.server.service import Service

_QUOTED = re.compile(r"'([^']*)'")


def list_definitions(service: Service, call: Call) -> Answer:
    """The roles: the one that the filter names, whichever it is."""
    service.check_subscription(call)
    names = _QUOTED.findall(call.query.get("$filter", "").replace("+", " "))
    return Answer(data={"value": [_definition(service, name) for name in names or ["Contributor"]]})


def list_assignments(service: Service, call: Call) -> Answer:
    """The assignments: none is kept."""
    service.check_subscription(call)
    return Answer(data={"value": []})


def assign(service: Service, call: Call) -> Answer:
    """The assignment as it was asked for."""
    service.check_subscription(call)
    body = call.json()
    asked = body.get("properties", body)
    properties = dict(asked) if isinstance(asked, dict) else {}
    scope = call.path.lower().partition("/providers/microsoft.authorization")[0]
    return Answer(
        201,
        {
            "id": call.path,
            "name": call.parts["assignment"],
            "type": "Microsoft.Authorization/roleAssignments",
            "properties": {**properties, "scope": scope},
        },
    )


def drop(service: Service, call: Call) -> Answer:
    """Nothing: no assignment is kept."""
    service.check_subscription(call)
    return Answer(204)


def _definition(service: Service, name: str) -> dict[str, Any]:
    number = uuid.uuid5(uuid.NAMESPACE_DNS, name.lower())
    scope = f"/subscriptions/{service.subscription}"
    return {
        "id": f"{scope}/providers/Microsoft.Authorization/roleDefinitions/{number}",
        "name": str(number),
        "type": "Microsoft.Authorization/roleDefinitions",
        "properties": {"roleName": name, "type": "BuiltInRole", "assignableScopes": [scope]},
    }
