"""`batchai_magics.run` and `find_job`: jobs from Python, without backend or settings objects."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchai_magics.backends.base.backend_registry import current_settings, open_backend, shares_folders
from batchai_magics.cell import CellRequest, Notebook, parse, parse_script
from batchai_magics.cell.cell_options import SWEEP_FLAGS, cell_options
from batchai_magics.cell.function_script import function_script
from batchai_magics.cell.notebook_script import SUFFIX, check_modules, parameter_words
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs.argument_checks import argument_error, check_argument
from batchai_magics.jobs.folder_snapshot import read_script
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.predecessors import trial_ids
from batchai_magics.jobs.submit import find, submit
from batchai_magics.jobs.sweeps.sweep_handle import Sweep
from batchai_magics.models.backend_options import declared_by
from batchai_magics.models.resource_ids import as_name
from batchai_magics.options.job_options import flag_hint
from batchai_magics.options.option import Option, ValueKind

_OF_CELLS = (
    *("--spec", "--file", "--template", "--var", "--wait", "--dry-run", "--help", "--new", "--same"),
    *SWEEP_FLAGS,
)


def run(
    target: Callable[..., Any] | str | Path,
    *,
    nodes: int = 1,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    parameters: Mapping[str, object] | None = None,
    new: bool = True,
    **options: object,
) -> Job:
    """Runs a function, a script or a notebook as a job; returns at once.

        job = batchai_magics.run(train, nodes=2, processes=4, kwargs={"lr": 0.1})
        job.wait().result                      # what rank 0's call has returned
        batchai_magics.run("train.py", nodes=2, args=["--lr", 0.1])
        batchai_magics.run("analysis.ipynb", parameters={"lr": 0.1})

    It runs on the backend of `%batchai use`, the settings file and `BATCHAI_BACKEND`, by default on this
    machine. The source of a function is sent with the definitions of its module that it uses; a script or a
    notebook, with the files of the working directory. Warns about files that are not sent.

    Args:
        target: A function, or the path of a script or a notebook.
        nodes: The number of nodes.
        args: Positional arguments of the function, or the arguments of the script.
        kwargs: Keyword arguments of the function.
        parameters: Variables of the notebook, set behind its cell with the tag `parameters`, or first.
        new: Whether to run again what has run before; otherwise, the job of the earlier run is returned.
        options: Other options of `%%batchai_job` by name: `processes=4`, `env={"SEED": 1}`, `upload=["a"]`.

    Returns:
        The handle of the job.

    Raises:
        UsageError: An option is unknown, the script does not exist, or the function's source is not known.
        SpecError: A value of the job is impossible.
    """
    settings = current_settings()
    declared = declared_by(settings.sections.values())
    known = {o.name: o for o in cell_options(declared) if o.flags[0] not in _OF_CELLS}
    words = option_words({"nodes": nodes, **options}, known)
    if parameters and not str(target).endswith(SUFFIX):
        raise UsageError("run: parameters are for a notebook", hint="Use args, or kwargs of a function.")
    if callable(target):
        script = function_script(target, args, kwargs)
        line = shlex.join([*words, f"--use={','.join(script.variables)}"])
        names = dict(script.variables)
        notebook = Notebook(names=names, job_name=as_name(target.__name__), is_function=True)
        request = parse(
            line.replace("{", "{{").replace("}", "}}"), script.text, settings=settings, notebook=notebook
        )
    else:
        args = [*args, *parameter_words(parameters or {})]
        request = _script_request(target, words, args, kwargs, settings)
    for note in request.notes:
        warnings.warn(note, stacklevel=2)
    return submit(open_backend(settings), replace(request, is_new=new), settings).job


def find_job(name: str, *, experiment: str = "", workspace: str = "") -> Job:
    """The handle of a job of any day, by its name.

        job = batchai_magics.find_job("resnet-2")
        job.metrics(), job.provenance(), job.download()

    It is searched for on the backend of `%batchai use`, the settings file and `BATCHAI_BACKEND`.

    Args:
        name: The job's name.
        experiment: Its experiment, if that is not the current one.
        workspace: Its workspace, if that is not the current one.

    Returns:
        The handle of the job.

    Raises:
        UsageError: A name is not a string.
        NotFoundError: It does not exist; the hint suggests a similar name.
    """
    for argument, value in {"name": name, "experiment": experiment, "workspace": workspace}.items():
        check_argument("find_job", argument, value)
    settings = current_settings()
    chosen = replace(
        settings,
        experiment=experiment or settings.experiment,
        workspace=workspace or settings.workspace,
    )
    return find(open_backend(settings), name, chosen)


def option_words(options: Mapping[str, object], known: Mapping[str, Option]) -> list[str]:
    """Options by name as the words of a line: lists give one word each, dicts `NAME=VALUE`.

    Raises:
        UsageError: There is no such option, or a sweep that is a predecessor may submit more jobs.
    """
    if unknown := next((name for name in options if name not in known), ""):
        names = {option.flags[0]: option.name for option in known.values()}  # as Python writes them
        hint = flag_hint(f"--{unknown}", known.values())
        hint = re.sub(r"--[\w-]+", lambda flag: names.get(flag[0], flag[0]), hint)
        raise UsageError(f"run: unknown option {unknown}", hint=hint or f"Options: {', '.join(known)}.")
    words: list[str] = []
    for name, value in options.items():
        flag = known[name].flags[0]
        if known[name].value_kind is ValueKind.NOTHING:
            words += [flag] if value else []
        else:
            words += [f"{flag}={text}" for text in _texts(value)]
    return words


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{name}={text}" for name, text in value.items())
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Sweep):
        yield from map(str, trial_ids(value.backend, value.experiment, value.definition))
    elif value is not None:
        yield str(value.id if isinstance(value, Job) else value)


def _script_request(
    path: str | Path,
    words: Sequence[str],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None,
    settings: Settings,
) -> CellRequest:
    if not isinstance(path, (str, Path)):
        raise argument_error("run", "target", path, "a function or the path of a script")
    if kwargs:
        raise UsageError("run: kwargs are for a function", hint="A script takes args: args=['--lr', 0.1].")
    folder = Path.cwd()
    script = read_script(Path(path), folder, settings)
    if script.is_notebook:
        check_modules(words, is_here=shares_folders(settings))
    notebook = Notebook(folder=folder, job_name=as_name(Path(script.name).stem))
    return parse_script(words, [str(arg) for arg in args], script, settings=settings, notebook=notebook)
