"""Small files go to our own server, and come from it, many in one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.paths import Question, provider
from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service.dialect import packs
from batchai_magics.backends.service.dialect.packs import Packed
from batchai_magics.models.answer import Answer, unreadable
from batchai_magics.models.execution import FileKind
from batchai_magics.models.times import parse_time


class PackedFiles:
    """The files of the shares, or containers, of our own server."""

    def __init__(self, connection: Connection, service: str) -> None:
        self._connection, self._service = connection, service

    def store(self, share: str, files: Mapping[str, bytes]) -> Sequence[ShareFile]:
        """Puts files on a share, in one request: all of them, or none when one was damaged on its way."""
        question = self._question("batchaiStoreFiles", share, content=packs.to_bytes(files))
        times = Answer.of(self._connection.ask(question), "the files that were sent").items("value")
        return [
            ShareFile(path, FileKind.FILE, len(data), parse_time(str(time)))
            for (path, data), time in zip(files.items(), times, strict=True)
        ]

    def fetch(self, share: str, paths: Sequence[str]) -> Mapping[str, Packed]:
        """Those of the files that the server gives together; the others have to be asked for one by one."""
        question = self._question("batchaiFetchFiles", share, body={"paths": list(paths)})
        with self._connection.translated():
            body = self._connection.send(question, is_streamed=True).read()
        try:
            return {file.path: file for file in packs.from_bytes(body)}
        except ValueError as error:
            raise unreadable("the files that were fetched", str(error)) from error

    def _question(
        self,
        action: str,
        share: str,
        body: Mapping[str, object] | None = None,
        *,
        content: bytes | None = None,
    ) -> Question:
        path = provider(self._connection.subscription, action)
        query = {"share": share, "service": self._service}
        return Question("POST", path, query, body, content=content)
