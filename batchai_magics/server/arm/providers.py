"""Resource providers: all that there are here are registered."""

from __future__ import annotations

from typing import Any

from batchai_magics.errors import did_you_mean
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Service

_TYPES = {
    "Microsoft.BatchAI": (
        "workspaces",
        "workspaces/clusters",
        "workspaces/fileservers",
        "workspaces/experiments",
        "workspaces/experiments/jobs",
        "operations",
        "locations",
    ),
    "Microsoft.Batch": (),
    "Microsoft.Storage": ("storageAccounts", "checkNameAvailability"),
    "Microsoft.Resources": ("subscriptions", "resourceGroups"),
    "Microsoft.Authorization": ("roleAssignments", "roleDefinitions"),
    "Microsoft.Network": (),
}


def list_all(service: Service, call: Call) -> Answer:
    """All providers."""
    service.check_subscription(call)
    return Answer(data={"value": [_provider(service, name) for name in _TYPES]})


def show(service: Service, call: Call) -> Answer:
    """A provider; also what `register` and `unregister` answer."""
    service.check_subscription(call)
    wanted = call.parts["namespace"]
    name = next((name for name in _TYPES if name.lower() == wanted.lower()), None)
    if name is None:
        guess = did_you_mean(wanted, _TYPES)
        message = f"The resource namespace '{wanted}' is invalid. {guess}".rstrip()
        raise refusal(404, "InvalidResourceNamespace", message)
    return Answer(data=_provider(service, name))


def _provider(service: Service, namespace: str) -> dict[str, Any]:
    types = [
        {"resourceType": kind, "locations": [service.location], "apiVersions": ["2018-05-01"]}
        for kind in _TYPES[namespace]
    ]
    return {
        "id": f"/subscriptions/{service.subscription}/providers/{namespace}",
        "namespace": namespace,
        "registrationPolicy": "RegistrationFree",
        "registrationState": "Registered",
        "resourceTypes": types,
    }
