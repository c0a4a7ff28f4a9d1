"""Jobs as `az -o json` prints them, of their kept text: one of each form is read, others are filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.commands.output.job_data import Beside, execution_data, job_data, with_description
from batchai_magics.commands.output.tidy import SPAN, moment
from batchai_magics.models.provisioning import ProvisioningState

if TYPE_CHECKING:
    from batchai_magics.models.resources import JobResource
    from batchai_magics.models.resources.jobs import KeptJob

MOST_FORMS = 256  # that are remembered; jobs of other forms are read one by one
_LOOKED_AT = ("id", SPAN)  # what else is printed depends on the text of these, or how they are
_SIGN, _ESCAPED_SIGN = "\ue000", "\\ue000"  # kept text is ASCII
_MARK = re.compile(f'"{_SIGN}(\\d+){_SIGN}"')
_QUOTE = re.compile(r'(?<!\\)"')
_WRITTEN_OTHERWISE = ("\\u", "\\\\")  # JSON has more than one way to write these

_quoted = json.encoder.encode_basestring  # what an encoder calls for a text, after some questions
_SUCCEEDED = _quoted(ProvisioningState.SUCCEEDED.value)

Pick = Callable[[Sequence[str]], tuple[str, ...]]


class Form(NamedTuple):
    """The text of all jobs whose descriptions differ in free texts alone, with `%s` for each of these."""

    text: str
    values: Pick  # of the parts of a description, with what is beside it behind them


class JobTexts:
    """Makes the text of jobs, and knows the forms of those that it has made."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], Form] = {}
        self._picks: dict[int, dict[tuple[int, ...], Pick]] = {}  # by the number of parts, what is bound

    def of(self, job: JobResource) -> str:
        """A job as an item of an indented list, with the line break before it."""
        kept = job.kept
        parts = _parts(kept.description) if kept else None
        if kept is None or parts is None:
            return _item(job_data(job))
        form = self._form(parts)
        if form is None:
            if len(self._forms) == MOST_FORMS:
                return _item(job_data(job))
            form = self._learned(parts)
        return form.text % form.values([*parts, *_beside(kept)])

    def _form(self, parts: Sequence[str]) -> Form | None:
        picks = self._picks.get(len(parts), {}).values()
        return next((form for bound in picks if (form := self._forms.get(bound(parts)))), None)

    def _learned(self, parts: Sequence[str]) -> Form:
        free = [index for index in range(1, len(parts), 2) if _is_free(parts, index)]
        places = tuple(sorted({*range(len(parts))} - {*free}))
        bound = self._picks.setdefault(len(parts), {}).setdefault(places, itemgetter(*places))
        form = self._forms[bound(parts)] = _form(parts, free)
        return form


def _parts(description: str) -> list[str] | None:
    """What stands before, in and between the texts of a description; None for what has to be read."""
    if "\\" not in description:
        return description.split('"')
    if any(sign in description for sign in _WRITTEN_OTHERWISE):
        return None
    return _QUOTE.split(description)


def _is_free(parts: Sequence[str], index: int) -> bool:
    """Whether the text at that place is printed as it is, and nothing else depends on it."""
    is_field = parts[index - 1] == ": " and not parts[index + 1].startswith(":")
    return is_field and parts[index - 2] not in _LOOKED_AT


def _form(parts: Sequence[str], free: Sequence[int]) -> Form:
    """The form of a description with these parts: it is read with marks in the place of free texts."""
    marked = [_mark(index) if index in free else part for index, part in enumerate(parts)]
    description = json.loads('"'.join(marked))["properties"]
    beside = Beside(*(_mark(len(parts) + index) for index in range(len(Beside._fields))))
    pieces = _MARK.split(_form_item(with_description(description, beside)))
    places = list(map(int, pieces[1::2]))
    slots = ['"%s"' if place < len(parts) else "%s" for place in places]
    pieces[::2] = [piece.replace("%", "%%") for piece in pieces[::2]]
    pieces[1::2] = slots
    return Form("".join(pieces), itemgetter(*places))


def _mark(place: int) -> str:
    return f"{_SIGN}{place}{_SIGN}"


def _beside(kept: KeptJob) -> Beside:
    """JSON of what is printed beside the description."""
    created = _moment(kept.created)
    return Beside(
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
    """JSON of a time; a job ends and changes its state in one moment."""
    return _quoted(moment(datetime.fromtimestamp(seconds, timezone.utc)))


def _execution(kept: KeptJob, started: float) -> str:
    text = _execution_text(kept.ended is not None, kept.exit_code, kept.errors)
    return text % (_moment(started) if kept.ended is None else (_moment(kept.ended), _moment(started)))


@lru_cache(maxsize=1024)
def _execution_text(has_ended: bool, exit_code: int | None, errors: str) -> str:
    """JSON of how a job ran, with `%s` for its times; many end in the same way."""
    sign = _SIGN * (errors.count(_ESCAPED_SIGN) + 1)  # more of them than the errors have
    data = execution_data(sign, sign if has_ended else None, exit_code, json.loads(errors))
    text = _indented([[data]]).removeprefix("[\n  [\n    ").removesuffix("\n  ]\n]")
    return text.replace("%", "%%").replace(f'"{sign}"', "%s")


def _item(data: dict[str, Any]) -> str:
    """The data as an item of an indented list, with the line break before it."""
    from pydantic_core import to_json  # it writes ten times as quickly as json does, and loads slowly

    return to_json([data], indent=2).decode().removeprefix("[").removesuffix("\n]")


def _form_item(data: dict[str, Any]) -> str:
    """The same for one of each form."""
    return _indented([data]).removeprefix("[").removesuffix("\n]")


def _indented(data: list[Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
