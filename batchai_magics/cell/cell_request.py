"""Turns a magic line and a cell's body into a job request; does not use IPython and writes nothing."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from batchai_magics.cell import notebook_script
from batchai_magics.cell.cell_job_spec import (
    MOUNT_ROOT,
    OF_FUNCTION,
    copy_command,
    files_folder,
    runner_program,
    script_fields,
    with_files,
    with_mounts,
    with_options,
)
from batchai_magics.cell.cell_options import MAGIC, CellOptions, SubmitOptions, read_options
from batchai_magics.cell.cell_script import compile_script, script_file, sets_result, with_environment
from batchai_magics.cell.cell_uploads import left_out_notes, read_uploads
from batchai_magics.cell.command_values import MARKER, filled_fields, is_plain
from batchai_magics.cell.notebook_variables import (
    MAX_FILES,
    names_of_notebook,
    unsent_files,
    variables_file,
)
from batchai_magics.config import DEFAULT_ACCOUNT, Settings
from batchai_magics.errors import UsageError, translate_file_errors
from batchai_magics.models.backend_options import check_texts, declared_by
from batchai_magics.models.documents.description import Description, load_file, load_text, name_after
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from batchai_magics.models.resource_ids import (
    Kind,
    ResourceId,
    check_name,
    cluster_id,
    cluster_named_in,
    workspace_id,
)
from batchai_magics.models.runs.notifications import channels
from batchai_magics.models.runs.scalar_export import export_targets
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.options.job_options import with_grace
from batchai_magics.options.option_parsing import expand, names_in, split_line

_MAX_LISTED = 20  # uploaded files that a dry run lists
MODULE_PROGRAM = ".batchai/run_module.py"  # in a folder of its own: the project may have such a name
RUN_MODULE = Path(__file__).with_name("run_module.py")


@dataclass(frozen=True)
class CellSource:
    """What a request was made from, for the record of the run.

    `expanded`: the variables that `--template` put into the script, by name. `remedies`: what to write
    for the names that the script reads and only the notebook has.
    """

    folder: Path  # the folder that relative paths start from
    line: str = ""
    name: str = ""  # the name of the script, or of the file with the description
    script: str = ""  # the script; empty for a description
    arguments: str = ""
    uses: Mapping[str, object] = field(default_factory=dict, repr=False)  # the variables of `--use`, by name
    expanded: Mapping[str, object] = field(default_factory=dict, repr=False)
    file: str = ""  # the name of the file that was submitted; empty for a cell
    remedies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CellRequest(SubmitOptions):
    """A job to submit, of a cell, a script, a job file or an earlier run: its spec, its files, and how.

    `uploads` maps paths on the share of the settings to the content to upload before the job is created.
    """

    id: ResourceId  # named after its runs, unless `is_exact`
    spec: JobSpec
    uploads: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    is_exact: bool = False  # the job has just this name, and what it is to be created in exists
    notes: tuple[str, ...] = ()  # messages about the job's file
    source: CellSource | None = field(default=None, repr=False)
    watch: WatchRequest | None = None  # what watches the run is to do; by `submit`
    records: Mapping[str, str] = field(default_factory=dict, repr=False)  # to store with the job; by `submit`

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.id.name

    @property
    def cluster(self) -> ResourceId:
        """Its cluster."""
        return ResourceId.parse(self.spec.cluster.id)


@dataclass(frozen=True)
class Notebook:
    """What surrounds a cell.

    `names`: variables, for `{name}` on the line and `--use`. `env`: source of secrets, by default the
    environment of this process.
    """

    names: Mapping[str, object] = field(default_factory=dict, repr=False)
    folder: Path = field(default_factory=Path.cwd)  # base of relative paths, by default the working folder
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    job_name: str = ""  # name of a job that is named nowhere else
    is_function: bool = False  # whether the script calls a function, as `cell.function_script` makes them
    command: str = MAGIC  # the command whose `--help` lists the options, for hints


@dataclass(frozen=True)
class _JobSource:
    """The source of the job."""

    record: CellSource  # for the record of the run
    fields: Mapping[str, Any]  # its `properties`, in keys of the service
    files: Mapping[str, bytes]  # the files that are sent
    copied: Collection[str] = ()  # those that the working directory has a copy of
    notes: tuple[str, ...] = ()
    description: Description | None = None  # the description that has the fields; None for a script
    empty_folders: tuple[str, ...] = ()  # for the working directory, unless a file has the name

    @property
    def copy(self) -> str:
        """The command that makes the copies; empty without any."""
        excluded = self.files.keys() - set(self.copied)
        folders = [
            folder
            for folder in self.empty_folders
            if self.files.keys().isdisjoint((folder, *map(str, PurePosixPath(folder).parents)))
        ]
        return copy_command(excluded, folders) if self.copied or folders else ""

    def with_files(self, more: Mapping[str, bytes]) -> _JobSource:
        """Adds files beside the script."""
        conflict = next((name for name, data in more.items() if self.files.get(name, data) != data), "")
        if conflict:
            raise UsageError(f"--upload {conflict}: the script needs a file of that name", hint="rename it")
        return replace(self, files={**self.files, **more})


def parse(line: str, body: str, *, settings: Settings, notebook: Notebook | None = None) -> CellRequest:
    """Parses a job cell.

    Args:
        line: The magic line after `%%batchai_job`.
        body: The rest of the cell: a script, or with `--spec` a description.
        settings: Supply what the line leaves out.
        notebook: What surrounds the cell, by default this process.

    Raises:
        UsageError: The line or the cell is wrong.
        SpecError: The description is wrong; it lists every problem.
        HelpRequested: `--help` was given.
    """
    notebook = notebook or Notebook()
    words = split_line(line, notebook.names)
    options = _read_options(words, settings, notebook)
    expanded: Mapping[str, object] = {}
    arguments: Mapping[str, str] = {}
    if options.is_template:
        expanded = {name: notebook.names[name] for name in names_in(body) if name in notebook.names}
        if options.is_described:
            # Texts that a shell would read are put into the command lines of the description as arguments,
            # when these are known; until then, markers stand for them.
            texts = {name: value for name, value in expanded.items() if isinstance(value, str)}
            arguments = {name: text for name, text in texts.items() if not is_plain(text)}
        markers = {name: MARKER.format(name) for name in arguments}
        body = expand(body, {**notebook.names, **markers}, source="in the cell")
    id = _job_id(options, settings, notebook)
    if options.is_described:
        account = _account_key(options, notebook.env, settings)
        source = _described(options, body, notebook.folder, account)
    else:
        options, source = _scripted(options, body, id, notebook, _share_path(settings))
    source = replace(source, record=replace(source.record, line=line, expanded=expanded))
    request = _request(options, source, id, settings, notebook)
    if not arguments:
        return request
    wire = filled_fields(request.spec.to_wire(secrets=True), arguments)
    return replace(request, spec=JobSpec.of_fields(wire["properties"]))


def exports_below(texts: Sequence[str], settings: Settings, folder: Path) -> tuple[str, ...]:
    """The targets, those in folders of this machine with their absolute paths if jobs run here."""
    if _are_nodes_elsewhere(settings):
        return tuple(texts)
    targets = export_targets(texts)
    return tuple(str(target.below(folder)) for target in targets)


def _are_nodes_elsewhere(settings: Settings) -> bool:
    """Whether jobs do not run on this machine, nor on nodes that share its folders."""
    section = settings.sections.get(settings.backend)
    is_service = section is not None and not hasattr(section, "home")  # it keeps its state itself
    return is_service or bool(getattr(section, "ssh", ""))


def _inputs_below(folder: Path, options: CellOptions, source: _JobSource) -> dict[str, str]:
    """The folders to read by their ids, relative ones below `folder`.

    The working directory of the job has a copy of some, and a preparation may make others there.
    """
    inputs, has_preparation = {**options.inputs}, bool(options.prep or source.fields.get("jobPreparation"))
    for id, path in inputs.items():
        expanded = os.path.expanduser(path)  # noqa: PTH111 also of a user who does not exist
        if expanded.startswith("/"):
            inputs[id] = expanded
            continue
        absolute = os.path.abspath(folder / expanded)  # noqa: PTH100 links are kept
        relative = os.path.normpath(path)
        is_copied = folder == source.record.folder and any(
            name == relative or name.startswith(f"{relative}/") for name in source.copied
        )
        is_made = has_preparation and not os.path.exists(absolute)  # noqa: PTH110 any text
        if "$" not in path and not is_copied and not is_made:
            inputs[id] = absolute
    return inputs


def parse_script(
    words: Sequence[str], args: Sequence[str], script: ScriptFolder, *, settings: Settings, notebook: Notebook
) -> CellRequest:
    """Makes the request of a script that lies in a folder, whose files go along.

    Raises:
        UsageError: An option is wrong, or is one for cells only.
        SpecError: A value is impossible; it lists every problem.
    """
    options = _read_options(words, settings, notebook)
    if options.is_described or options.uses or options.is_template:
        raise UsageError("--spec, --file, --use and --template are for cells", hint="leave them out")
    id, share_path = _job_id(options, settings, notebook), _share_path(settings)
    options, program = with_environment(options, script.code, share_path)
    command_line = script.command_line_args(args, options.secrets)
    options = replace(options, script=script.started, args=command_line or None)
    uploads = read_uploads(options.uploads, notebook.folder)
    record = CellSource(
        script.folder,
        shlex.join(words),
        script.name,
        script=script.code,
        arguments=shlex.join(args),
        file=script.name,
        remedies=unsent_files(islice(script.left_out, MAX_FILES)),
    )
    source = _JobSource(record, script_fields(options, share_path), script.files)
    source = source.with_files(uploads.files).with_files({**program, **script.program})
    notes = (*script.notes(uploads.files, args), *uploads.notes)
    folders = tuple(dict.fromkeys((*script.empty_folders, *uploads.empty_folders)))
    source = replace(source, copied=source.files, empty_folders=folders, notes=notes)
    return _request(options, source, id, settings, notebook)


def _read_options(words: Sequence[str], settings: Settings, notebook: Notebook) -> CellOptions:
    """The options of a line, with the absolute paths of folders that metrics are exported to."""
    declared = declared_by(settings.sections.values())
    options = read_options(words, notebook.env, declared, command=notebook.command)
    if options.exports:
        options = replace(options, exports=exports_below(options.exports, settings, notebook.folder))
    return options


def _request(
    options: CellOptions, source: _JobSource, id: ResourceId, settings: Settings, notebook: Notebook
) -> CellRequest:
    """The validated request, with what the options override."""
    share_path, workspace, description = _share_path(settings), id.workspace_id, source.description
    folder = files_folder(id, source.files) if source.files else ""
    has_image = options.image or "containerSettings" in source.fields
    if not (has_image or _are_nodes_elsewhere(settings)):
        options = replace(options, inputs=_inputs_below(notebook.folder, options, source))
    fields = with_grace(with_options(source.fields, options, share_path), settings.grace)
    if options.mounts:
        account = _account_key(options, notebook.env, settings)
        fields = with_mounts(fields, options.mounts, account=account, workspace=workspace)
    if folder:
        fields = with_files(fields, f"{share_path}/{folder}", source.copy)
    cluster = cluster_id(options.cluster or cluster_named_in(fields) or settings.cluster, workspace)
    fields = {**fields, "cluster": {"id": str(cluster)}}
    spec = description.checked(JobSpec, fields) if description else JobSpec.of_fields(fields)
    if texts := spec.backend_options:
        check_texts(texts, declared_by(settings.sections.values()), what=spec.what)
    is_new = options.is_new or (settings.run_policy == "new" and not options.is_same)
    return CellRequest(
        id,
        spec,
        uploads={f"{folder}/{name}": data for name, data in source.files.items()},
        notes=(*(description.notes if description else ()), *source.notes),
        source=source.record,
        **{**options.of_submission, "is_new": is_new},
    )


def describe(request: CellRequest) -> str:
    """The request as text: the whole description with masked secrets, and the uploads."""
    id = request.id
    head = f"job {id.name} in experiment {id.experiment} of workspace {id.workspace}"
    data = SecretMask().data(request.spec.to_masked_wire())
    text = json.dumps(data, indent=2, ensure_ascii=False)
    lines = [f"{head}, on cluster {request.cluster.name}", text]
    if request.uploads:
        sizes = {path: _size(len(data)) for path, data in request.uploads.items()}
        lines += ["to upload:", *(f"  {path}  {size}" for path, size in islice(sizes.items(), _MAX_LISTED))]
        if len(sizes) > _MAX_LISTED:
            lines.append(f"  … and {len(sizes) - _MAX_LISTED} more files")
        if len(sizes) > 1:
            lines.append(f"  {len(sizes)} files, {_size(sum(map(len, request.uploads.values())))} in all")
    if request.patterns:
        lines += ["metrics:", *(f"  {name}  {pattern}" for name, pattern in request.patterns.items())]
    if request.notify:
        lines.append(f"notifies: {', '.join(channel.label for channel in channels(request.notify))}")
    if request.exports:
        lines.append(f"exports: {', '.join(request.exports)}")
    return "\n".join(lines)


def _job_id(options: CellOptions, settings: Settings, notebook: Notebook) -> ResourceId:
    """The id of the job, named after its runs."""
    if options.is_new and options.is_same:
        raise UsageError("--new and --same are both given", hint="keep one of them")
    of_file = name_after(_file(options.file, notebook.folder)) if options.file else notebook.job_name
    name = options.name or of_file
    if not name:
        raise UsageError(
            "the job has no name", hint="the first word of the line names it: %%batchai_job resnet …"
        )
    if name.startswith("-"):
        raise UsageError(
            f"{name}: a job's name does not begin with a dash", hint="For example: --name resnet"
        )
    workspace = workspace_id(settings, options.workspace or "")
    experiment = check_name(options.experiment or settings.experiment, Kind.EXPERIMENT)
    return workspace.child(Kind.EXPERIMENT, experiment).child(Kind.JOB, check_name(name, Kind.JOB))


def _share_path(settings: Settings) -> str:
    """Where nodes have the share of the settings."""
    return f"{MOUNT_ROOT}/{settings.share_mount}"


def _account_key(options: CellOptions, env: Mapping[str, str], settings: Settings) -> AccountKey:
    """The storage account of the mounts, as in `az` from options, environment or settings.

    Without one it is the default account, which every backend but a client of a server has.
    """
    is_client = hasattr(settings.sections.get(settings.backend), "endpoint")
    return AccountKey(
        options.storage_account_name or env.get("AZURE_BATCHAI_STORAGE_ACCOUNT") or settings.storage_account,
        options.storage_account_key or env.get("AZURE_BATCHAI_STORAGE_KEY") or settings.storage_key,
        default="" if is_client else DEFAULT_ACCOUNT,
    )


def _scripted(
    options: CellOptions, body: str, id: ResourceId, notebook: Notebook, share_path: str
) -> tuple[CellOptions, _JobSource]:
    """The cell's script, with its uploads, its variables and the programs that it needs.

    Also returns the options, with what is known of the script.
    """
    is_function = notebook.is_function
    name = f"{id.name}{OF_FUNCTION}.py" if is_function else script_file(id.name, body)
    options = replace(options, script=name, is_function=is_function)
    options, environment = with_environment(options, body, share_path)
    with translate_file_errors():
        uploads = read_uploads(options.uploads, notebook.folder)
        if name in uploads.files:
            text = f"--upload {name}: the script itself has that name"
            raise UsageError(text, hint="rename the file or the job")
        script = compile_script(body)
    options = replace(options, has_result=sets_result(script))
    variables = variables_file(options.uses, notebook.names)
    program = runner_program(options.program) if options.needs_program else {}
    remedies, notes = names_of_notebook(script, notebook.names, options.uses)
    record = CellSource(
        notebook.folder,
        name=name,
        script=body,
        arguments=options.args or "",
        uses={name: notebook.names[name] for name in options.uses},
        remedies=remedies,
    )
    source = _JobSource(
        record,
        script_fields(options, share_path),
        {name: body.encode(), **uploads.files},
        uploads.files.keys(),
        (*uploads.notes, *notes),
        empty_folders=uploads.empty_folders,
    )
    return options, source.with_files({**variables, **program}).with_files(environment)


def _described(options: CellOptions, body: str, folder: Path, account: AccountKey) -> _JobSource:
    """The description of --spec or --file, and its uploads."""
    if options.packages:
        raise UsageError("--with does not go with --spec or --file", hint="use --prep or --python")
    with translate_file_errors():
        uploads = read_uploads(options.uploads, folder)
        if options.uses:
            raise UsageError("--use does not go with --spec or --file", hint="it is for a script in the cell")
        if options.toolkit:
            hint = "the description says the toolkit"
            raise UsageError("--toolkit does not go with --spec or --file", hint=hint)
        if options.file is None:
            described = load_text(JobSpec, body, source="the cell", account=account)
        elif options.is_spec:
            raise UsageError("--spec and --file are both given", hint="keep one of them")
        elif body.strip():
            raise UsageError("--file is given, and the cell is not empty", hint="remove one of them")
        else:
            described = load_file(JobSpec, _file(options.file, folder), source=options.file, account=account)
    record = CellSource(folder, name=options.file or "")
    if uploads.empty_folders and not uploads.files:
        raise UsageError(f"--upload {shlex.join(options.uploads)}: there are no files in this folder")
    files, folders = uploads.files, uploads.empty_folders
    return _JobSource(record, described.body, files, files.keys(), uploads.notes, described, folders)


def _file(text: str, folder: Path) -> Path:
    return folder / Path(text).expanduser()


def _size(byte_count: int) -> str:
    return f"{byte_count} bytes" if byte_count < 1024 else f"{byte_count / 1024:.1f} KiB"


@dataclass(frozen=True)
class ScriptFolder:
    """A script or a notebook, and the files of its project, by their path in it."""

    folder: Path
    name: str
    files: Mapping[str, bytes] = field(repr=False)  # the files that are sent
    left_out: Mapping[str, str] = field(default_factory=dict)  # the paths that stay behind, with the reason
    warnings: tuple[str, ...] = ()  # messages about how the files were chosen
    module: str = ""  # the module that the script is, if it is started as `python -m` does
    rank_option: str = ""  # the option with which each process is told its local rank; empty: none
    empty_folders: tuple[str, ...] = ()  # the folders that the job has without a file

    @property
    def started(self) -> str:
        """The file that Python starts: the script, or the program that runs the module or the notebook."""
        if self.is_notebook:
            return notebook_script.PROGRAM
        return MODULE_PROGRAM if self.module else self.name

    @property
    def is_notebook(self) -> bool:
        """Whether it is a notebook."""
        return self.name.endswith(notebook_script.SUFFIX)

    @property
    def code(self) -> str:
        """Its text, of a notebook the code; empty for a module that is installed."""
        data = self.files.get(self.name, b"")
        return notebook_script.code_of(data) if self.is_notebook else data.decode(errors="replace")

    @property
    def program(self) -> dict[str, bytes]:
        """The files of the program that runs a module or a notebook, by their names; empty for a script."""
        if self.is_notebook:
            return {name: file.read_bytes() for name, file in notebook_script.PROGRAM_FILES.items()}
        return {MODULE_PROGRAM: RUN_MODULE.read_bytes()} if self.module else {}

    def command_line_args(self, args: Sequence[str], secrets: Collection[str] = ()) -> str:
        """The words behind the file that Python starts, for a shell.

        Args:
            args: The arguments of the script, or the parameters of the notebook as `NAME=VALUE`.
            secrets: The names of the variables whose values an executed notebook must not keep.
        """
        if self.is_notebook:
            hidden = [f"--secrets={','.join(secrets)}"] if secrets else []
            words = map(notebook_script.checked_parameter, args)
            return shlex.join([self.name, *hidden, *words])
        rank = f"{self.rank_option}=$LOCAL_RANK" if self.rank_option else ""
        return " ".join(
            filter(None, (shlex.quote(self.module) if self.module else "", rank, shlex.join(args)))
        )

    def notes(self, uploaded: Collection[str], args: Sequence[str] = ()) -> Iterator[str]:
        """The warnings, also about the arguments, and what stays behind and is not uploaded by name."""
        yield from self.warnings
        if self.is_notebook:
            yield from notebook_script.parameter_notes(self.files[self.name], args)
        named = {
            parent.as_posix()
            for path in uploaded
            for parent in (PurePosixPath(path), *PurePosixPath(path).parents)
        }
        yield from left_out_notes(
            {path: reason for path, reason in self.left_out.items() if path not in named}
        )
