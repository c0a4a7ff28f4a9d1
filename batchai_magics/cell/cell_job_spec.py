"""Converts options and script to wire JSON, alone or on top of a job.json."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchai_magics.cell.cell_options import RUN_CELL, CellOptions
from batchai_magics.cell.run_cell import FOLDER as RESULT
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models import mount_volumes
from batchai_magics.models.backend_options import with_backend_options
from batchai_magics.models.mount_volumes import AccountKey
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.stop_conditions import with_conditions
from batchai_magics.models.toolkit_settings import Toolkit
from batchai_magics.options.job_options import with_properties

_PLAIN_NAME = re.compile(r"[\w./-]+", re.ASCII)  # needs no quotes in a command line
_DIGEST_LENGTH = 12


def runner_program(program: str) -> dict[str, bytes]:
    """The content of a program that runs scripts, and of `run_cell.py`, by their file names."""
    return {name: Path(__file__).with_name(name).read_bytes() for name in (RUN_CELL, program)}


def files_folder(job: ResourceId, files: Mapping[str, bytes]) -> str:
    """The folder on the share for the files of a job: the same files always get the same one."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return f"scripts/{job.experiment}/{job.name}/{digest.hexdigest()[:_DIGEST_LENGTH]}"


OF_CELL = "_cell"  # after the job's name, where its script would hide a module
OF_FUNCTION = "_call"  # after the job's name, where its script calls a function
SCRIPT = "SCRIPT"  # the id of the input directory that holds the script
MOUNT_ROOT = "$AZ_BATCHAI_MOUNT_ROOT"
INPUT = f"$AZ_BATCHAI_INPUT_{SCRIPT}"
_COMMAND_LINES = (Toolkit.CUSTOM, Toolkit.MPI)  # toolkits that take no script
_SERVER_ARGS = ("masterCommandLineArgs", "workerCommandLineArgs", "parameterServerCommandLineArgs")

# Keys of --processes, where not processCount; empty: not supported.
_PROCESSES_KEY = {
    Toolkit.TENSORFLOW: "workerCount",
    Toolkit.CAFFE2: "",
    Toolkit.CUSTOM: "batchaiProcessCount",
}


_MOUNT_FORM = "[afs:|bfs:|nfs:]NAME[=PATH]"
_VOLUME_KEYS = {"afs": mount_volumes.SHARES, "bfs": mount_volumes.CONTAINERS, "nfs": mount_volumes.SERVERS}


def script_fields(options: CellOptions, share_path: str) -> dict[str, Any]:
    """The fields of a job that runs the cell's script, with logs on its share."""
    toolkit = Toolkit(options.toolkit or Toolkit.HOROVOD.value)
    started = f"{INPUT}/{options.program if options.needs_program else options.script}"
    if toolkit in _COMMAND_LINES:
        is_plain = _PLAIN_NAME.fullmatch(options.script)
        script = f"{INPUT}/{options.script}" if is_plain else f'"{INPUT}"/{shlex.quote(options.script)}'
        command = f"{started} {script}" if options.needs_program else script
        python = f'"{options.python}"' if options.python else "python"
        settings = {"commandLine": f"{python} {command} {options.args or ''}".rstrip()}
    else:
        language = {"languageType": "Python"} if toolkit is Toolkit.CNTK else {}
        settings = {**language, "pythonScriptFilePath": started}
    return {"nodeCount": 1, toolkit.wire_key: settings, "stdOutErrPathPrefix": share_path}


def with_options(body: Mapping[str, Any], options: CellOptions, share_path: str) -> dict[str, Any]:
    """Overrides `body` by the options: replaces single values, merges lists by id or name."""
    merged = with_properties(body, options.properties)
    if options.image:
        merged = with_properties(merged, {"containerSettings.imageSourceRegistry.image": options.image})
        merged["batchaiNeedsImage"] = True
    if options.prep:
        merged["jobPreparation"] = {"commandLine": options.prep}
    suffixes = {**options.outputs}
    if options.has_result:
        suffixes.setdefault(RESULT, RESULT.lower())
    lists = (
        ("environmentVariables", "name", "value", options.env),
        ("secrets", "name", "value", options.secrets),
        ("inputDirectories", "id", "path", options.inputs),
    )
    for key, by, field, values in lists:
        _merge(merged, key, {name: {by: name, field: value} for name, value in values.items()}, by=by)
    outputs = {
        id: {"id": id, "pathPrefix": share_path, **({"pathSuffix": suffix} if suffix else {})}
        for id, suffix in suffixes.items()
    }
    _merge(merged, "outputDirectories", outputs, by="id")
    if options.stop_if:
        merged = with_conditions(merged, options.stop_if, options.patterns)
    if options.backend_options:
        merged = with_backend_options(merged, options.backend_options)
    return _with_settings(merged, options)


def with_files(body: Mapping[str, Any], path: str, copy: str) -> dict[str, Any]:
    """Adds the input directory of script and uploads, which nodes have at this path.

    The job preparation begins with the command `copy`, if there is one.
    """
    merged = dict(body)
    directories = merged.get("inputDirectories")
    listed = directories if isinstance(directories, list) else []
    if any(isinstance(item, Mapping) and item.get("id") == SCRIPT for item in listed):
        raise UsageError(f"the input id {SCRIPT} is taken by the script's folder", hint="give it another id")
    _merge(merged, "inputDirectories", {SCRIPT: {"id": SCRIPT, "path": path}}, by="id")
    preparation = body.get("jobPreparation") or {}
    if copy and isinstance(preparation, Mapping):  # validation reports any other
        line = " && ".join(filter(None, (copy, preparation.get("commandLine"))))
        merged["jobPreparation"] = {**preparation, "commandLine": line}
    return merged


def with_mounts(
    fields: dict[str, Any], texts: Sequence[str], *, account: AccountKey, workspace: ResourceId
) -> dict[str, Any]:
    """Adds the volumes of `--mount` to those of the job's `mountVolumes`.

    A text is `[KIND:]NAME[=PATH]`: the kind as in `az` (afs: file share, the default; bfs: blob container;
    nfs: file server of the workspace) and the path below `$AZ_BATCHAI_JOB_MOUNT_ROOT`, by default the name.
    Raises UsageError naming the text.
    """
    volumes = fields.get("mountVolumes")
    owner = replace(account, name=account.name or DEFAULT_ACCOUNT)
    for text in texts:
        source, _, path = text.partition("=")
        kind, sign, name = source.rpartition(":")
        kind = kind.lower() if sign else "afs"
        if kind not in _VOLUME_KEYS:
            hint = (
                did_you_mean(kind, _VOLUME_KEYS) or "afs: file share, bfs: blob container, nfs: file server"
            )
            raise UsageError(f"--mount {text}: unknown kind {kind!r}", hint=hint)
        if not name or ("=" in text and not path):
            raise UsageError(f"--mount {text}: expected {_MOUNT_FORM}", hint="such as --mount data=datasets")
        if kind == "nfs":
            server = workspace.child(Kind.FILE_SERVER, check_name(name, Kind.FILE_SERVER))
            volume = mount_volumes.file_server(server, path or name)
        else:
            make = mount_volumes.container if kind == "bfs" else mount_volumes.share
            volume = make(owner, name, path or name)
        volumes = mount_volumes.with_volumes(volumes, {_VOLUME_KEYS[kind]: [volume]})
    return {**fields, "mountVolumes": volumes}


def _with_settings(body: dict[str, Any], options: CellOptions) -> dict[str, Any]:
    """The body with what the options change in the settings of its toolkit."""
    toolkit = next((kind for kind in Toolkit if isinstance(body.get(kind.wire_key), Mapping)), None)
    if toolkit is None:
        return body  # validation reports it
    changes: dict[str, Any] = {}
    if options.processes is not None:
        key = _PROCESSES_KEY.get(toolkit, "processCount")
        if not key:
            text = f"--processes does not apply to toolkit {toolkit.value}, which has no such number"
            raise UsageError(text)
        changes[key] = options.processes
    if toolkit not in _COMMAND_LINES:
        args = options.args
        if options.needs_program:  # which takes the script as an argument
            args = f"{INPUT}/{options.script} {args or ''}".rstrip()
        if args is not None:
            keys = _SERVER_ARGS if toolkit is Toolkit.TENSORFLOW else ("commandLineArgs",)
            changes |= dict.fromkeys(keys, args)
        if options.python:
            changes["pythonInterpreterPath"] = options.python
    elif options.is_described:  # a script's job has them already
        for flag, value in (("--args", options.args), ("--python", options.python or None)):
            if value is not None:
                text = f"{flag} does not apply to toolkit {toolkit.value}: its command line is in the file"
                raise UsageError(text)
    return {**body, toolkit.wire_key: {**body[toolkit.wire_key], **changes}}


def _merge(body: dict[str, Any], key: str, items: Mapping[str, dict[str, str]], *, by: str) -> None:
    """Adds the items, by name, to the list at `key`; one of the same name is replaced."""
    if not items:
        return
    present = body.get(key)
    remaining = (
        [item for item in present if not (isinstance(item, Mapping) and str(item.get(by)) in items)]
        if isinstance(present, list)
        else []
    )
    body[key] = [*remaining, *items.values()]


_ALL = f'cp -R "{INPUT}/." .'
_WORDS = r"(?: (?:[^\s&'\"]|'[^']*'|\"'\")+)+"  # as `shlex.join` writes them
_OWN_STEPS = rf"(?: && rm -f(?P<own>{_WORDS}))?(?: && mkdir -p --{_WORDS})?"
_COPY = re.compile(rf"(?:{re.escape(_ALL)}|\{{ {re.escape(_ALL)}{_OWN_STEPS}; \}})(?: && |$)")


def copy_command(excluded: Collection[str], empty_folders: Collection[str] = ()) -> str:
    """The command that copies what was sent, but for `excluded`: scripts open files by relative paths.

    It creates the empty folders. Braces keep its steps apart from the user's, which may begin alike.
    """
    steps = [_ALL]
    if excluded:
        steps.append(f"rm -f {shlex.join(sorted(excluded))}")
    if empty_folders:
        steps.append(f"mkdir -p -- {shlex.join(sorted(empty_folders))}")
    return f"{{ {' && '.join(steps)}; }}" if len(steps) > 1 else _ALL


def without_copy(command: str) -> str:
    """The command of a job preparation without the copy that it begins with."""
    return _COPY.sub("", command, count=1) if _COPY.match(command) else command


def only_copy(command: str) -> str:
    """The copy that the command of a job preparation begins with; empty without one."""
    return command.removesuffix(without_copy(command)).removesuffix(" && ")


def copied_once(command: str) -> str:
    """The command of a job preparation, which copies only in the first attempt on a working directory."""
    copy = only_copy(command)
    mark = '"$AZ_BATCHAI_SHARED_JOB_TEMP/.copied-${PWD##*/}"'
    once = f'{{ {{ [ -e {mark} ] && [ -n "$(ls -A)" ]; }} || {{ {copy} && {{ touch {mark} || :; }}; }}; }}'
    return command.replace(copy, once, 1) if copy else command


def is_of_folder(command: str) -> bool:
    """Whether a job preparation copies all that was sent: the script is a file of the user, no cell."""
    copy = _COPY.match(command)
    return copy is not None and not copy["own"]
