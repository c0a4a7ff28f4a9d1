"""The subscription, its tenant and its locations: one of each."""

from __future__ import annotations

from typing import Any

from batchai_magics.server.call import Answer, Call
from batchai_magics.server.service import Service

TENANT = "00000000-0000-0000-0000-000000000000"


def list_all(service: Service, call: Call) -> Answer:
    """The subscriptions."""
    return Answer(data={"value": [_subscription(service)]})


def show(service: Service, call: Call) -> Answer:
    """The subscription."""
    service.check_subscription(call)
    return Answer(data=_subscription(service))


def list_tenants(service: Service, call: Call) -> Answer:
    """The tenants."""
    tenant = {"id": f"/tenants/{TENANT}", "tenantId": TENANT, "displayName": "batchai"}
    return Answer(data={"value": [tenant]})


def list_locations(service: Service, call: Call) -> Answer:
    """The locations."""
    service.check_subscription(call)
    location = {
        "id": f"/subscriptions/{service.subscription}/locations/{service.location}",
        "name": service.location,
        "displayName": service.location.capitalize(),
    }
    return Answer(data={"value": [location]})


def _subscription(service: Service) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{service.subscription}",
        "authorizationSource": "RoleBased",
        "subscriptionId": service.subscription,
        "tenantId": TENANT,
        "displayName": service.backend.capabilities.name,
        "state": "Enabled",
    }
