"""Tags, notes and parameters of runs as the tags of jobs, which Azure's studio shows and filters by. Pure.

A tag of ours is one without a value; the value of any other is a parameter, and `note` holds the note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.runs.parameters import Parameter
from batchai_magics.records.record_files import LABELS

NOTE = "note"


def tags_of(labels: Labels) -> dict[str, str]:
    """The tags of a job with these labels."""
    parameters = {name: _text(value) for name, value in labels.parameters.items()}
    return {**dict.fromkeys(labels.tags, ""), **parameters, **({NOTE: labels.note} if labels.note else {})}


def labels_of(tags: Mapping[str, object]) -> Labels:
    """The labels that the tags of a job say."""
    texts = {str(name): str(value or "") for name, value in tags.items()}
    note = texts.pop(NOTE, "")
    parameters = {name: _value(text) for name, text in texts.items() if text}
    return Labels(tuple(name for name, text in texts.items() if not text), note, parameters)


def initial_tags(records: Mapping[str, str]) -> dict[str, str]:
    """The tags of a new job, by the labels among its records; none if they are no labels."""
    try:
        return tags_of(Labels.from_json(json.loads(records.get(LABELS, "{}"))))
    except ValueError:
        return {}


def _text(value: Parameter) -> str:
    """A parameter as text: a word as it is, if it cannot be taken for anything else."""
    is_plain = isinstance(value, str) and value and _value(value) == value
    return str(value) if is_plain else json.dumps(value)


def _value(text: str) -> Parameter:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text
