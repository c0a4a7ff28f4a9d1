"""Files go up to a share and come down from it; what was interrupted goes on where it stood."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

from batchai_magics.backends.base import Copy, ShareFile
from batchai_magics.commands.azure.bucket import Bucket
from batchai_magics.errors import StorageError

AGAIN = "The same line goes on where it stopped."


def upload(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    return bucket.storage.send(bucket.name, copies)


def download(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, list[dict[str, object]]]:
    """Downloads files; each appears when all of it is there and its digest is right."""
    yield from bucket.storage.fetch(bucket.name, copies)
    return [{"contentLength": copy.size_bytes, "name": copy.there, "path": str(copy.here)} for copy in copies]


class Folder:
    """A folder that files are downloaded to. None of them leaves it, be it by a link."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._real = self.path.resolve()
        self._checked: set[str] = set()  # the folders that were looked at

    def inside(self, path: str) -> Path:
        """`folder/path`; a StorageError when that would lie outside of the folder."""
        target, above = self.path / path, path.rpartition("/")[0]
        if above not in self._checked or path.endswith(".."):
            if ".." in path.split("/") or not target.parent.resolve().is_relative_to(self._real):
                raise StorageError(f"{path!r} leads out of {self.path}", hint="Nothing was written there.")
            self._checked.add(above)
        return target
