"""What a page asks of the kernel: bytes, a rank's lines, matches, files, the first failure. It may block."""

from __future__ import annotations

import os
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.logs import shown
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.widgets.job.batch import Batch
from batchai_magics.widgets.job.failure import failure_of
from batchai_magics.widgets.job.feed import JobFeed
from batchai_magics.widgets.job.log_search import ERROR, Search, pattern_of
from batchai_magics.widgets.job.merged_log import MERGED, without_marks
from batchai_magics.widgets.job.rank_lines import Read, lines_of, ranks_between

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

OpenJob = Callable[["Job"], str]

MAX_READ_BYTES = 1 << 18
HITS = 2000  # of one answer
SEARCHES = 4  # that are remembered
ERROR_SLICE_S = 2.0
MOST_FILES = 1000  # of one folder


class Answers:
    """Answers a page's questions about one job. A reply has the question's `id`. `feed` has its merged log.

    `open_job` makes the view of another job and gives its model's id; without it a job is not run again here.
    """

    def __init__(self, job: Job, open_job: OpenJob | None = None, *, feed: JobFeed | None = None) -> None:
        self._job = job
        self._feed = feed
        self._open_job = open_job
        self._searches: OrderedDict[tuple[object, ...], Search] = OrderedDict()
        self._kinds = {
            "read": self._read,
            "lines": self._lines,
            "search": self._search,
            "first_error": self._first_error,
            "list": self._list,
            "failure": self._failure,
            "cancel": self._cancel,
            "again": self._again,
        }

    def takes(self, content: dict[str, Any]) -> bool:
        """Whether this is such a question."""
        return content.get("kind") in self._kinds

    def to(self, content: dict[str, Any]) -> Batch:
        """The answer; one with `text` says why there is none."""
        try:
            return self._kinds[content["kind"]](content)
        except BatchAIError as error:
            return answer(content, error.message)

    def _read(self, content: dict[str, Any]) -> Batch:
        file = _file(self._job, content)
        read, offset = self._bytes_of(file), int(content["offset"])
        if offset < 0:
            offset = max(0, read(0, 0).size + offset)
        chunk = read(offset, min(int(content["limit"]), MAX_READ_BYTES))
        page = {"kind": "page", "id": content["id"], "file": file.path}
        is_shared = any(span.rank for span in chunk.spans)
        ranks = ranks_between(chunk.spans, chunk.offset, chunk.end) if is_shared else b""
        return Batch(
            {**page, "offset": chunk.offset, "size": chunk.size}, [chunk.data, *([ranks] if ranks else [])]
        )

    def _lines(self, content: dict[str, Any]) -> Batch:
        file, rank = _file(self._job, content), int(content["rank"])
        offset, is_backward = int(content["offset"]), bool(content["backward"])
        lines = lines_of(self._reader(file), rank, offset, is_backward=is_backward)
        page = {"kind": "lines", "id": content["id"], "file": file.path, "rank": rank}
        place = {"start": lines.start, "end": lines.end, "size": lines.size}
        return Batch({**page, **place}, [lines.data, array("d", lines.starts).tobytes()])

    def _search(self, content: dict[str, Any]) -> Batch:
        """How many lines match so far, and those from the `first`-th on."""
        search = self._search_of(content)
        search.go_on()
        first = int(content.get("first", 0))
        if first < 0:  # the last ones
            first = max(0, len(search.hits) - HITS)
        progress = {"total": len(search.hits), "first": first, "complete": search.is_complete}
        return _reply(content, progress, search.hits[first : first + HITS].tobytes())

    def _search_of(self, content: dict[str, Any]) -> Search:
        file, rank = _file(self._job, content), content.get("rank")
        key = (file, rank, content["query"], content["regex"])
        if key not in self._searches:
            pattern = pattern_of(str(content["query"]), is_regex=bool(content["regex"]))
            self._searches[key] = Search(self._reader(file), pattern, rank=rank)
        self._searches.move_to_end(key)
        while len(self._searches) > SEARCHES:
            self._searches.popitem(last=False)
        return self._searches[key]

    def _first_error(self, content: dict[str, Any]) -> Batch:
        pattern = pattern_of(ERROR, is_regex=True)
        search = Search(self._reader(_file(self._job, content)), pattern, rank=content.get("rank"))
        search.go_on(slice_s=ERROR_SLICE_S, limit=1)
        offset = int(search.hits[0]) if search.hits else None
        return _reply(content, {"offset": offset, "complete": search.is_complete})

    def _list(self, content: dict[str, Any]) -> Batch:
        backend, directory, path = self._job.backend, str(content["directory"]), str(content["path"])
        files = backend.files(self._job.id, directory, path, limit=MOST_FILES + 1)
        entries = [[file.name, file.kind.value, file.size_bytes] for file in files[:MOST_FILES]]
        return _reply(content, {"entries": entries, "more": len(files) > MOST_FILES})

    def _failure(self, content: dict[str, Any]) -> Batch:
        def read(file: str, offset: int, limit: int) -> Chunk:
            return shown(self._job.backend, FileRef(self._job.id, file), offset, limit)

        return _reply(content, {"failure": failure_of(self._job.show(), read, self._job.files(STDOUTERR))})

    def _cancel(self, content: dict[str, Any]) -> Batch:
        self._job.cancel()
        return answer(content, "")

    def _again(self, content: dict[str, Any]) -> Batch:
        """Runs the job once more, and makes the view of that run. It says why where it cannot."""
        from batchai_magics.commands.handlers.resubmit import again

        if self._open_job is None:
            return _reply(content, {"text": "This view cannot run it again.", "model": ""})
        try:
            made = again(self._job.backend, self._job.show(), os.environ)
        except BatchAIError as error:
            return _reply(content, {"text": str(error), "model": ""})
        made.patterns = dict(self._job.patterns)
        return _reply(content, {"text": f"{made.name} was submitted", "model": self._open_job(made)})

    def _reader(self, file: FileRef) -> Read:
        """A file, its secrets hidden, with the ranks that wrote it."""
        read = self._bytes_of(file)
        return lambda offset, limit: without_marks(read(offset, limit))

    def _bytes_of(self, file: FileRef) -> Read:
        """A file, its secrets hidden; of the merged log, it is marked what is of stderr."""
        backend = self._job.backend
        feed = self._feed
        if file.path != MERGED or feed is None:
            return partial(shown, backend, file)

        def read_file(path: str, offset: int, limit: int) -> Chunk:
            return shown(backend, replace(file, path=path), offset, limit)

        return lambda offset, limit: feed.merged.read(read_file, offset, limit, is_complete=feed.is_over)


def answer(content: dict[str, Any], text: str) -> Batch:
    """The answer in words; empty when all is well."""
    return Batch({"kind": "answer", "id": content.get("id", ""), "text": text})


def _reply(content: dict[str, Any], parts: dict[str, Any], *buffers: bytes) -> Batch:
    return Batch({"kind": "reply", "id": content["id"], **parts}, list(buffers))


def _file(job: Job, content: dict[str, Any]) -> FileRef:
    return FileRef(job.id, str(content["file"]), str(content.get("directory") or STDOUTERR))
