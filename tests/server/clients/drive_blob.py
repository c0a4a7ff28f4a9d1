"""Azure Blob Storage as its own library uses it; tells what came as JSON."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, ContentSettings, generate_blob_sas

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
copied = container.get_blob_client("new/folder/copy.txt")
copied.start_copy_from_url(container.get_blob_client("a/small.txt").url)
told["copied"] = copied.download_blob().readall().decode()
copied.upload_blob_from_url(container.get_blob_client("a/small.txt").url, overwrite=True)
copied.delete_blob()
container.delete_blob("top.txt")
told["left"] = [item.name for item in container.list_blobs()]


def metadata_of(client):
    """The metadata that a container or a blob says that it has."""
    get = getattr(client, "get_blob_properties", None) or client.get_container_properties
    return get().metadata


def listed(items):
    return {item.name: item.metadata or {} for item in items}


notes = service.create_container("noted", metadata={"team": "a"})
told["container"] = [metadata_of(notes)]
notes.set_container_metadata({"team": "b<&>"})
told["container"] += [
    metadata_of(notes),
    listed(service.list_containers("noted", include_metadata=True))["noted"],
]
whole = notes.upload_blob("whole", b"one", metadata={"epoch": "1"})
blocks = notes.upload_blob("in/blocks", large, metadata={"epoch": "2"})
told["blobs"] = [metadata_of(whole), metadata_of(blocks), whole.download_blob().properties.metadata]
told["with"], told["without"] = (listed(notes.list_blobs(include=wanted)) for wanted in (["metadata"], []))
whole.set_blob_metadata({"epoch": "3"})
told["set"] = metadata_of(whole)
notes.upload_blob("whole", b"two", overwrite=True)
told["replaced"] = metadata_of(whole)
whole.set_blob_metadata({"epoch": "4"})
whole.delete_blob()
notes.upload_blob("whole", b"three")
told["again"] = metadata_of(whole)
told["misnamed"] = refused(lambda: whole.set_blob_metadata({"a-b": "1"}))
told["unset"] = refused(lambda: notes.get_blob_client("absent").set_blob_metadata({"a": "1"}))


def settings(client):
    """The properties that a blob says it has, and those that a list says."""
    shown = client.get_blob_properties().content_settings
    listed = next(item for item in notes.list_blobs(client.blob_name)).content_settings
    return [[getattr(each, name) for name in NAMES] for each in (shown, listed)]


NAMES = ("content_type", "content_encoding", "content_language", "content_disposition", "cache_control")
values = ("text/csv", "gzip", "de", 'attachment; filename="a.csv"', "max-age=60")
full = ContentSettings(**dict(zip(NAMES, values, strict=True)))
for name, data in (("typed", b"1,2"), ("typed-blocks", large)):
    typed = notes.upload_blob(name, data, content_settings=full)
    told[name] = settings(typed)
typed.set_http_headers(ContentSettings(content_type="text/plain"))
told["retyped"] = settings(typed)
notes.upload_blob("typed", b"3,4", overwrite=True)
told["untyped"] = settings(notes.get_blob_client("typed"))

tag = whole.get_blob_properties().etag
changed = {"etag": tag, "match_condition": MatchConditions.IfNotModified}
told["met"] = refused(lambda: whole.upload_blob(b"four", overwrite=True, **changed))
told["unmet"] = [
    refused(lambda: whole.upload_blob(b"five", overwrite=True, **changed)),
    refused(lambda: whole.upload_blob(large, overwrite=True, **changed)),
    refused(lambda: whole.set_blob_metadata({"a": "1"}, **changed)),
    refused(lambda: whole.set_http_headers(full, **changed)),
    refused(lambda: whole.delete_blob(**changed)),
    refused(lambda: whole.download_blob(**changed)),
]
told["four"] = whole.download_blob().readall().decode()
told["paged"] = refused(lambda: notes.get_blob_client("pages").create_page_blob(512))
told["append"] = refused(lambda: notes.get_blob_client("append").create_append_blob())
notes.delete_container()
told["anew"] = metadata_of(service.create_container("noted"))
service.delete_container("noted")
print(json.dumps(told))
