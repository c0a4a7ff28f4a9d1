"""The definition of a sweep: a file on its share, from which any client can take the sweep's next step."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from batchai_magics.backends.base import STORAGE, Backend, Storage
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_options import ROWS, SweepOptions
from batchai_magics.cell.search_space import MAX_TRIALS, SearchSpace, Trials, search_space
from batchai_magics.cell.sweep_request import SweepRequest, has_markers
from batchai_magics.errors import NotFoundError, StorageError, UsageError
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.runs.labels import is_parameter
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.records.record_files import CHANNELS
from batchai_magics.untrusted_files import parse_json

VERSION = 3
MAX_BYTES = 64 << 20
FOLDER = "sweeps"  # on the share, with a folder for each experiment
CANCELLED, STOPPED = "cancelled", "stopped"  # why no further trial is started
_MAX_SEED = 1 << 63
_LAST_S = 1e11  # the latest time that is read, in the year 5138


class Template(TypedDict):
    """The job of a sweep with markers for the parameters, as JSON; uploads are in base64."""

    spec: dict[str, Any]
    uploads: dict[str, str]
    secrets: list[str]
    records: dict[str, str]
    watch: str | None
    job: str
    patterns: dict[str, str]


@dataclass(frozen=True)
class SweepDefinition:
    """The definition of a sweep, without the state of its trials."""

    name: str  # the sweep's name, which its trials' names begin with
    digest: str  # a digest of the cell: an edited one is another sweep
    options: SweepOptions  # the options, with the search that is made: `grid`, `random`, `tpe` or `rows`
    # The parameters of the trials that are known from the start, by number from 1
    trials: Annotated[Trials, Field(max_length=MAX_TRIALS)] = field(default_factory=list)
    trial_count: int = 0  # how many trials there are to be
    # The job with markers; None if only the cell can make it
    template: Template | None = field(default=None, repr=False)
    ended: str = ""  # why no further trial is started: CANCELLED, STOPPED; else empty
    note: str = ""  # the reason, for the user
    # When it was submitted last, in seconds since 1970
    since: Annotated[float, Field(ge=0, lt=_LAST_S)] = 0.0

    @property
    def search_space(self) -> SearchSpace | None:
        """The search space; None for rows, and for seeds alone."""
        space, is_rows = self.options.space, self.options.search == ROWS
        return search_space(space, is_stored=True) if space and not is_rows else None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        if self.trials:  # which all have the same
            return tuple(self.trials[0])
        return tuple(self.search_space.domains) if self.search_space else ()

    def repeats(self, run: int) -> bool:
        """Whether a trial runs again if this run of it, counted from 1, fails."""
        return run <= self.options.retries

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> SweepDefinition:
        """Reads the text of `to_json`.

        Raises:
            ValueError: It is malformed, or of a later version.
        """
        data = parse_json(text)
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise ValueError("it is not a sweep that this version knows")
        try:
            definition = _STORED.validate_python(data)
            _check_bounds(definition)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except UsageError as error:
            raise ValueError(f"it is malformed: {error}") from None
        return definition


_STORED = TypeAdapter(SweepDefinition)


def _check_bounds(definition: SweepDefinition) -> None:
    """Raises ValueError for a number that is out of bounds, UsageError for an invalid search space or id."""
    options = definition.options
    counts = (definition.trial_count, options.trials or 0, options.seeds, options.parallel, options.retries)
    values = chain.from_iterable(trial.values() for trial in definition.trials)
    if not (all(0 <= count <= MAX_TRIALS for count in counts) and 0 <= options.seed <= _MAX_SEED):
        raise ValueError("a count or the seed is out of bounds")
    if not all(map(is_parameter, values)):
        raise ValueError("a value of a trial is too long, or no number")
    if definition.template is not None:
        ResourceId.parse(definition.template["job"])
    _ = definition.search_space


@dataclass(frozen=True)
class SweepFiles:
    """The definitions of the sweeps of an experiment, on a share."""

    backend: Backend
    share: str
    experiment: str

    def names(self) -> list[str]:
        """The names of the sweeps, sorted."""
        try:
            files = self._storage.list(self.share, f"{FOLDER}/{self.experiment}")
        except NotFoundError:
            return []
        names = (file.path.rpartition("/")[2] for file in files if file.is_file)
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def read(self, name: str) -> SweepDefinition:
        """The definition of a sweep.

        Raises:
            NotFoundError: There is no such sweep.
            StorageError: The file is damaged, or of a later version.
        """
        try:
            if self._storage.show(self.share, self.path(name)).size_bytes > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
            return SweepDefinition.from_json(self._storage.download(self.share, self.path(name)))
        except ValueError as error:
            raise StorageError(f"the definition of the sweep {name} cannot be read: {error}") from None

    def write(self, definition: SweepDefinition) -> None:
        """Stores a definition, atomically."""
        self._storage.make(self.share)
        self._storage.upload(self.share, {self.path(definition.name): definition.to_json().encode()})

    def path(self, name: str) -> str:
        """The path of a definition on the share."""
        return f"{FOLDER}/{self.experiment}/{name}.json"

    @property
    def _storage(self) -> Storage:
        return STORAGE.of(self.backend)


def definition_of(request: SweepRequest, name: str, *, now: float) -> SweepDefinition:
    """The definition of a new sweep."""
    return SweepDefinition(
        name=name,
        digest=digest_of(request),
        options=request.options,
        trials=request.trials,
        trial_count=request.trial_count,
        template=template_json(request.template) if request.template else None,
        since=now,
    )


def continued(old: SweepDefinition, new: SweepDefinition) -> SweepDefinition:
    """The definition of a sweep that is submitted again: its trials keep their numbers, new ones follow."""
    known = {str(trial) for trial in old.trials}
    trials = [*old.trials, *(trial for trial in new.trials if str(trial) not in known)]
    return replace(new, name=old.name, trials=trials, trial_count=max(len(trials), new.trial_count))


def digest_of(request: SweepRequest) -> str:
    """A digest of the job that all trials have in common."""
    job = request.template or request.first
    parts = [json.dumps(job.spec.to_wire(), sort_keys=True)]
    parts += [f"{path} {hashlib.sha256(data).hexdigest()}" for path, data in sorted(job.uploads.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def template_json(template: CellRequest) -> Template:
    """The template of later trials, without secrets, which the creating process has as variables."""
    marked = {path: data for path, data in template.uploads.items() if has_markers(data)}
    return {
        "spec": template.spec.to_wire(),
        "uploads": {path: base64.b64encode(data).decode() for path, data in marked.items()},
        "secrets": list(template.spec.secret_names),
        "records": {name: text for name, text in template.records.items() if name != CHANNELS},
        "watch": template.watch.to_json() if template.watch else None,
        "job": str(template.id),
        "patterns": dict(template.patterns),
    }


def template_of(definition: SweepDefinition, env: Mapping[str, str]) -> CellRequest | None:
    """The template of further trials; None if `env` lacks a secret, or only the cell can make it."""
    stored = definition.template
    if stored is None or any(name not in env for name in stored["secrets"]):
        return None
    wire = json.loads(json.dumps(stored["spec"]))
    if stored["secrets"]:
        wire["properties"]["secrets"] = [{"name": name, "value": env[name]} for name in stored["secrets"]]
    return CellRequest(
        ResourceId.parse(stored["job"]),
        JobSpec.of_fields(wire["properties"]),
        uploads={path: base64.b64decode(text) for path, text in stored["uploads"].items()},
        patterns=stored["patterns"],
        records=stored["records"],
        watch=WatchRequest.from_json(stored["watch"]) if stored["watch"] else None,
    )
