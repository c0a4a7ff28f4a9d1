"""Who may: keys and signed addresses of Azure Files, against a real server."""

from __future__ import annotations

import pytest
import requests
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.fileshare import (
    ShareClient,
    ShareSasPermissions,
    generate_share_sas,
)

from tests.server.running import Running
from tests.server.storage.files.clients import client, time_after

pytestmark = pytest.mark.slow


def test_no_path_leads_out_of_a_share(server: Running, share: ShareClient, account: tuple[str, str]) -> None:
    may = ShareSasPermissions(read=True, write=True, create=True, list=True)
    sas = generate_share_sas(account[0], share.share_name, account[1], may, time_after())
    for path in ("%2e%2e/%2e%2e/state.db", "a/..%2f..%2fx", "..%5cx", "%00"):
        url = f"{server.url}/{account[0]}/{share.share_name}/{path}?{sas}"
        prepared = requests.Request("GET", url).prepare()
        prepared.url = url
        with requests.Session() as session:
            answer = session.send(prepared)
        assert answer.status_code in (400, 403, 404), path


def test_a_new_key_makes_what_the_old_one_signed_worthless(server: Running) -> None:
    path = "/subscriptions/{}/resourceGroups/files/providers/Microsoft.Storage/storageAccounts/renewed"
    path = path.format(server.context.subscription)
    server.json("PUT", path, json={"location": "eastus"})
    old = server.json("POST", f"{path}/listKeys")["keys"][0]["value"]
    service = client(server, "renewed", AzureNamedKeyCredential("renewed", old))
    assert list(service.list_shares()) == []
    keys = server.json("POST", f"{path}/regenerateKey", json={"keyName": "key1"})["keys"]
    assert keys[0]["value"] != old
    with pytest.raises(ClientAuthenticationError):
        list(service.list_shares())
