"""Turns a cell with `--sweep` into a request: the parameters of each trial, and the job that it runs."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from batchai_magics.cell.cell_options import (
    GRID,
    OPTIONS,
    RANDOM,
    ROWS,
    TPE,
    SweepOptions,
    option_error,
    words_of,
)
from batchai_magics.cell.cell_request import CellRequest, Notebook, parse
from batchai_magics.cell.command_values import MARKER, filled_fields, is_plain
from batchai_magics.cell.notebook_variables import NAME
from batchai_magics.cell.search_space import (
    FORM,
    MAX_TRIALS,
    SearchSpace,
    Trials,
    listed_trials,
    search_space,
)
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.runs.labels import Parameter
from batchai_magics.options.option_parsing import expand, join_dashed_values, parse_options

SEED = "seed"  # the parameter of --seeds
SEED_VARIABLE = "BATCHAI_SEED"
_MARKERS = re.compile(r"__param_(\w+?)__")
_WRITTEN = tuple(option for option in OPTIONS if option.name in ("sweep", "seeds", "args"))


@dataclass(frozen=True)
class SweepRequest:
    """The request of a sweep.

    `template`: the job with markers in place of the parameters' values; None where an option takes a
    number, in which case `cells` has each trial's job.
    """

    name: str
    first: CellRequest  # the job of the first trial, or of the lowest values of the space
    template: CellRequest | None
    options: SweepOptions  # the options, with the search that is made: `grid`, `random`, `tpe` or `rows`
    trials: Trials  # the parameters of each trial; of `tpe`, none yet
    trial_count: int  # how many trials there are to be
    cells: Sequence[CellRequest] = field(default=(), repr=False)

    @property
    def variable(self) -> str:
        """The Python name that the handle is bound to."""
        return self.first.variable if self.first.variable != "job" else "sweep"

    def job(self, index: int, parameters: Mapping[str, Parameter]) -> CellRequest:
        """The job of a trial, by its index in `trials`."""
        return with_parameters(self.template, parameters) if self.template else self.cells[index]


def parse_sweep(line: str, body: str, *, settings: Settings, notebook: Notebook) -> SweepRequest:
    """Parses the cell of a sweep.

    Raises:
        UsageError: The line or the cell is wrong.
        SpecError: A value of a trial's job is impossible.
    """
    words = words_of(line)
    refuse = partial(option_error, command=notebook.command)
    written, _ = parse_options(_WRITTEN, join_dashed_values(words, OPTIONS), make_error=refuse)
    text = expand(" ".join(written.sweep or ()), notebook.names)
    space, rows = (SearchSpace({}), []) if written.sweep is None else _space_or_rows(text, notebook)
    lowest = space.lowest if space else rows[0]
    if written.seeds is not None:
        if SEED in lowest:
            raise UsageError(f"--seeds: the sweep has a parameter {SEED} already", hint="Give one of both.")
        lowest = {**lowest, SEED: 0}
    names = tuple(lowest)
    words += _parameter_options(names, words, written.args or "", body)
    words += [] if written.seeds is None else [f"--env={SEED_VARIABLE}={{{SEED}}}"]
    cell = _Cell(shlex.join(words), body, settings, notebook, line)
    first = cell.request(lowest)
    assert first.sweep is not None  # the line has --sweep or --seeds
    _check_uses(first, names)
    search, trials, count = _trials(first.sweep, space, rows)
    options = replace(first.sweep, space=text, search=search)
    template = cell.template(names)
    cells = _cells(cell, template, search, trials)
    return SweepRequest(first.name, first, template, options, trials, count, cells)


def _space_or_rows(text: str, notebook: Notebook) -> tuple[SearchSpace | None, Trials]:
    """What `--sweep` says: a space in its own words, or the rows of a variable."""
    if not text.isidentifier():
        return search_space(text), []
    if text not in notebook.names:
        raise UsageError(f"--sweep {text}: there is no variable {text} with the rows of a sweep", hint=FORM)
    return None, listed_trials(notebook.names[text])


def _check_uses(first: CellRequest, names: Sequence[str]) -> None:
    """Raises UsageError if `--use` sends a parameter, which has another value in each trial."""
    sent = [name for name in names if first.source and name in first.source.uses]
    if sent:
        hint = f"T{_variable_hint(sent[0])[1:]}."
        raise UsageError(f"--use {sent[0]}: this is a parameter of the sweep", hint=hint)


def _cells(cell: _Cell, template: CellRequest | None, search: str, trials: Trials) -> list[CellRequest]:
    """The job of each trial if there is no template; else the job of each is made later, and checked here."""
    if template is None:
        if search == TPE:
            text = f"--search {TPE}: an option of this line that takes a number has a parameter"
            raise UsageError(text, hint="They can be in --args, --env and the script.")
        return [cell.request(trial) for trial in trials]
    for trial in trials:
        if not all(map(is_plain, trial.values())):
            with_parameters(template, trial)
    return []


@dataclass(frozen=True)
class _Cell:
    """A cell whose parameters get values."""

    line: str
    body: str
    settings: Settings
    notebook: Notebook
    written: str  # the line as the user wrote it

    def request(self, parameters: Mapping[str, Parameter]) -> CellRequest:
        """The request with these values of the parameters."""
        request = self._parsed(parameters)
        others = {name: value for name, value in parameters.items() if not is_plain(value)}
        if not others:
            return request
        marked = self._parsed({**parameters, **{name: MARKER.format(name) for name in others}})
        return replace(with_parameters(marked, others), source=request.source)

    def _parsed(self, parameters: Mapping[str, object]) -> CellRequest:
        notebook = replace(self.notebook, names={**self.notebook.names, **parameters})
        request = parse(self.line, self.body, settings=self.settings, notebook=notebook)
        if request.source is None:
            return request
        remedies = {**request.source.remedies}
        for name in parameters:
            if f"{NAME} {name}" in remedies:
                remedies[f"{NAME} {name}"] = f"{name} is a parameter of the sweep: {_variable_hint(name)}"
        texts = dict(zip(request.source.remedies.values(), remedies.values(), strict=True))
        notes = tuple(texts.get(note, note) for note in request.notes)
        return replace(
            request, notes=notes, source=replace(request.source, line=self.written, remedies=remedies)
        )

    def template(self, names: Sequence[str]) -> CellRequest | None:
        """The request with markers; None if an option refuses them, as one that takes a number does."""
        try:
            return self._parsed({name: MARKER.format(name) for name in names})
        except UsageError:  # what else is wrong with the cell, its first trial has reported
            return None


def _variable_hint(name: str) -> str:
    return f"the script finds it as os.environ['PARAM_{name.upper()}']"


def with_parameters(template: CellRequest, parameters: Mapping[str, Parameter]) -> CellRequest:
    """The job of a trial: the template with values in place of its markers, as arguments in command lines.

    Raises:
        UsageError: A value cannot be an argument where its marker stands.
    """
    files = {path: _substitute_bytes(data, parameters) for path, data in template.uploads.items()}
    wire = filled_fields(template.spec.to_wire(secrets=True), parameters)
    if files != template.uploads:  # each trial has a folder of its own
        folder = next(iter(files)).rsplit("/", 1)[0]
        digest = hashlib.sha256(json.dumps(dict(parameters)).encode()).hexdigest()[:8]
        target = f"{folder}-{digest}"
        files = {path.replace(folder, target, 1): data for path, data in files.items()}
        wire = json.loads(json.dumps(wire).replace(f'{folder}"', f'{target}"'))
    records = {name: substitute(text, parameters) for name, text in template.records.items()}
    return replace(template, spec=JobSpec.of_fields(wire["properties"]), uploads=files, records=records)


def substitute(text: str, parameters: Mapping[str, Parameter]) -> str:
    """A JSON text with the values in place of the markers in its strings."""
    return _MARKERS.sub(lambda match: json.dumps(_text(match, parameters))[1:-1], text)


def has_markers(data: bytes) -> bool:
    """Whether a file of the template has markers."""
    return _MARKERS.search(data.decode("latin-1")) is not None


def with_values(parameters: Mapping[str, Parameter], values: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Recorded parameters of the template with the values in place of the markers."""
    filled = dict(parameters)
    for name, value in parameters.items():
        if isinstance(value, str):
            whole = _MARKERS.fullmatch(value)  # keeps the type of its value
            text = _MARKERS.sub(lambda match: _text(match, values), value)
            filled[name] = values.get(whole[1], text) if whole else text
    return filled


def _substitute_bytes(data: bytes, parameters: Mapping[str, Parameter]) -> bytes:
    if not has_markers(data):
        return data
    text = data.decode("utf-8", "surrogateescape")
    return _MARKERS.sub(lambda match: _text(match, parameters), text).encode("utf-8", "surrogateescape")


def _text(match: re.Match[str], parameters: Mapping[str, Parameter]) -> str:
    return str(parameters[match[1]]) if match[1] in parameters else match[0]


def _parameter_options(names: Sequence[str], words: Sequence[str], args: str, body: str) -> list[str]:
    """The options that give each parameter to the script, as a variable and as an argument.

    A script that defines `"--lr"`, or of `batch_size` also `"--batch-size"`, gets `--lr {lr}` behind the
    arguments `args`, unless the line mentions the parameter.
    """
    variables = [f"--env=PARAM_{name.upper()}={{{name}}}" for name in names]
    arguments: list[str] = []
    for name in names:
        flags = (f"--{name}", f"--{name.replace('_', '-')}")
        defined = (flag for flag in flags if re.search(rf"""["']{re.escape(flag)}["']""", body))
        flag = next(defined, "")
        if flag and not any(f"{{{name}}}" in word for word in words):
            arguments.append(f"{flag} {{{name}}}")
    if not arguments:
        return variables
    return [*variables, f"--args={' '.join(filter(None, (args, *arguments)))}"]


def _trials(options: SweepOptions, space: SearchSpace | None, rows: Trials) -> tuple[str, Trials, int]:
    """How the sweep searches, the parameters of its trials as far as they are known, and their number."""
    if space and space.domains:
        search, trials, count = _search(options, space)
    else:
        source = "--seeds alone, which says" if space else "rows, which say"
        for flag, value in (("--trials", options.trials), ("--search", options.search)):
            if value:
                raise UsageError(f"{flag} does not go with {source} what is tried", hint="Leave it out.")
        search, trials = (GRID, space.grid()) if space else (ROWS, rows)
        count = len(trials)
    if not options.seeds:
        return search, trials, count
    if not trials:
        text = f"--seeds does not go with --search {TPE}, which learns from single trials"
        raise UsageError(text, hint="Search first; then run the best values with --seeds.")
    if count * options.seeds > MAX_TRIALS:
        raise UsageError(f"--seeds: these are more than {MAX_TRIALS:,} trials")
    seeded = [{**trial, SEED: seed} for trial in trials for seed in range(options.seeds)]
    return search, seeded, len(seeded)


def _search(options: SweepOptions, space: SearchSpace) -> tuple[str, Trials, int]:
    """The same of a search in a space, before seeds."""
    search = options.search or (GRID if space.is_finite and not options.trials else RANDOM)
    count = space.grid_size if search == GRID else options.trials
    if search == GRID and not space.is_finite:
        raise UsageError(f"--search {GRID}: a range has no grid", hint="List its values: lr=1e-4,1e-3.")
    if search == GRID and options.trials:
        raise UsageError(f"--trials does not go with --search {GRID}, which tries all combinations")
    if not count:
        hint = "--trials 20"
        raise UsageError("--trials is missing: a search of ranges needs a number of trials", hint=hint)
    if count > MAX_TRIALS:
        raise UsageError(f"--sweep: these are more than {MAX_TRIALS:,} trials")
    if search == TPE:
        return TPE, [], count
    trials = space.grid() if search == GRID else space.sample(count, options.seed)
    return search, trials, len(trials)
