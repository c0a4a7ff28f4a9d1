"""An account of storage on a real server, and a share of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.fileshare import ShareClient, ShareServiceClient

from tests.server.running import Running
from tests.server.storage.files.clients import client


@pytest.fixture(scope="module")
def account(server: Running) -> tuple[str, str]:
    """The name and key of an account that Azure Resource Manager has made."""
    path = "/subscriptions/{}/resourceGroups/files/providers/Microsoft.Storage/storageAccounts/filesacct"
    path = path.format(server.context.subscription)
    server.json("PUT", path, json={"location": "eastus", "sku": {"name": "Standard_LRS"}})
    return "filesacct", server.json("POST", f"{path}/listKeys")["keys"][1]["value"]


@pytest.fixture(scope="module")
def service(server: Running, account: tuple[str, str]) -> ShareServiceClient:
    return client(server, account[0], AzureNamedKeyCredential(*account))


@pytest.fixture
def share(service: ShareServiceClient, request: pytest.FixtureRequest) -> Iterator[ShareClient]:
    """A share of the test's own."""
    made = service.get_share_client(f"share-{abs(hash(request.node.name)) % 10**8}")
    made.create_share()
    yield made
    made.delete_share()
