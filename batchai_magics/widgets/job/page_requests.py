"""Handles requests of a page: bytes, lines of a rank, search, files, last output of a failure, record.

Handlers may block.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.follow.job_errors import PREPARATION_LOG, ReadLog, first_failure, paths_of, redacted_logs
from batchai_magics.jobs.job_files import in_order, one_level, sent_files
from batchai_magics.jobs.job_logs import read_redacted, saving_text
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.log_tail import clean_lines, ranks_between
from batchai_magics.jobs.merged_log import MERGED, unmarked
from batchai_magics.models.job_execution import ERR, OUT, STDOUTERR, OutputFile, RankExit
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import SourcePaths
from batchai_magics.widgets.core.view_stream import UNKNOWN_REQUEST, Batch, PageData, reply_to
from batchai_magics.widgets.job.rank_lines import (
    ERROR_PATTERN,
    RankPage,
    Read,
    Search,
    pattern_of,
    rank_page,
    tail_page,
)

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


OpenJob = Callable[["Job"], str]

MAX_READ_BYTES = 1 << 18
MAX_HITS = 2000  # per reply
MAX_SEARCHES = 4  # cached
MAX_FILES = 1000  # per folder
READ_ONLY_REQUESTS = (
    "read",
    "lines",
    "search",
    "first_error",
    "list",
    "failure",
    "record",
)


class RequestHandler:
    """Handles a page's requests about one job; a reply has the request's `id`. `model` has its merged log.

    `open_job` creates the view of another job and returns the id of its model, or an empty text if it takes
    the place of this view; without it, "run again" is off. With `is_read_only`, only requests that change
    nothing are handled.
    """

    def __init__(
        self,
        job: Job,
        model: JobModel,
        open_job: OpenJob | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self._is_read_only = is_read_only
        self._job = job
        self._model = model
        self._open_job = open_job
        self._searches: OrderedDict[tuple[object, ...], Search] = OrderedDict()
        self._kinds = {
            "read": self._read,
            "lines": self._lines,
            "search": self._search,
            "first_error": self._first_error,
            "list": self._list,
            "failure": self._failure,
            "record": self._record,
            "cancel": self._cancel,
            "again": self._run_again,
            "profile": self._profile,
        }

    def handle(self, content: PageData) -> Batch:
        """Returns the reply; raises BatchAIError if the request cannot be fulfilled."""
        kind = content.get("kind", "")
        if kind not in self._kinds:
            return reply_to(content, text=UNKNOWN_REQUEST)
        if self._is_read_only and kind not in READ_ONLY_REQUESTS:
            return reply_to(content, text="This page is read-only.")
        return self._kinds[kind](content)

    def _read(self, content: PageData) -> Batch:
        file = _file(self._job, content)
        read, offset = self._bytes_of(file), int(content["offset"])
        if offset < 0:
            offset = max(0, read(0, 0).size + offset)
        chunk = read(offset, min(int(content["limit"]), MAX_READ_BYTES))
        is_shared = any(span.rank for span in chunk.spans)
        ranks = ranks_between(chunk.spans, chunk.offset, chunk.end) if is_shared else b""
        buffers = [chunk.data, *([ranks] if ranks else [])]
        return reply_to(content, *buffers, offset=chunk.offset, size=chunk.size)

    def _lines(self, content: PageData) -> Batch:
        file, rank = _file(self._job, content), int(content["rank"])
        offset, is_backward = int(content["offset"]), bool(content["backward"])
        lines = rank_page(self._reader(file), rank, offset, is_backward=is_backward)
        starts = array("d", lines.starts).tobytes()
        return reply_to(content, lines.data, starts, start=lines.start, end=lines.end, size=lines.size)

    def _search(self, content: PageData) -> Batch:
        """The number of matching lines so far, and those from index `first` onwards."""
        search = self._search_of(content)
        search.advance()
        first = int(content.get("first", 0))
        if first < 0:  # the last ones
            first = max(0, len(search.hits) - MAX_HITS)
        hits = search.hits[first : first + MAX_HITS].tobytes()
        return reply_to(content, hits, total=len(search.hits), first=first, complete=search.is_complete)

    def _search_of(self, content: PageData) -> Search:
        file, rank = _file(self._job, content), content.get("rank")
        key = (file, rank, content["query"], content["regex"])
        if key not in self._searches:
            pattern = pattern_of(str(content["query"]), is_regex=bool(content["regex"]))
            self._searches[key] = Search(self._reader(file), pattern, rank=rank)
        self._searches.move_to_end(key)
        while len(self._searches) > MAX_SEARCHES:
            self._searches.popitem(last=False)
        return self._searches[key]

    def _first_error(self, content: PageData) -> Batch:
        """The first line that looks like an error; until it is found, the next request searches on."""
        search = self._search_of({**content, "query": ERROR_PATTERN, "regex": True})
        search.advance(limit=1)
        offset = int(search.hits[0]) if search.hits else None
        if search.hits or search.is_complete:
            self._searches.popitem()  # the newest; a repeated request starts anew
        return reply_to(content, offset=offset, complete=search.is_complete)

    def _list(self, content: PageData) -> Batch:
        backend, directory, path = self._job.backend, str(content["directory"]), str(content["path"])
        try:
            files = one_level(backend, self._job.id, directory, path, limit=MAX_FILES + 1)
        except NotFoundError as error:
            return reply_to(content, text=error.message, missing=True)
        ordered = in_order(files[:MAX_FILES], self._sent_files)
        entries = [[file.name, file.kind.value, file.size_bytes] for file in ordered]
        return reply_to(content, entries=entries, more=len(files) > MAX_FILES)

    @cached_property
    def _sent_files(self) -> frozenset[str]:
        """The files that were sent with the job."""
        return sent_files(self._job.backend, self._job.id)

    def _failure(self, content: PageData) -> Batch:
        logs, files = redacted_logs(self._job.backend, self._job.id), self._job.files(STDOUTERR)
        return reply_to(content, failure=failure_report(self._job.show(), logs, files))

    def _record(self, content: PageData) -> Batch:
        provenance = self._job.provenance()
        facts = [*self._job.labels().facts(), *provenance.facts()]
        sections = [[title, text] for title, text in provenance.sections() if text]
        return reply_to(content, facts=list(map(list, facts)), sections=sections)

    def _cancel(self, content: PageData) -> Batch:
        is_saving = self._model.job is not None and bool(saving_text(self._model.job))
        self._job.backend.terminate(self._job.id, now=is_saving)
        return reply_to(content, text="")

    def _run_again(self, content: PageData) -> Batch:
        """Submits the job again and creates the view of the new one, or replies why it cannot."""
        from batchai_magics.commands.handlers.job_submission import resubmit_with_env

        if self._open_job is None:
            return reply_to(content, text="This view cannot run it again.", model="")
        try:
            submitted, notes = resubmit_with_env(self._job.backend, self._job.show(), os.environ)
        except BatchAIError as error:
            return reply_to(content, text=str(error), model="")
        submitted.patterns = dict(self._job.patterns)
        text = ". ".join((f"{submitted.name} was submitted", *notes))
        return reply_to(content, text=text, model=self._open_job(submitted))

    def _profile(self, content: PageData) -> Batch:
        """Starts a profile unless one is running; all views of the job show its result."""
        if not self._model.is_profiling:
            self._model.note_profile(is_profiling=True)
            threading.Thread(target=self._take_profile, name="batchai-profile", daemon=True).start()
        return reply_to(content, text="")

    def _take_profile(self) -> None:
        try:
            self._model.note_profile(self._job.profile())
        except BatchAIError as error:
            self._model.note_profile(fault=error.message)
        except Exception as error:  # noqa: BLE001 else the pages would wait forever
            self._model.note_profile(fault=f"The profile failed: {error}")

    def _reader(self, file: FileRef) -> Read:
        """Reads a file with secrets redacted, and the ranks that wrote it."""
        read = self._bytes_of(file)
        return lambda offset, limit: unmarked(read(offset, limit))

    def _bytes_of(self, file: FileRef) -> Read:
        """Reads a file with secrets redacted; in the merged log, the spans of stderr are marked."""
        backend, model = self._job.backend, self._model
        if file.path != MERGED:
            return partial(read_redacted, backend, file)

        def read_file(path: str, offset: int, limit: int) -> Chunk:
            return read_redacted(backend, replace(file, path=path), offset, limit)

        return lambda offset, limit: model.merged.read(read_file, offset, limit, is_complete=model.is_over)


def _file(job: Job, content: PageData) -> FileRef:
    return FileRef(job.id, str(content["file"]), str(content.get("directory") or STDOUTERR))


FAILURE_LINES = 30  # of the rank that failed first
LINES_OF_OTHERS = 6  # of each other failed rank
STDOUT_LINES = 10  # of the rank that failed first, if its last output is on stderr
MAX_OTHERS = 8


def failure_report(job: JobResource, read: ReadLog, files: Iterable[OutputFile]) -> PageData:
    """The last output of a failed job: of the rank that failed first and the others, or of its preparation.

    It is `Failure` in frontend/core/messages.d.ts, or empty.
    """
    if not job.has_failed:
        return {}
    failed = [rank for rank in job.ranks if rank.exit_code]
    if not failed:
        return _preparation_report(read, files)
    if not first_failure(job):
        return {}
    first, *others = (
        _rank_report(rank, read, is_first=rank is failed[0]) for rank in failed[: MAX_OTHERS + 1]
    )
    before: list[str] = []
    if first["file"] == ERR:
        page = rank_page(partial(read, OUT), failed[0].rank, -1, is_backward=True)
        before = clean_lines(tuple(_lines_of(page)[-STDOUT_LINES:]))
    more = max(0, len(failed) - 1 - MAX_OTHERS)
    return _with_user_paths({**first, "before": before, "others": others, "more": more}, paths_of(job))


def _rank_report(rank: RankExit, read: ReadLog, *, is_first: bool) -> PageData:
    """The last output of a rank, on stderr, else on stdout; of all ranks if lines cannot be attributed."""
    for file in (ERR, OUT):
        page = rank_page(partial(read, file), rank.rank, -1, is_backward=True)
        if page.starts:
            break
    else:
        file, page = ERR, tail_page(partial(read, ERR)) if is_first else RankPage(0, 0, 0)
    lines = _lines_of(page)[-(FAILURE_LINES if is_first else LINES_OF_OTHERS) :]
    return {
        "rank": rank.rank,
        "node": rank.node,
        "exit_code": rank.exit_code,
        "meaning": rank.meaning,
        "file": file,
        "offset": page.starts[-len(lines)] if lines else 0,
        "lines": clean_lines(tuple(lines)),
    }


def _preparation_report(read: ReadLog, files: Iterable[OutputFile]) -> PageData:
    """The last output of a failed job preparation."""
    logs = [file.path for file in files if PREPARATION_LOG in file.path and file.size_bytes]
    for log in sorted(logs, key=lambda name: not name.startswith("stderr")):
        page = tail_page(partial(read, log))
        if lines := _lines_of(page)[-FAILURE_LINES:]:
            offset = page.starts[-len(lines)]
            return {"file": log, "offset": offset, "lines": clean_lines(tuple(lines)), "others": []}
    return {}


def _lines_of(page: RankPage) -> list[str]:
    return page.data.decode("utf-8", "replace").split("\n")[: len(page.starts)]


def _with_user_paths(report: PageData, paths: SourcePaths) -> PageData:
    """The report with paths in the job's copy as the user's own; the page links the cell's."""
    report = dict(report)
    for name in {"lines", "before"} & report.keys():
        report[name] = list(map(paths.with_user_paths, report[name]))
    if "others" in report:
        report["others"] = [_with_user_paths(other, paths) for other in report["others"]]
    return report
