"""A magic line and a cell's body become a job description; no IPython here, nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from batchai_magics.cell.option_values import CellOptions, values_of
from batchai_magics.cell.options import read_options
from batchai_magics.cell.result import sets_result
from batchai_magics.cell.script import Bundle, bundle, check_script, program
from batchai_magics.cell.spec import (
    MOUNT_ROOT,
    lay_over,
    script_fields,
    with_mounts,
    with_program,
    with_script_folder,
)
from batchai_magics.cell.uploads import read_uploads
from batchai_magics.cell.variables import notes as variable_notes
from batchai_magics.cell.variables import shipped
from batchai_magics.config import DEFAULT_ACCOUNT, Settings
from batchai_magics.errors import UsageError, translate_file_errors
from batchai_magics.models.documents.load import Description, load_file, load_text, name_after
from batchai_magics.models.ids import Kind, ResourceId, check_name, cluster_id, cluster_named_in, workspace_id
from batchai_magics.models.job import JobSpec
from batchai_magics.models.storage import AccountKey
from batchai_magics.options.option_parsing import expand, split_line

_OWN_STORAGE = ("local", "slurm")  # backends that keep the shares that they mount
_MOST_LISTED = 200  # files of an upload that a dry run names


@dataclass(frozen=True)
class CellRequest:
    """What a cell asks for: the job, the files it needs on the share, and how to go about it.

    `uploads` maps a path on the settings' share to the content to put there before the job is created.
    """

    name: str
    spec: JobSpec
    workspace: str
    experiment: str
    cluster: str
    uploads: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    variable: str = "job"  # the Python name that the handle is bound to
    is_waiting: bool = False  # --wait
    is_new: bool = False  # --new
    is_same: bool = False  # --same
    is_growing: bool = False  # --grow
    is_dry_run: bool = False  # --dry-run
    patterns: Mapping[str, str] = field(default_factory=dict)  # --metric NAME=REGEX
    notes: tuple[str, ...] = ()  # what to know of the job's file


@dataclass(frozen=True)
class _Target:
    """Where the job goes, and the path below which it finds its share."""

    workspace: ResourceId
    experiment: str
    job: str
    share_path: str


@dataclass(frozen=True)
class _Source:
    """What the job is made from: a description, and the files that belong beside the script."""

    description: Description
    files: Mapping[str, bytes]

    def beside(self, more: Mapping[str, bytes]) -> _Source:
        """The same with more files beside the script."""
        twice = next((name for name in more if name in self.files), "")
        if twice:
            raise UsageError(f"--upload {twice}: the script needs a file of that name", hint="rename it")
        return _Source(self.description, {**self.files, **more})


def parse(
    line: str,
    body: str,
    *,
    settings: Settings,
    names: Mapping[str, object] | None = None,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    default_name: str = "",
) -> CellRequest:
    """What the line and the body of a cell ask for.

    `names` are the variables for `{name}` on the line, `folder` is where files are looked for (the working
    folder), `env` is where secrets are taken from (the process's environment), `default_name` is for a cell
    that names its job nowhere. Raises UsageError for anything written wrongly, HelpRequested for `--help`.
    """
    env = os.environ if env is None else env
    names = names or {}
    asked = values_of(read_options(split_line(line, names)), env)
    body = expand(body, names, place="in the cell") if asked.is_template else body
    folder = folder or Path.cwd()
    target = _target(asked, settings, folder, default_name)
    account = _account_key(asked, env, settings)
    asked = replace(asked, has_result=not asked.is_described and sets_result(body))
    asked = with_program(asked, target.job)
    with translate_file_errors():
        source = _source(asked, body, target, folder=folder, account=account)
    source = source.beside({**shipped(asked.uses, names), **_program_of(asked)})
    sent = bundle(target.experiment, target.job, source.files)
    fields = lay_over(source.description.body, asked, target.share_path)
    fields = with_mounts(fields, asked.mounts, account=account, workspace=target.workspace)
    fields = with_script_folder(fields, target.share_path, sent)
    cluster = cluster_id(asked.cluster or cluster_named_in(fields) or settings.cluster, target.workspace)
    spec = source.description.checked(JobSpec, {**fields, "cluster": {"id": str(cluster)}})
    notes = (*source.description.notes, *variable_notes(body, asked.uses, names))
    return _request(asked, target, spec, notes=notes, cluster=cluster, sent=sent)


def _program_of(asked: CellOptions) -> Mapping[str, bytes]:
    return program() if asked.needs_program else {}


def describe(request: CellRequest) -> str:
    """The request for people to read: the whole description (secrets as ***), and what would be uploaded."""
    head = f"job {request.name} in experiment {request.experiment} of workspace {request.workspace}"
    text = json.dumps(request.spec.to_masked_wire(), indent=2, ensure_ascii=False)
    lines = [f"{head}, on cluster {request.cluster}", text]
    if request.uploads:
        lines += ["to upload:", *_listed(request.uploads)]
    if request.patterns:
        lines += ["metrics:", *(f"  {name}  {pattern}" for name, pattern in request.patterns.items())]
    return "\n".join(lines)


def _target(asked: CellOptions, settings: Settings, folder: Path, default_name: str) -> _Target:
    if asked.is_new and asked.is_same:
        raise UsageError("--new and --same are both given", hint="keep one of them")
    name = asked.name or (name_after(_file(asked.file, folder)) if asked.file else default_name)
    if not name:
        raise UsageError(
            "the job has no name", hint="the first word of the line names it: %%batchai_job resnet …"
        )
    workspace = workspace_id(settings, asked.workspace or "")
    experiment = check_name(asked.experiment or settings.experiment, Kind.EXPERIMENT)
    job = check_name(name, Kind.JOB)
    return _Target(workspace, experiment, job, f"{MOUNT_ROOT}/{settings.share_mount}")


def _account_key(asked: CellOptions, env: Mapping[str, str], settings: Settings) -> AccountKey:
    """The storage account of the mounts: as `az` found it, from options, environment or settings."""
    return AccountKey(
        asked.storage_account_name or env.get("AZURE_BATCHAI_STORAGE_ACCOUNT") or settings.storage_account,
        asked.storage_account_key or env.get("AZURE_BATCHAI_STORAGE_KEY") or settings.storage_key,
        default=DEFAULT_ACCOUNT if settings.backend in _OWN_STORAGE else "",
    )


def _source(asked: CellOptions, body: str, target: _Target, *, folder: Path, account: AccountKey) -> _Source:
    files = read_uploads(asked.uploads, folder)
    if asked.is_described:
        return _Source(_described(asked, body, folder, account), files)
    name = f"{target.job}.py"
    if name in files:
        raise UsageError(
            f"--upload {name}: the script itself has that name", hint="rename the file or the job"
        )
    wire = {"properties": script_fields(asked, target.job, target.share_path)}
    return _Source(Description("the cell", wire), {name: check_script(body), **files})


def _described(asked: CellOptions, body: str, folder: Path, account: AccountKey) -> Description:
    """What --spec or --file describes."""
    if asked.uses:
        raise UsageError("--use does not go with --spec or --file", hint="it is for a script in the cell")
    if asked.toolkit:
        raise UsageError(
            "--toolkit does not go with --spec or --file", hint="the description says the toolkit"
        )
    if asked.file is None:
        return load_text(JobSpec, body, source="the cell", account=account)
    if asked.is_spec:
        raise UsageError("--spec and --file are both given", hint="keep one of them")
    if body.strip():
        raise UsageError("--file is given, and the cell is not empty", hint="remove one of them")
    return load_file(JobSpec, _file(asked.file, folder), source=asked.file, account=account)


def _file(text: str, folder: Path) -> Path:
    return folder / Path(text).expanduser()


def _request(
    asked: CellOptions,
    target: _Target,
    spec: JobSpec,
    *,
    cluster: ResourceId,
    sent: Bundle,
    notes: tuple[str, ...],
) -> CellRequest:
    return CellRequest(
        name=target.job,
        spec=spec,
        workspace=target.workspace.name,
        experiment=target.experiment,
        cluster=cluster.name,
        uploads=sent.uploads,
        variable=asked.variable,
        is_waiting=asked.is_waiting,
        is_new=asked.is_new,
        is_same=asked.is_same,
        is_growing=asked.is_growing,
        is_dry_run=asked.is_dry_run,
        patterns=asked.patterns,
        notes=notes,
    )


def _listed(uploads: Mapping[str, bytes]) -> Iterator[str]:
    for path, data in islice(uploads.items(), _MOST_LISTED):
        yield f"  {path}  {_size(len(data))}"
    if len(uploads) > _MOST_LISTED:
        yield f"  … and {len(uploads) - _MOST_LISTED} more files"
    if len(uploads) > 1:
        yield f"  {len(uploads)} files, {_size(sum(map(len, uploads.values())))} in all"


def _size(byte_count: int) -> str:
    return f"{byte_count} bytes" if byte_count < 1024 else f"{byte_count / 1024:.1f} KiB"
