"""The table of a job's fields is what the models say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic.fields import FieldInfo

from batchai_magics.commands.output.az_json import to_az_json
from batchai_magics.commands.output.job_json import ERROR, JOB, TOOLS, DefaultObject
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job import JobSpec
from batchai_magics.models.toolkits import Toolkit
from batchai_magics.models.wire import WireModel


def test_it_has_the_fields_of_a_job() -> None:
    assert fields_of(JobSpec) == JOB


def test_it_has_the_fields_of_an_error() -> None:
    assert fields_of(ErrorDetail) == ERROR


def test_it_has_every_toolkit_in_turn() -> None:
    assert list(TOOLS.items()) == [(kind.wire_key, kind.value) for kind in Toolkit]


def fields_of(model: type[WireModel]) -> dict[str, Any]:
    return {
        field.alias or name: shown(field.alias or name, field) for name, field in model.model_fields.items()
    }


def shown(key: str, field: FieldInfo) -> Any:
    """A row of the table, made of the model."""
    factory = field.default_factory
    if isinstance(factory, type) and issubclass(factory, WireModel):
        return DefaultObject(fields_of(factory))
    model = next(models(field.annotation), None)
    if model:
        return fields_of(model)
    if "dict" in str(field.annotation):
        return {}
    return None if field.is_required() else to_az_json({key: field.default})[key]


def models(annotation: Any) -> Iterator[type[WireModel]]:
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)
