"""Why a job failed, read from its state and the ends of its logs, and how places in its code are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.backends.base.failure_logs import FailedRun, find_error
from batchai_magics.cell.cell_job_spec import OF_CELL, SCRIPT
from batchai_magics.cell.remedies import missing_in
from batchai_magics.cell.working_copy import is_of_folder
from batchai_magics.errors import BatchAIError
from batchai_magics.follow.failure_hints import hints_of
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import JobError, SourcePaths
from batchai_magics.records.record_files import SUBMISSION
from batchai_magics.records.submission import Submission

_SCRIPT_PATH = re.compile(r"\$(?:\{AZ_BATCHAI_INPUT_SCRIPT\}|AZ_BATCHAI_INPUT_SCRIPT)/([\w.-]+\.py)\b")
_RUN = re.compile(r"-\d+$")


def error_of(backend: Backend, job: JobResource) -> JobError | None:
    """Why a job failed; None for one that did not, or was cancelled or stopped."""
    if not job.has_failed:
        return None

    def read(file: str, offset: int, limit: int) -> Chunk:
        return backend.read(FileRef(job.id, file), offset, limit).redacted

    def files() -> list[str]:
        return [file.path for file in backend.files(job.id, STDOUTERR, "") if file.is_file]

    error = find_error(failed_run(job), read, files, paths_of(job))
    return error._replace(hints=hints_of(job, error, _remedies(backend, job, error))).bounded()


def _remedies(backend: Backend, job: JobResource, error: JobError) -> Mapping[str, str]:
    """The remedies that the submission recorded, if one may be of use."""
    if backend.records is None or not missing_in(error.exception):
        return {}
    try:
        return Submission.from_text(backend.records.read(job.id, (SUBMISSION,))[SUBMISSION]).remedies
    except (BatchAIError, KeyError, ValueError):  # it has no record
        return {}


def error_without_logs(job: JobResource) -> JobError | None:
    """Why a job failed as far as that is known without its logs; None for one that did not."""
    if not job.has_failed:
        return None
    return find_error(failed_run(job), lambda *_: Chunk(b"", 0, 0, True), list)


def failed_run(job: JobResource) -> FailedRun:
    """What is known about a failed job without its logs."""
    execution = job.execution
    if execution is None:
        return FailedRun(job.id.name, None, None, job.ranks, ())
    errors = [(error.code, error.message) for error in execution.errors if not error.is_warning]
    seconds = (execution.ended - execution.started).total_seconds() if execution.ended else None
    return FailedRun(job.id.name, seconds, execution.exit_code, job.ranks, errors)


def paths_of(job: JobResource) -> SourcePaths:
    """How places in a job's code are shown."""
    return source_paths(job.spec, job.id.name, job.output_path_segment.rpartition("/")[2])


def source_paths(spec: JobSpec, name: str, run: str = "") -> SourcePaths:
    """How places in the code of a job are shown.

    Args:
        spec: The job's description.
        name: The job's name.
        run: The name of its run's folder.
    """
    sent = next((each.path for each in spec.input_directories or () if each.id == SCRIPT), "")
    return SourcePaths(sent.rstrip("/").rpartition("/")[2], run, script_name(spec, name))


def script_name(spec: JobSpec, job: str) -> str:
    """The file name of the script that the cell contains; empty for a job without one or of a folder."""
    if spec.job_preparation and is_of_folder(spec.job_preparation.command_line):
        return ""
    found = _SCRIPT_PATH.findall(spec.settings.model_dump_json())
    own = {f"{name}{ending}.py" for name in (job, _RUN.sub("", job)) for ending in ("", OF_CELL)}
    return next((name for name in found if name in own), "")
