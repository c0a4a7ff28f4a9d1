"""Fast `-o json` of long job lists, from the stored text of each job.

Jobs that differ only in free text share a template: the first is converted, the others fill in their values.
The models' declarations of a job's fields are read from `job_fields.json`, which is generated from them,
because importing the models takes longer than converting thousands of jobs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.commands.output.az_json import DURATION_FIELD, format_time, to_az_json
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.response_object import ProvisioningState

if TYPE_CHECKING:
    from batchai_magics.models.prices import Cost
    from batchai_magics.models.resources import JobResource
    from batchai_magics.models.resources.job_resource import KeptJob

FIELDS_FILE = Path(__file__).with_name("job_fields.json")
MAX_TEMPLATES = 256  # cached at a time
_CONVERTED_FIELDS = ("id", DURATION_FIELD)  # fields whose text is converted or determines other fields
_MARKER, _ESCAPED_MARKER = "\ue000", "\\ue000"  # stored text is ASCII
_PLACEHOLDER = re.compile(f'"{_MARKER}(\\d+){_MARKER}"')
_CLOSING = "\n  }"  # of an item
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

_quoted = json.encoder.encode_basestring  # the C function below json.dumps, without its checks
_SUCCEEDED = _quoted(ProvisioningState.SUCCEEDED.value)

Fields = Mapping[str, "Fields"]  # field → fields of the object or objects in it; no fields: printed as it is
ValuePicker = Callable[[Sequence[str]], tuple[str, ...]]


class JobFields(NamedTuple):
    """The fields of a printed job, and the name of the toolkit of each field with settings."""

    fields: Fields
    toolkits: Mapping[str, str]


class JobHeader(NamedTuple):
    """The JSON text of a job's fields that are not part of its description, by their printed names."""

    id: str
    name: str
    resourceGroup: str
    creationTime: str
    provisioningState: str
    provisioningStateTransitionTime: str
    jobOutputDirectoryPathSegment: str
    executionState: str
    executionStateTransitionTime: str
    executionInfo: str


class JobTemplate(NamedTuple):
    """The JSON text of jobs whose descriptions differ only in free text, with `%s` for each such value."""

    text: str
    values: ValuePicker  # picks the values from the description's parts and the header fields behind them


class JobListJson:
    """Converts jobs to JSON text, with a cache of templates; `cost_of` tells their costs."""

    def __init__(self, cost_of: Callable[[JobResource], Cost | None] | None = None) -> None:
        self._cost_of = cost_of
        self._templates: dict[tuple[str, ...], JobTemplate] = {}
        self._pickers: dict[
            int, dict[tuple[int, ...], ValuePicker]
        ] = {}  # number of parts → bound indexes → picker of the bound parts

    def item_of(self, job: JobResource) -> str:
        """A job as an item of an indented JSON list, with the preceding line break."""
        cost, kept = self._cost_of(job) if self._cost_of else None, job.kept
        if kept is None or _ESCAPED_MARKER in kept.description:
            return _converted_item(job.with_cost(cost))
        return _with_cost(self._kept_item(kept), cost) if cost else self._kept_item(kept)

    def _kept_item(self, kept: KeptJob) -> str:
        parts = _parts(kept.description)
        form = self._template(parts) or self._learn(parts)
        return form.text % form.values([*parts, *_header(kept)])

    def _template(self, parts: Sequence[str]) -> JobTemplate | None:
        picks = self._pickers.get(len(parts), {}).values()
        return next((form for bound in picks if (form := self._templates.get(bound(parts)))), None)

    def _learn(self, parts: Sequence[str]) -> JobTemplate:
        if len(self._templates) == MAX_TEMPLATES:
            self._templates.clear()
            self._pickers.clear()
        free = [index for index in range(1, len(parts), 2) if _is_free(parts, index)]
        places = tuple(sorted({*range(len(parts))} - {*free}))
        bound = self._pickers.setdefault(len(parts), {}).setdefault(places, itemgetter(*places))
        form = self._templates[bound(parts)] = _learned_template(parts, free)
        return form


def _parts(description: str) -> list[str]:
    """A description split at its string quotes; strings have only the escapes with which they are printed."""
    if "\\" not in description:
        return description.split('"')
    parts = _STRING.split(description)
    parts[1::2] = [_unescaped(part) if "\\" in part else part for part in parts[1::2]]
    return parts


def _unescaped(part: str) -> str:
    """The text between the quotes of a stored string as it is printed."""
    return _quoted(json.loads(f'"{part}"'))[1:-1]


def _is_free(parts: Sequence[str], index: int) -> bool:
    """Whether the string at `index` is a field value that is printed unchanged."""
    is_field = parts[index - 1] == ": " and not parts[index + 1].startswith(":")
    return is_field and parts[index - 2] not in _CONVERTED_FIELDS


def _learned_template(parts: Sequence[str], free: Sequence[int]) -> JobTemplate:
    """Builds the template of a description: converts it with placeholders for its free strings."""
    marked = [_placeholder(index) if index in free else part for index, part in enumerate(parts)]
    header = {name: _placeholder(len(parts) + index) for index, name in enumerate(JobHeader._fields)}
    described = json.loads('"'.join(marked))["properties"]
    pieces = _PLACEHOLDER.split(_item(_indented([_document(described, header)])))
    places = list(map(int, pieces[1::2]))
    pieces[::2] = [piece.replace("%", "%%") for piece in pieces[::2]]
    pieces[1::2] = ['"%s"' if place < len(parts) else "%s" for place in places]
    return JobTemplate("".join(pieces), itemgetter(*places))


def _placeholder(place: int) -> str:
    return f"{_MARKER}{place}{_MARKER}"


def _document(description: Mapping[str, Any], header: Mapping[str, Any]) -> Any:
    """JSON-ready data of a job from its description and its other fields."""
    fields, toolkits = _job_fields()
    toolkit = next(name for key, name in toolkits.items() if key in description)
    own = {"type": Kind.JOB.wire_type, "toolType": toolkit}
    return {**to_az_json(_completed({**description, **own}, fields)), **header}


def _completed(value: Any, fields: Fields) -> Any:
    """The value with null for each missing field of its objects."""
    if isinstance(value, list):
        return [_completed(item, fields) for item in value]
    if not fields or not isinstance(value, dict):
        return value
    return {
        **dict.fromkeys(fields),
        **{key: _completed(item, fields.get(key, {})) for key, item in value.items()},
    }


@lru_cache(maxsize=1)
def _job_fields() -> JobFields:
    return JobFields(**json.loads(FIELDS_FILE.read_text(encoding="utf-8")))


def _header(kept: KeptJob) -> JobHeader:
    """The header fields of a job as JSON text."""
    created = _moment(kept.created)
    return JobHeader(
        id=_quoted(kept.id),
        name=_quoted(kept.name),
        resourceGroup=_quoted(kept.group),
        creationTime=created,
        provisioningState=_SUCCEEDED,
        provisioningStateTransitionTime=created,
        jobOutputDirectoryPathSegment=_quoted(kept.output_path_segment),
        executionState=_quoted(kept.state),
        executionStateTransitionTime=_moment(kept.changed),
        executionInfo="null" if kept.started is None else _execution(kept, kept.started),
    )


@lru_cache(maxsize=64)
def _moment(seconds: float) -> str:
    """JSON text of a time, cached: a job's end is also its last state change."""
    return _quoted(format_time(datetime.fromtimestamp(seconds, timezone.utc)))


def _execution(kept: KeptJob, started: float) -> str:
    text = _execution_text(kept.ended is not None, kept.exit_code, kept.errors)
    return text % (_moment(started) if kept.ended is None else (_moment(kept.ended), _moment(started)))


@lru_cache(maxsize=1024)
def _execution_text(has_ended: bool, exit_code: int | None, errors: str) -> str:
    """JSON text of `executionInfo` with `%s` for its times, cached: many jobs end alike."""
    sign = _MARKER * (errors.count(_ESCAPED_MARKER) + 1)  # a run of signs that cannot occur in the errors
    info = {"startTime": sign, "exitCode": exit_code, "errors": json.loads(errors) or None}
    data = _completed({**info, "endTime": sign if has_ended else None}, _job_fields().fields["executionInfo"])
    text = _indented([[to_az_json(data)]]).removeprefix("[\n  [\n    ").removesuffix("\n  ]\n]")
    return text.replace("%", "%%").replace(f'"{sign}"', "%s")


def _converted_item(job: JobResource) -> str:
    """The item of a job whose models are loaded anyway."""
    from pydantic_core import to_json  # ten times as fast as json, but slow to import

    from batchai_magics.commands.output.resource_json import as_json

    return _item(to_json([as_json(job)], indent=2).decode())


def _with_cost(item: str, cost: Cost) -> str:
    """The item with its cost behind the other fields."""
    texts = json.dumps({"cost": round(cost.amount, 6), "currency": cost.currency}, indent=4)
    return f"{item.removesuffix(_CLOSING)},{texts[1:-2]}{_CLOSING}"


def _item(text: str) -> str:
    """The item of an indented list of one, with the preceding line break."""
    return text.removeprefix("[").removesuffix("\n]")


def _indented(data: list[Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
