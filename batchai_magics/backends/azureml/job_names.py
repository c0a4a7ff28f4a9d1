"""Names of jobs in Azure Machine Learning, and their labels as tags, by which its studio filters. Pure.

A name is unique in its workspace and never reused. A tag of ours is one without a value; the value of any
other is a parameter, `note` holds the note, and `batchai_patterns` the expressions of `--metric` as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.runs.labels import Labels, Parameter
from batchai_magics.records.record_files import LABELS

NAME, EXPERIMENT = "batchai_name", "batchai_experiment"  # among the properties of our jobs
SEGMENTS = "batchai"  # the folder of our runs in datastores, and of our files in code and logs
_HASH_LENGTH = 8


def run_name(job: ResourceId, generation: int = 1) -> str:
    """The name of a job's run: its own, and a hash of experiment and name.

    `generation` counts the jobs that had this name and were deleted, whose names stay taken.
    """
    digest = hashlib.sha256(f"{job.experiment}/{job.name}".lower().encode()).hexdigest()[:_HASH_LENGTH]
    name = job.name.lower()
    prefix = "" if name[0].isalnum() else "job"
    return f"{prefix}{name}-{digest}" + (f"-{generation}" if generation > 1 else "")


def job_id(workspace: ResourceId, data: Mapping[str, Any]) -> ResourceId:
    """The id of a job by its JSON: the one it was created with, else its name in its experiment."""
    properties = data.get("properties") or {}
    creation_properties = properties.get("properties") or {}
    experiment = str(creation_properties.get(EXPERIMENT) or properties.get("experimentName") or "Default")
    name = str(creation_properties.get(NAME) or data.get("name"))
    return workspace.child(Kind.EXPERIMENT, experiment).child(Kind.JOB, name)


NOTE, PATTERNS = "note", "batchai_patterns"


def tags_of(labels: Labels) -> dict[str, str]:
    """The tags of a job with these labels."""
    parameters = {name: _text(value) for name, value in labels.parameters.items()}
    patterns = json.dumps(dict(labels.patterns), ensure_ascii=False) if labels.patterns else ""
    others = {NOTE: labels.note, PATTERNS: patterns}
    named = {name: text for name, text in others.items() if text}
    return {**dict.fromkeys(labels.tags, ""), **parameters, **named}


def labels_of(tags: Mapping[str, object]) -> Labels:
    """The labels in the tags of a job."""
    texts = {str(name): str(value or "") for name, value in tags.items()}
    note, patterns = texts.pop(NOTE, ""), _patterns(texts.pop(PATTERNS, ""))
    parameters = {name: _value(text) for name, text in texts.items() if text}
    return Labels(tuple(name for name, text in texts.items() if not text), note, parameters, patterns)


def _patterns(text: str) -> Mapping[str, str]:
    """The expressions in a tag; empty if it is malformed, as another program may have written it."""
    try:
        return Labels.from_json({"patterns": json.loads(text or "{}")}).patterns
    except ValueError:
        return {}


def initial_tags(records: Mapping[str, str]) -> dict[str, str]:
    """The tags of a new job, from the labels among its records; empty if these are malformed."""
    try:
        return tags_of(Labels.from_json(json.loads(records.get(LABELS, "{}"))))
    except ValueError:
        return {}


def _text(value: Parameter) -> str:
    """A parameter as text: JSON, or the plain string if it would not be read as another value."""
    is_plain = isinstance(value, str) and value and _value(value) == value
    return str(value) if is_plain else json.dumps(value)


def _value(text: str) -> Parameter:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text
