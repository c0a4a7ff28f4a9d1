"""Blob containers, and the lists of what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from xml.sax.saxutils import escape

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import check_share_name
from batchai_magics.server.call import Answer
from batchai_magics.server.storage import conditions, metadata, properties
from batchai_magics.server.storage.context import Asked, stamps
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.listing import Entries, NamePage, name_element, page_of, xml
from batchai_magics.server.storage.part_files import is_part
from batchai_magics.server.storage.shares import metadata_of, names_in, share_entries, share_stamps


def create(asked: Asked) -> Answer:
    """Makes a container."""
    check_share_name(asked.share)
    if asked.share in asked.storage.shares():
        raise StorageRefusal(409, "ContainerAlreadyExists", "The specified container already exists.")
    kept = metadata.said(asked.call)
    asked.storage.make(asked.share)
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return Answer(201, headers=share_stamps(asked))


def show(asked: Asked) -> Answer:
    """What there is to say of a container."""
    asked.check_share()
    return Answer(200, body=b"", headers={**share_stamps(asked), **asked.metadata_headers})


def keep_metadata(asked: Asked) -> Answer:
    """Gives a container other metadata."""
    kept = metadata.said(asked.call)
    asked.check_share()
    _check_conditions(asked, "if-modified-since")
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return Answer(200, body=b"", headers=share_stamps(asked))


def delete(asked: Asked) -> Answer:
    """Deletes a container with all in it."""
    asked.check_share()
    _check_conditions(asked, "if-modified-since", "if-unmodified-since")
    asked.storage.remove(asked.share)
    asked.service.metadata.forget(asked.resource.key)
    return Answer(202)


def _check_conditions(asked: Asked, *supported: str) -> None:
    stamp = share_stamps(asked)
    version = conditions.Version(stamp["ETag"], parsedate_to_datetime(stamp["Last-Modified"]))
    conditions.of_container(asked.call.headers, *supported).check_write(version)


def list_all(asked: Asked) -> Answer:
    """The containers of the account."""
    entries = _container_entries(asked, page_of(asked.call, names_in(asked)))
    return xml(asked.call, {"ServiceEndpoint": f"{asked.call.origin}/"}, entries)


def list_account(asked: Asked) -> Answer:
    """The shares and the containers of the account, in one answer.

    Nothing in such a request says which of the two are meant; a client reads the list that it knows.
    """
    files, blobs = (asked.as_of(service) for service in ("file", "blob"))
    backend = asked.service.backend
    shares = names_in(files) if backend.storage else []
    found = names_in(blobs) if backend.containers else []
    page = page_of(asked.call, sorted({*shares, *found}))
    lists = share_entries(files, page.of(shares)), _container_entries(blobs, page.of(found))
    return xml(asked.call, {"ServiceEndpoint": f"{asked.call.origin}/"}, *lists)


def _container_entries(asked: Asked, page: NamePage) -> Entries:
    stamp = share_stamps(asked)
    times = f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag>"
    properties = f"<Properties>{times}</Properties>"
    inner = [
        f"<Container><Name>{name}</Name>{properties}{metadata_of(asked, name)}</Container>"
        for name in page.items
    ]
    return Entries("Containers", inner, page.next)


def list_blobs(asked: Asked) -> Answer:
    """The blobs of a container; with a delimiter, one level of them and the prefixes of the others."""
    asked.check_share()
    prefix, delimiter = asked.call.query.get("prefix", ""), asked.call.query.get("delimiter", "")
    blobs = {
        blob.path: blob for blob in _below(asked, prefix.rpartition("/")[0]) if blob.path.startswith(prefix)
    }
    names = sorted({_level(name, prefix, delimiter) for name in blobs}) if delimiter else sorted(blobs)
    page = page_of(asked.call, names)
    inner = [_blob(asked, blobs[name]) if name in blobs else _prefix(name) for name in page.items]
    attributes = {"ServiceEndpoint": f"{asked.call.origin}/", "ContainerName": asked.resource.share}
    return xml(asked.call, attributes, Entries("Blobs", inner, page.next))


def _below(asked: Asked, folder: str) -> Iterator[ShareFile]:
    """Every file at any depth of a folder; nothing where there is no such folder."""
    try:
        level = asked.storage.list(asked.share, folder)
    except NotFoundError:
        return
    for entry in level:
        if entry.is_directory:
            yield from _below(asked, entry.path)
        elif entry.is_file and not is_part(entry.path):
            yield entry


def _level(name: str, prefix: str, delimiter: str) -> str:
    """The name itself, or its part up to the first delimiter after the prefix."""
    head, sign, _ = name[len(prefix) :].partition(delimiter)
    return f"{prefix}{head}{sign}"


def _blob(asked: Asked, blob: ShareFile) -> str:
    record = asked.service.metadata.record(replace(asked.resource, path=blob.path).key)
    stamp = stamps(blob, record)
    return (
        f"<Blob>{name_element(blob.path)}<Properties><Last-Modified>{stamp['Last-Modified']}</Last-Modified>"
        f"<Etag>{escape(stamp['ETag'])}</Etag><Content-Length>{blob.size_bytes}</Content-Length>"
        f"{properties.elements(record.properties)}<BlobType>BlockBlob</BlobType>"
        "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState></Properties>"
        f"{metadata.element(asked.call, record.metadata)}</Blob>"
    )


def _prefix(name: str) -> str:
    return f"<BlobPrefix>{name_element(name)}</BlobPrefix>"
