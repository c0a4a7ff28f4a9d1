"""Fast `-o json` of long job lists, from the stored text of each job.

Jobs that differ only in free text share a template: the first is parsed, the others fill in their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.commands.output.az_json import DURATION_FIELD, format_time
from batchai_magics.commands.output.job_json import JobHeader, execution_data, job_data, job_document
from batchai_magics.models.provisioning import ProvisioningState

if TYPE_CHECKING:
    from batchai_magics.models.resources import JobResource
    from batchai_magics.models.resources.jobs import KeptJob


MAX_TEMPLATES = 256  # cached; jobs beyond that are converted one by one
_CONVERTED_FIELDS = ("id", DURATION_FIELD)  # fields whose text is converted or determines other fields
_MARKER, _ESCAPED_MARKER = "\ue000", "\\ue000"  # stored text is ASCII
_PLACEHOLDER = re.compile(f'"{_MARKER}(\\d+){_MARKER}"')
_QUOTE = re.compile(r'(?<!\\)"')
_AMBIGUOUS_ESCAPES = ("\\u", "\\\\")  # ambiguous JSON escapes

_quoted = json.encoder.encode_basestring  # the C function below json.dumps, without its checks
_SUCCEEDED = _quoted(ProvisioningState.SUCCEEDED.value)

ValuePicker = Callable[[Sequence[str]], tuple[str, ...]]


class JobTemplate(NamedTuple):
    """The JSON text of jobs whose descriptions differ only in free text, with `%s` for each such value."""

    text: str
    values: ValuePicker  # picks the values from the description's parts and the header fields behind them


class JobListJson:
    """Converts jobs to JSON text, with a cache of templates."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ...], JobTemplate] = {}
        self._pickers: dict[
            int, dict[tuple[int, ...], ValuePicker]
        ] = {}  # number of parts → bound indexes → picker of the bound parts

    def item_of(self, job: JobResource) -> str:
        """A job as an item of an indented JSON list, with the preceding line break."""
        kept = job.kept
        parts = _parts(kept.description) if kept else None
        if kept is None or parts is None:
            return _item(job_data(job))
        form = self._template(parts)
        if form is None:
            if len(self._templates) == MAX_TEMPLATES:
                return _item(job_data(job))
            form = self._learn(parts)
        return form.text % form.values([*parts, *_header(kept)])

    def _template(self, parts: Sequence[str]) -> JobTemplate | None:
        picks = self._pickers.get(len(parts), {}).values()
        return next((form for bound in picks if (form := self._templates.get(bound(parts)))), None)

    def _learn(self, parts: Sequence[str]) -> JobTemplate:
        free = [index for index in range(1, len(parts), 2) if _is_free(parts, index)]
        places = tuple(sorted({*range(len(parts))} - {*free}))
        bound = self._pickers.setdefault(len(parts), {}).setdefault(places, itemgetter(*places))
        form = self._templates[bound(parts)] = _template(parts, free)
        return form


def _parts(description: str) -> list[str] | None:
    """A description split at its string quotes; None where it must be parsed."""
    if "\\" not in description:
        return description.split('"')
    if any(sign in description for sign in _AMBIGUOUS_ESCAPES):
        return None
    return _QUOTE.split(description)


def _is_free(parts: Sequence[str], index: int) -> bool:
    """Whether the string at `index` is a field value that is printed unchanged."""
    is_field = parts[index - 1] == ": " and not parts[index + 1].startswith(":")
    return is_field and parts[index - 2] not in _CONVERTED_FIELDS


def _template(parts: Sequence[str], free: Sequence[int]) -> JobTemplate:
    """Builds the template of a description: converts it with placeholders for its free strings."""
    marked = [_placeholder(index) if index in free else part for index, part in enumerate(parts)]
    description = json.loads('"'.join(marked))["properties"]
    beside = JobHeader(*(_placeholder(len(parts) + index) for index in range(len(JobHeader._fields))))
    pieces = _PLACEHOLDER.split(_template_item(job_document(description, beside)))
    places = list(map(int, pieces[1::2]))
    slots = ['"%s"' if place < len(parts) else "%s" for place in places]
    pieces[::2] = [piece.replace("%", "%%") for piece in pieces[::2]]
    pieces[1::2] = slots
    return JobTemplate("".join(pieces), itemgetter(*places))


def _placeholder(place: int) -> str:
    return f"{_MARKER}{place}{_MARKER}"


def _header(kept: KeptJob) -> JobHeader:
    """The header fields of a job as JSON text."""
    created = _moment(kept.created)
    return JobHeader(
        id=_quoted(kept.id),
        name=_quoted(kept.name),
        group=_quoted(kept.group),
        created=created,
        provisioning=_SUCCEEDED,
        provisioned=created,
        segment=_quoted(kept.output_path_segment),
        state=_quoted(kept.state),
        changed=_moment(kept.changed),
        execution="null" if kept.started is None else _execution(kept, kept.started),
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
    data = execution_data(sign, sign if has_ended else None, exit_code, json.loads(errors))
    text = _indented([[data]]).removeprefix("[\n  [\n    ").removesuffix("\n  ]\n]")
    return text.replace("%", "%%").replace(f'"{sign}"', "%s")


def _item(data: dict[str, Any]) -> str:
    """The data as an item of an indented JSON list, with the preceding line break."""
    from pydantic_core import to_json  # ten times as fast as json, but slow to import

    return to_json([data], indent=2).decode().removeprefix("[").removesuffix("\n]")


def _template_item(data: dict[str, Any]) -> str:
    """The same by the standard library, for templates."""
    return _indented([data]).removeprefix("[").removesuffix("\n]")


def _indented(data: list[Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
