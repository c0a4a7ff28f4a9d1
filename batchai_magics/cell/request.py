"""A magic line and a cell's body become a job description; no IPython here, nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchai_magics.cell.mounts import with_mounts
from batchai_magics.cell.option_values import CellOptions, values_of
from batchai_magics.cell.options import read_options
from batchai_magics.cell.script import Bundle, bundle, check_script, read_uploads
from batchai_magics.cell.spec import MOUNT_ROOT, lay_over, script_body, with_script_folder
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.models.document import read_file
from batchai_magics.models.ids import Kind, ResourceId, check_name, cluster_id, workspace_id
from batchai_magics.models.job import JobSpec
from batchai_magics.models.load import AccountKey, load_wire
from batchai_magics.options.line import split


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
    is_dry_run: bool = False  # --dry-run
    patterns: Mapping[str, str] = field(default_factory=dict)  # --metric NAME=REGEX


@dataclass(frozen=True)
class _Place:
    """Where the job goes."""

    workspace: ResourceId
    experiment: str
    job: str


def parse(
    line: str,
    body: str,
    *,
    settings: Settings,
    names: Mapping[str, object] | None = None,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> CellRequest:
    """What the line and the body of a cell ask for.

    `names` are the variables for `{name}` on the line, `folder` is where files are looked for (the working
    folder), `env` is where secrets are taken from (the process's environment). Raises UsageError for anything
    written wrongly, HelpRequested for `--help`.
    """
    given_env = os.environ if env is None else env
    options = values_of(read_options(split(line, names or {})), given_env)
    place = _place(options, settings)
    folder = folder or Path.cwd()
    prefix = f"{MOUNT_ROOT}/{settings.share_mount}"
    account = _account(given_env, settings)
    files = read_uploads(options.uploads, folder)
    if options.is_described:
        wire = _described(options, body, folder, account)
    else:
        files = _with_script(files, f"{place.job}.py", check_script(body))
        wire = {"properties": script_body(options, place.job, prefix)}
    sent = bundle(place.experiment, place.job, files)
    fields = lay_over(wire["properties"], options, prefix)
    fields = with_mounts(fields, options.mounts, account=account, workspace=place.workspace)
    if sent.files:
        fields = with_script_folder(fields, f"{prefix}/{sent.folder}")
    cluster = cluster_id(options.cluster or _cluster_of(fields) or settings.cluster, place.workspace)
    wire["properties"] = {**fields, "cluster": {"id": str(cluster)}}
    return _request(options, place, JobSpec.from_wire(wire), cluster=cluster, sent=sent)


def describe(request: CellRequest) -> str:
    """The request for people to read: the whole description (secrets as ***), and what would be uploaded."""
    head = f"job {request.name} in experiment {request.experiment} of workspace {request.workspace}"
    text = json.dumps(request.spec.to_masked_wire(), indent=2, ensure_ascii=False)
    lines = [f"{head}, on cluster {request.cluster}", text]
    if request.uploads:
        lines += ["to upload:", *(f"  {path}  {_size(len(data))}" for path, data in request.uploads.items())]
    if request.patterns:
        lines += ["metrics:", *(f"  {name}  {pattern}" for name, pattern in request.patterns.items())]
    return "\n".join(lines)


def _request(
    options: CellOptions, place: _Place, spec: JobSpec, *, cluster: ResourceId, sent: Bundle
) -> CellRequest:
    return CellRequest(
        name=place.job,
        spec=spec,
        workspace=place.workspace.name,
        experiment=place.experiment,
        cluster=cluster.name,
        uploads=sent.uploads,
        variable=options.variable,
        is_waiting=options.is_waiting,
        is_new=options.is_new,
        is_dry_run=options.is_dry_run,
        patterns=options.patterns,
    )


def _place(options: CellOptions, settings: Settings) -> _Place:
    if not options.name:
        raise UsageError(
            "the job has no name", hint="the first word of the line names it: %%batchai_job resnet …"
        )
    workspace = workspace_id(settings, options.workspace or "")
    experiment = check_name(options.experiment or settings.experiment, Kind.EXPERIMENT)
    return _Place(workspace, experiment, check_name(options.name, Kind.JOB))


def _described(options: CellOptions, body: str, folder: Path, account: AccountKey) -> dict[str, Any]:
    """The wire JSON of --spec or --file, not checked yet."""
    if options.toolkit:
        raise UsageError(
            "--toolkit does not go with --spec or --file", hint="the description says the toolkit"
        )
    if options.file is None:
        return load_wire(JobSpec, body, source="the cell", account=account)
    if options.is_spec:
        raise UsageError("--spec and --file are both given", hint="keep one of them")
    if body.strip():
        raise UsageError("--file is given, and the cell is not empty", hint="remove one of them")
    path = folder / Path(options.file).expanduser()
    return load_wire(JobSpec, read_file(path), source=options.file, account=account)


def _account(env: Mapping[str, str], settings: Settings) -> AccountKey:
    return AccountKey(
        env.get("AZURE_BATCHAI_STORAGE_ACCOUNT") or settings.storage_account,
        env.get("AZURE_BATCHAI_STORAGE_KEY") or settings.storage_key,
    )


def _with_script(files: Mapping[str, bytes], name: str, script: bytes) -> dict[str, bytes]:
    if name in files:
        raise UsageError(
            f"--upload {name}: the script itself has that name", hint="rename the file or the job"
        )
    return {name: script, **files}


def _cluster_of(fields: Mapping[str, Any]) -> str | None:
    reference = fields.get("cluster")
    text = reference.get("id") if isinstance(reference, Mapping) else None
    return text if isinstance(text, str) else None


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KiB"
