"""Azure Blob Storage as its own library uses it; tells what came as JSON."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, generate_blob_sas

URL, ACCOUNT, KEY = sys.argv[1:]
credential = {"account_name": ACCOUNT, "account_key": KEY}
service = BlobServiceClient(
    f"{URL}/{ACCOUNT}",
    credential=credential,
    retry_total=0,
    max_single_put_size=1 << 20,
    max_block_size=1 << 20,
)
told = {}


def refused(work):
    try:
        work()
    except HttpResponseError as error:
        return [error.status_code, error.error_code]
    return None


container = service.create_container("data")
told["twice"] = refused(lambda: service.create_container("data"))
told["containers"] = [item.name for item in service.list_containers()]
small, large = b"text", os.urandom((5 << 20) + 7)
for name, data in (("a/small.txt", small), ("a/b/large.bin", large), ("top.txt", b"")):
    container.upload_blob(name, data)
told["once"] = refused(lambda: container.upload_blob("top.txt", b"x"))
container.upload_blob("top.txt", b"new", overwrite=True)
read = {name: container.download_blob(name).readall() for name in ("a/small.txt", "a/b/large.bin", "top.txt")}
told["read"] = [read["a/small.txt"] == small, read["a/b/large.bin"] == large, read["top.txt"] == b"new"]
told["range"] = container.download_blob("a/small.txt", offset=1, length=2).readall().decode()
told["size"] = container.get_blob_client("a/b/large.bin").get_blob_properties().size
told["all"] = [[item.name, item.size] for item in container.list_blobs()]
told["pages"] = [len(list(page)) for page in container.list_blobs(results_per_page=2).by_page()]
told["level"] = [item.name for item in container.walk_blobs("a/")]
told["absent"] = refused(lambda: container.download_blob("absent"))
later = datetime.now(timezone.utc) + timedelta(minutes=5)
told["sas"] = generate_blob_sas(
    ACCOUNT, "data", "a/small.txt", account_key=KEY, permission=BlobSasPermissions(read=True), expiry=later
)
container.delete_blob("top.txt")
told["left"] = [item.name for item in container.list_blobs()]
print(json.dumps(told))
