"""The request of a script or module that a launcher's command line names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base.backend_registry import default_vm_size
from batchai_magics.cell import CellRequest, Notebook, ScriptFolder, parse_script
from batchai_magics.cell.launcher_counts import JobCounts
from batchai_magics.cell.launcher_line import LauncherLine, translate
from batchai_magics.cell.script_environment import script_metadata
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs.folder_snapshot import read_module, read_script
from batchai_magics.jobs.uv_project import not_on_nodes, project_python
from batchai_magics.models import vm_sizes
from batchai_magics.models.resource_ids import as_name


def launched_request(
    command: Sequence[str], options: Sequence[str], settings: Settings, folder: Path
) -> tuple[CellRequest, str]:
    """The request of a command line, and how its launcher was translated.

    Args:
        command: The script, or the command line of a launcher, with its arguments.
        options: Options of the job, as `--flag=value`.
        settings: Supply what the options leave out.
        folder: The working directory.

    Raises:
        UsageError: The line cannot be translated, or the files cannot be sent.
        SpecError: A value of the job is impossible.
    """
    line = translate(command, _counts(options, settings), folder)
    script = replace(_read(line, folder, settings), rank_option=line.rank_option)
    words = (*_translated(line, options), *_interpreter(line, script, options, settings), *options)
    notebook = Notebook(folder=folder, job_name=as_name(_job_name(script)))
    request = parse_script(words, line.args, script, settings=settings, notebook=notebook)
    return request, line.note


def _read(line: LauncherLine, folder: Path, settings: Settings) -> ScriptFolder:
    """The script or module of a line, with the files that go along."""
    if line.is_module:
        return read_module(line.script, folder, settings)
    return read_script(Path(line.script), folder, settings)


def _job_name(script: ScriptFolder) -> str:
    """The name of the script, or the last part of the module's."""
    parts = [part for part in script.module.split(".") if part not in ("", "__main__")]
    return parts[-1] if parts else Path(script.name).stem


def _counts(options: Sequence[str], settings: Settings) -> JobCounts:
    """The counts that the options ask for, and the GPUs of a node, as far as they are known here."""
    gpus: int | None = _number(options, "--gpus")
    if not gpus:
        is_default = not any(word.startswith("--cluster=") for word in options)
        gpus = vm_sizes.lookup(default_vm_size(settings)).gpus if is_default else 0
        gpus = gpus if gpus or (is_default and settings.backend == "local") else None
    return JobCounts(_number(options, "--nodes"), _number(options, "--processes"), gpus)


def _number(options: Sequence[str], flag: str) -> int:
    """The number that an option gives; 0 if it is not there or invalid."""
    texts = [word.partition("=")[2] for word in options if word.startswith(f"{flag}=")]
    return int(texts[-1]) if texts and texts[-1].isdecimal() else 0


def _translated(line: LauncherLine, own: Sequence[str]) -> list[str]:
    """The launcher's options as those of the job, which come first: the job's own win."""
    words = [f"{flag}={value}" for flag, value in line.options.items()]
    variables = {name: f"--env={name}={value}" for name, value in line.env.items()}
    variables |= {name: f"--env={name}" for name in line.passed}
    return [*words, *(word for name, word in variables.items() if not _names_variable(own, name))]


def _names_variable(options: Sequence[str], name: str) -> bool:
    return any(re.match(rf"--(env|secret)={name}(=|$)", word) for word in options)


def _interpreter(
    line: LauncherLine, script: ScriptFolder, own: Sequence[str], settings: Settings
) -> list[str]:
    """The option for the Python that the line names, by its path or with `uv run`; the job's own wins.

    Raises:
        UsageError: The nodes do not have it.
    """
    given = {word.partition("=")[0] for word in own}
    text = script.files.get(script.name, b"").decode(errors="replace")
    is_own = (
        line.is_project and not line.is_module and script_metadata(text)
    )  # of PEP 723, instead of the project's
    if not (line.python or line.is_project) or "--python" in given or is_own:
        return []
    where = (
        "in the image"
        if "--image" in given
        else ""
        if _is_here(settings)
        else f"on the nodes of {settings.backend}"
    )
    if line.python:
        if where:
            text = f"{line.python} is a Python of this machine, not {where}"
            raise UsageError(text, hint="Name one of the nodes: --python PATH.")
        return [f"--python={line.python}"]
    if where:
        raise not_on_nodes(script.folder, where)
    if "--with" in given:
        raise UsageError(
            "uv run and --with are both given", hint="Leave uv run out, or add the package: uv add"
        )
    return [f"--python={project_python(script.folder)}"]


def _is_here(settings: Settings) -> bool:
    """Whether the nodes have the folders of this machine."""
    section = settings.sections.get(settings.backend)
    return settings.backend in ("local", "slurm") and not getattr(section, "ssh", "")
