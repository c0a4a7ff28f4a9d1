"""Records what the submitter of a job knows: code, arguments, variables, git state; without secrets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import platform
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, SecretStr

from batchai_magics.backends.base import Backend
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_options import RUNNERS
from batchai_magics.cell.cell_request import CellSource
from batchai_magics.cell.notebook_variables import local_files, local_modules, variables_of_submitter
from batchai_magics.cell.run_cell import VARIABLES
from batchai_magics.config import Settings
from batchai_magics.jobs.git_process import GitOutput, GitProcess, RepositorySettings, work_tree_of
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.runs.labels import Labels, bounded, is_parameter, of_arguments
from batchai_magics.models.secret_masking import (
    MASK,
    SecretMask,
    is_secret_file,
    is_secret_name,
    without_secrets,
)
from batchai_magics.records.record_files import LABELS, SUBMISSION
from batchai_magics.records.submission import (
    MAX_DIFF,
    MAX_TEXT,
    Code,
    GitState,
    Submission,
    Variable,
    cut,
    shape_of,
    upload_name,
)
from batchai_magics.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self

TIMEOUT_S = 2.0  # for all processes, from the first one's start; a submission never waits longer
MAX_OUTPUT = 4 * MAX_DIFF  # bytes
MAX_UNTRACKED = 100
_NO_COMMIT = 128  # exit status of `git diff HEAD` before the first commit
_STATUS = (
    "status",
    "--porcelain=v2",
    "--branch",
    "--untracked-files=normal",
    "--ignore-submodules=dirty",
    "-z",
)
_DIFF = (
    *("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--submodule=short", "--ignore-submodules=dirty"),
)
_FILE_OF_DIFF = re.compile(r"(?m)^(?=diff --git )")
_LOGIN = re.compile(r"(?<=://)[^/@]*@")
_CHANGED = re.compile(rb"(?:^|\0)[12u] ")  # a tracked file in the status; without any there is no difference


class GitCheckout:
    """The git state of a folder, which a thread reads from the construction on.

    As a context manager, it kills a `git` process that still runs at the exit.
    """

    def __init__(self, folder: Path, *, timeout_s: float | None = None) -> None:
        self._deadline = time.monotonic() + (TIMEOUT_S if timeout_s is None else timeout_s)
        self._process: GitProcess | None = None
        self._is_over = False
        self._state: GitState | None = None
        self._thread: threading.Thread | None = None
        if root := work_tree_of(folder):
            self._thread = threading.Thread(target=self._read, args=(root,), name="batchai-git", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        if self._process:
            self._process.kill()

    @property
    def state(self) -> GitState | None:
        """The state; None outside a repository. Blocks until `git` is done or times out."""
        if self._thread:
            self._thread.join()
        return self._state

    def _read(self, root: Path) -> None:
        settings = RepositorySettings.read(root)
        state, options = GitState(remote=_LOGIN.sub("", settings.remote)), settings.without_filters
        if settings.problem:
            self._state = state._replace(problem=settings.problem)
            return
        status, diff = self._output(GitProcess(root, _STATUS, options)), GitOutput()
        if _CHANGED.search(status.data) and not self._is_over:
            diff = self._output(GitProcess(root, _DIFF, options), accepted=(0, _NO_COMMIT))
        if problem := status.problem or diff.problem:
            self._state = state._replace(problem=problem)
        else:
            texts = (output.data.decode("utf-8", "replace") for output in (status, diff))
            self._state = with_status(state, *texts)

    def _output(self, process: GitProcess, *, accepted: Collection[int] = (0,)) -> GitOutput:
        self._process = process
        return process.output(self._deadline - time.monotonic(), accepted=accepted, most=MAX_OUTPUT)


def with_status(state: GitState, status: str, diff: str) -> GitState:
    """The state with what `git status --porcelain=v2 --branch -z` and `git diff` have printed."""
    head, untracked = dict[str, str](), list[str]()
    for line in status.split("\0"):
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            head[name] = value
        elif kind == "?":
            untracked.append(rest)
    shown: list[str] = []
    for part in _FILE_OF_DIFF.split(diff):
        file = part.partition("\n")[0].rpartition(" b/")[2].strip('"')
        if not is_secret_file(file):
            shown.append(part)
    text, is_cut = cut("".join(shown), MAX_DIFF)
    return state._replace(
        commit=head.get("branch.oid", "").replace("(initial)", ""),
        branch=head.get("branch.head", "").replace("(detached)", ""),
        diff=text,
        is_diff_cut=is_cut,
        untracked=tuple(untracked[:MAX_UNTRACKED]),
    )


MAX_VALUE = 200  # characters of a variable's value
MAX_ITEMS = 20  # of a collection whose value is recorded
MAX_HASHED = 1 << 20  # bytes of an upload whose digest is recorded: the path covers all of them
MAX_UPLOADS = 500
_ARGUMENTS = ("command_line_args", "command_line", "worker_command_line_args", "master_command_line_args")


def checkout_for(request: CellRequest, settings: Settings) -> GitCheckout | None:
    """The git state to record with the jobs of a cell, read from now on; None if nothing is recorded."""
    if request.has_no_provenance or settings.provenance != "full":
        return None
    return GitCheckout(request.source.folder if request.source else Path.cwd())


def record_files(request: CellRequest, checkout: GitCheckout | None) -> dict[str, str]:
    """The record files of the job: name → text; without a checkout only its labels, if it has any.

    Waits for `git`, up to its timeout.
    """
    if checkout is None:
        labels = Labels(request.tags, patterns=request.patterns)
        return {LABELS: labels.to_text()} if any(labels) else {}
    mask = SecretMask([*secrets_of(request.spec), *request.notify])
    source = request.source or CellSource(Path.cwd())
    arguments = mask.line(source.arguments or arguments_of(request.spec))
    parameters: dict[str, object] = {**of_arguments(arguments)}
    for name, value in {**source.expanded, **source.uses}.items():
        if is_parameter(value) and not is_secret_name(name):
            parameters[name] = value
    spec, git, container = request.spec, checkout.state, request.spec.container_settings
    kind, code = "cell", mask(source.script)
    if not source.script:
        described = mask.data(spec.to_masked_wire(MASK))
        kind, code = "description", json.dumps(described, indent=2, ensure_ascii=False)
    submission = Submission(
        code=Code(kind, source.name, *cut(code, MAX_TEXT)),
        submitted=time.time(),
        line=mask.line(source.line),
        arguments=arguments,
        variables={name: _variable(name, value, mask) for name, value in source.uses.items()},
        uploads=_digests(request.uploads, source.name),
        git=git and git._replace(diff=mask(git.diff)),
        environment={
            item.name: mask.named(item.name, item.value) for item in spec.environment_variables or ()
        },
        secrets=spec.secret_names,
        image=container.image_source_registry.image if container else "",
        python=platform.python_version(),
        package=__version__,
        remedies={**source.remedies, **_remedies(request, source)},
    )
    recorded = without_secrets(bounded(parameters), mask)
    return {
        SUBMISSION: submission.to_text(),
        LABELS: Labels(request.tags, parameters=recorded, patterns=request.patterns).to_text(),
    }


def records_of_another(backend: Backend, job: ResourceId) -> dict[str, str]:
    """The record files of a run that repeats another: the same code and parameters, no tags."""
    files = backend.records.read(job, (SUBMISSION, LABELS)) if backend.records else {}
    records = {}
    with contextlib.suppress(KeyError, ValueError):  # it has no record
        record = Submission.from_text(files[SUBMISSION])
        first = record.resubmitted or job.name
        records[SUBMISSION] = record._replace(resubmitted=first, submitted=time.time()).to_text()
        labels = Labels.from_json(json.loads(files[LABELS]))
        records[LABELS] = labels._replace(tags=(), note="").to_text()
    return records


def secrets_of(value: object) -> Iterator[str]:
    """The values of all secrets in a description or a part of it: variables, keys, passwords."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for field in vars(value).values():
            yield from secrets_of(field)
    elif isinstance(value, tuple):
        for item in value:
            yield from secrets_of(item)


def arguments_of(spec: JobSpec) -> str:
    """The arguments of a described job's program."""
    return next((text for name in _ARGUMENTS if (text := getattr(spec.settings, name, None))), "")


def _digests(uploads: Mapping[str, bytes], script: str) -> dict[str, str]:
    """The digests of the uploads, or their sizes, by path."""
    recorded = {script, *RUNNERS, VARIABLES}  # recorded as the code and its variables
    digests: dict[str, str] = {}
    for path, data in uploads.items():
        if upload_name(path) not in recorded and len(digests) < MAX_UPLOADS:
            is_small = len(data) <= MAX_HASHED
            digests[path] = f"sha256:{hashlib.sha256(data).hexdigest()}" if is_small else f"{len(data)} bytes"
    return digests


def _remedies(request: CellRequest, source: CellSource) -> dict[str, str]:
    """The remedies for what the submitter has and the scripts may lack: modules, files, variables."""
    spec, sent = request.spec, list(map(upload_name, request.uploads))
    modules = local_modules(source.folder, source.name, sent) if source.script else {}
    scripts = [source.script]
    scripts += [
        data.decode(errors="replace") for path, data in request.uploads.items() if path.endswith(".py")
    ]
    files = local_files(source.folder, scripts, sent) if source.script else {}
    return {**modules, **files, **variables_of_submitter(scripts, os.environ, spec.variable_names)}


def _variable(name: str, value: object, mask: SecretMask) -> Variable:
    kind = type(value).__name__
    if is_secret_name(name):
        return Variable(kind, MASK)
    text = repr(value) if _is_short(value) else ""
    if text and len(text) <= MAX_VALUE:
        return Variable(kind, mask.line(text))
    data: bytes | memoryview
    try:
        data = memoryview(value).cast("B")  # type: ignore[arg-type]  # TypeError without the buffer protocol
    except (TypeError, ValueError, BufferError):
        data = pickle.dumps(value, protocol=4)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    dtype = str(getattr(value, "dtype", ""))
    return Variable(kind, "", shape_of(value), dtype, memoryview(data).nbytes, digest)


def _is_short(value: object) -> bool:
    """Whether the value is small enough for its text to be recorded."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return not isinstance(value, str) or len(value) <= MAX_VALUE
    if isinstance(value, dict):
        return len(value) <= MAX_ITEMS and all(_is_short(item) for pair in value.items() for item in pair)
    return isinstance(value, (list, tuple, set)) and len(value) <= MAX_ITEMS and all(map(_is_short, value))
