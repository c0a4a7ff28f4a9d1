"""Why a job failed, from its state and the ends of its logs; hints; and its code under the user's paths."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.cell.cell_job_spec import OF_CELL, SCRIPT, is_of_folder
from batchai_magics.cell.notebook_variables import missing_in, remedy_for
from batchai_magics.errors import DISK_FULL, BatchAIError
from batchai_magics.log_lines import lines_at_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.models.job_execution import ERR, OUT, STDOUTERR, RankExit, node_name
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import (
    NO_PATHS,
    FailedProcess,
    JobError,
    LastOutput,
    SourcePaths,
    error_of_preparation,
    error_of_process,
)
from batchai_magics.records.record_files import SUBMISSION
from batchai_magics.records.submission import Submission

READ_LINES = 200  # lines at the end of a log in which a traceback is searched
WINDOW_BYTES = 1 << 16  # per read
MAX_SCAN_BYTES = 1 << 22  # of the end of a log that other processes write too

ReadLog = Callable[[str, int, int], Chunk]  # file, offset, limit; with secrets redacted

_SCRIPT_PATH = re.compile(r"\$(?:\{AZ_BATCHAI_INPUT_SCRIPT\}|AZ_BATCHAI_INPUT_SCRIPT)/([\w.-]+\.py)\b")
_RUN = re.compile(r"(?:-t\d+)?(?:-\d+)?$")  # the number of a trial, and of a repeated run
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_NO_PACKAGE = "ImportError: attempted relative import with no known parent package"
_SCRIPT_PLACE = re.compile(r"(?P<path>\w+(?:/\w+)+)\.py:\d+")
_HINTS = {  # expression for the exception → hint
    r"Duplicate GPU detected|CUDA error: invalid device ordinal": (
        "start one process per GPU (--processes N); gloo lets processes share a GPU, NCCL does not"
    ),
    r"^EOFError: EOF when reading a line": (
        "a job has no stdin: pass what it reads as an argument, a variable or a file"
    ),
}
_PREPARATION_FAILED = "JobPreparationFailed"
PREPARATION_LOG = "job_prep"  # in the names of its logs
_PACKAGES = {  # module → package, where the names differ
    "Bio": "biopython",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "git": "GitPython",
    "hydra": "hydra-core",
    "ignite": "pytorch-ignite",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}


def redacted_logs(backend: Backend, job: ResourceId) -> ReadLog:
    """Reads the logs of a job, secrets as asterisks."""
    return lambda file, offset, limit: backend.read(FileRef(job, file), offset, limit).redacted


def last_output(read: ReadLog, file: str, *, rank: int | None = None) -> LastOutput:
    """The last lines of a log, or of one rank's output in it, as a terminal shows them."""
    lines = last_lines(read, file, READ_LINES, rank=rank)
    return LastOutput(file, tuple(strip_controls(visible_text(line)) for line in lines))


def last_lines(read: ReadLog, file: str, count: int, *, rank: int | None = None) -> tuple[str, ...]:
    """The last `count` lines within the last 64 KiB of a log, or of a rank within the last 4 MiB.

    If the log does not record which rank wrote which bytes, lines of all ranks count.
    """
    size = 0
    while (end := read(file, size, 1).size) > size:
        size = end
    start, data = size, b""
    while start > 0 and data.count(b"\n") <= count and size - start < MAX_SCAN_BYTES:
        begin = max(0, start - WINDOW_BYTES)
        chunk = read(file, begin, start - begin)
        if rank is None or not chunk.spans:
            data = chunk.data + data
            break
        spans = (span for span in chunk.spans if span.rank == rank)
        written = (chunk.data[max(0, s.start - chunk.offset) : s.end - chunk.offset] for s in spans)
        data, start = b"".join(written) + data, begin
    lines = (line.rstrip(b"\r\n") for line in lines_at_end(data, count))
    return tuple(line.decode("utf-8", errors="replace") for line in lines)


def error_of(backend: Backend, job: JobResource) -> JobError | None:
    """Why a job failed; None for a job that did not fail, or was cancelled or stopped."""
    if not job.has_failed:
        return None

    def files() -> list[str]:
        return [file.path for file in backend.files(job.id, STDOUTERR, "") if file.is_file]

    error = _error(job, redacted_logs(backend, job.id), files, paths_of(job))
    remedies: Mapping[str, str] = {}
    if backend.records and missing_in(error.exception):  # the submission may have recorded a remedy
        with contextlib.suppress(BatchAIError, KeyError, ValueError):  # there is no valid record
            record = backend.records.read(job.id, (SUBMISSION,))[SUBMISSION]
            remedies = Submission.from_text(record).remedies
    return error._replace(hints=hints_of(job, error, remedies)).bounded()


def error_without_logs(job: JobResource) -> JobError | None:
    """Why a job failed, as far as that is known without its logs; None for a job that did not fail."""
    if not job.has_failed:
        return None
    return _error(job, lambda *_: Chunk(b"", 0, 0, True), list, NO_PATHS)


def cause_of(backend: Backend, job: JobResource) -> str:
    """Why a job failed, in one line, as far as its logs can be read; empty for a job that did not fail."""
    try:
        error = error_of(backend, job)
    except BatchAIError:
        error = error_without_logs(job)
    return error.cause if error else ""


def first_failure(job: JobResource) -> RankExit | None:
    """The process that failed first; None if none did, or the job was ended from outside."""
    if job.execution is None or job.execution.exit_code is None:
        return None
    return next((rank for rank in job.ranks if rank.exit_code), None)


def _error(
    job: JobResource, read: ReadLog, files: Callable[[], Iterable[str]], paths: SourcePaths
) -> JobError:
    """Why a job failed; `read` reads its logs with secrets redacted, `files` lists them."""
    execution, seconds, exit_code = job.execution, None, None
    if execution:
        exit_code = execution.exit_code
        seconds = (execution.ended - execution.started).total_seconds() if execution.ended else None
    failed = first_failure(job)
    errors = [(error.code, error.message) for error in job.failures] if execution else []
    if failed and failed.exit_code:
        process = FailedProcess(failed.rank, node_name(failed.node), failed.exit_code, failed.meaning)
        outputs = [last_output(read, name, rank=failed.rank) for name in (ERR, OUT)]
        error = error_of_process(process, outputs, paths)
        if disk_full := dict(errors).get(DISK_FULL):  # the message may have been in the lost output
            error = error._replace(reason=f"{error.reason}. {disk_full}")
    elif exit_code is not None and _PREPARATION_FAILED in dict(errors):
        node, output = next(_preparation_outputs(read, files()), ("", None))
        error = error_of_preparation(node, exit_code, output, "preparation")
    else:
        reason = "; ".join(message for _, message in errors) or f"exit code {exit_code}"
        error = JobError("", reason, exit_code=exit_code)
    return error._replace(job=job.id.name, seconds=seconds).bounded()


def _preparation_outputs(read: ReadLog, files: Iterable[str]) -> Iterator[tuple[str, LastOutput]]:
    """The last output of each preparation that wrote something, with its node, if the log names it."""
    logs = [name for name in files if PREPARATION_LOG in name]
    for name in sorted(logs, key=lambda name: (not name.startswith("stderr"), name)):
        output = last_output(read, name)
        if output.last_line:
            node = name.partition(f"{PREPARATION_LOG}-")[2].removesuffix(".txt")
            yield node_name(node), output


def paths_of(job: JobResource) -> SourcePaths:
    """The translation of paths in a job's code to the user's own."""
    return source_paths(job.spec, job.id.name, job.output_path_segment.rpartition("/")[2])


def source_paths(spec: JobSpec, name: str, run: str = "") -> SourcePaths:
    """The translation of paths in the code of a job of this name; `run` is the name of its run's folder."""
    inputs = spec.input_directories or ()
    folder = next((directory.path for directory in inputs if directory.id == SCRIPT), "")
    return SourcePaths(folder.rstrip("/").rpartition("/")[2], run, script_name(spec, name))


def script_name(spec: JobSpec, job: str) -> str:
    """The file name of the script that the cell contains; empty for a job without one or of a folder."""
    if spec.job_preparation and is_of_folder(spec.job_preparation.command_line):
        return ""
    paths = _SCRIPT_PATH.findall(spec.settings.model_dump_json())
    script_names = {f"{name}{ending}.py" for name in (job, _RUN.sub("", job)) for ending in ("", OF_CELL)}
    return next((name for name in paths if name in script_names), "")


def hints_of(job: JobResource, error: JobError, remedies: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Hints for this failure; `remedies` are hints for names and modules that the script may lack."""
    if remedy := remedy_for(error.exception, remedies or {}):  # first: a module of the user is not installed
        return (remedy,)
    if hint := _relative_import_hint(error):
        return (hint,)
    if match := _MISSING_MODULE.match(error.exception):
        python = getattr(job.spec.settings, "python_interpreter_path", None)
        where = python or "the Python of the nodes (`python` on their PATH)"
        module = match["name"].partition(".")[0]
        package = _PACKAGES.get(module, module)
        return (f"{where} has no module {match['name']}: add --with {package}, or install it with --prep",)
    return tuple(hint for pattern, hint in _HINTS.items() if re.search(pattern, error.exception))


def _relative_import_hint(error: JobError) -> str:
    """The hint for a script of a package that was started by its path; empty for any other failure."""
    script = _SCRIPT_PLACE.fullmatch(error.place)
    if script is None or not error.exception.startswith(_NO_PACKAGE):
        return ""
    module = script["path"].replace("/", ".")
    return f"a script that is started by its path is in no package: batchai run -m {module}"
