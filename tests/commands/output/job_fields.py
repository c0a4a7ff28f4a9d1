"""Writes `job_fields.json` from the models: `python -m tests.commands.output.job_fields`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from batchai_magics.commands.output.job_list_json import FIELDS_FILE
from batchai_magics.commands.output.resource_json import as_json
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.toolkit_settings import Toolkit
from batchai_magics.models.wire_model import WireModel
from tests.widgets.scripted_job import resource


def generated() -> str:
    """The content of the file."""
    printed = as_json(resource())
    header: dict[str, Any] = {key: {} for key in printed}
    execution = {**{key: {} for key in printed["executionInfo"]}, "errors": fields_of(ErrorDetail)}
    toolkits = {kind.wire_key: kind.value for kind in Toolkit}
    fields = {**header, **fields_of(JobSpec), "executionInfo": execution}
    return json.dumps({"fields": fields, "toolkits": toolkits}, indent=2) + "\n"


def fields_of(model: type[WireModel]) -> Mapping[str, Any]:
    """The printed fields of a model, each with those of the objects in it."""
    return {
        field.alias or name: next(map(fields_of, models(field.annotation)), {})
        for name, field in model.model_fields.items()
    }


def models(annotation: Any) -> Iterator[type[WireModel]]:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)


if __name__ == "__main__":
    FIELDS_FILE.write_text(generated(), encoding="utf-8")
