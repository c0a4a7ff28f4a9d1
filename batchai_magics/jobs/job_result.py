"""Decodes the `result` of a job's script: pure data, never code."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.cell.run_cell import FILE, FOLDER, MOST_BYTES, VERSION
from batchai_magics.errors import JobFailedError, NotFoundError, StorageError
from batchai_magics.follow.job_errors import error_of
from batchai_magics.jobs.job_logs import chunks
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

_NO_RESULT = "ResultNotFound"
_UNREADABLE = "ResultUnreadable"
_ARRAYS = "biufcmM"
_HINT = "In the cell, assign a global `result`: numbers, texts, lists, dicts, arrays or a table."


def read_result(backend: Backend, job: JobResource) -> Any:
    """The result of a job; see `Job.result`.

    Raises:
        NotFoundError: The job has not ended, or has no result (code ResultNotFound).
        JobFailedError: The job did not succeed.
        StorageError: The result could not be saved, or cannot be read (code ResultUnreadable).
    """
    if not job.state.is_final:
        text = f"job {job.id.name} has no result yet: it is {job.word}"
        raise NotFoundError(text, code=_NO_RESULT, hint="job.wait() waits for it.")
    if job.state is ExecutionState.FAILED:
        execution, error = job.execution, error_of(backend, job)
        reasons = "; ".join(detail.message for detail in execution.errors) if execution else ""
        text = f"no result: {error}" if error else f"no result: {job.id.name} was {job.word}: {reasons}"
        raise JobFailedError(text, exit_code=execution.exit_code if execution else None)
    if not any(directory.id == FOLDER for directory in job.spec.output_directories or ()):
        raise NotFoundError(f"the cell of job {job.id.name} sets no `result`", code=_NO_RESULT, hint=_HINT)
    data = b""
    for chunk in chunks(backend, FileRef(job.id, FILE, FOLDER)):
        data += chunk.data
        if len(data) > MOST_BYTES:
            raise _unreadable(job, f"it has more than {MOST_BYTES >> 20} MiB")
    if not data:
        text = f"job {job.id.name} left no result: rank 0 did not reach its script's end, or could not write"
        raise NotFoundError(text, code=_NO_RESULT, hint="Its log (job.log(file='stderr.txt')) says more.")
    return _value(job, data)


def _value(job: JobResource, data: bytes) -> Any:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(job, f"it is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise _unreadable(job, "another program, or another version of this one, has written it")
    if "refused" in document:
        text = f"the `result` of job {job.id.name} could not come back: {document['refused']}"
        raise StorageError(text, code=_NO_RESULT, hint=f"{_HINT} Anything else: a file below an --output.")
    try:
        return value_of(document.get("result"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(job, f"a value in it cannot be: {error}") from None


def _unreadable(job: JobResource, reason: str) -> StorageError:
    text = f"the result of job {job.id.name} cannot be read: {reason}"
    return StorageError(text, code=_UNREADABLE, hint=f"job.files({FOLDER!r}) lists what is there.")


def value_of(plain: Any) -> Any:
    """Decodes a value from the JSON that `cell.run_cell` writes.

    Raises:
        ValueError: It has an unknown tag, or an array of objects.
    """
    if isinstance(plain, list):
        return [value_of(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if not tag.startswith("$"):
        return {key: value_of(item) for key, item in plain.items()}
    if len(plain) != 1 or tag not in _VALUES:
        raise ValueError(f"there is no {tag}")
    return _VALUES[tag](plain[tag])


def _array(body: Any) -> Any:
    import numpy as np

    kind = np.dtype(str(body["type"]))
    if kind.kind not in _ARRAYS:
        raise ValueError(f"an array of {kind}")
    flat = np.frombuffer(base64.b64decode(body["data"]), dtype=kind)
    return flat.reshape([int(count) for count in body["shape"]]).copy()


def _frame(body: Any) -> Any:
    import pandas as pd

    columns, data = value_of(body["columns"]), [value_of(column) for column in body["data"]]
    index = pd.Index(value_of(body["index"]))
    series = [pd.Series(column, index=index) for column in data]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    frame.columns = columns
    return frame


def _series(body: Any) -> Any:
    import pandas as pd

    return pd.Series(value_of(body["data"]), index=pd.Index(value_of(body["index"])))


_VALUES: dict[str, Callable[[Any], Any]] = {
    "$tuple": lambda items: tuple(map(value_of, items)),
    "$set": lambda items: set(map(value_of, items)),
    "$dict": lambda pairs: {value_of(key): value_of(item) for key, item in pairs},
    "$bytes": base64.b64decode,
    "$time": lambda text: (datetime if "T" in text else date).fromisoformat(text),
    "$array": _array,
    "$frame": _frame,
    "$series": _series,
}
