"""The wire format of run records: the files that a job is created with, and those that are read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from batchai_magics.models.response_object import unreadable
from batchai_magics.records import record_files
from batchai_magics.records.labels import Labels

RECORDS_KEY = "batchaiRecords"  # beside the `properties` of a job that is created


def submitted(body: Mapping[str, Any]) -> dict[str, str]:
    """The record files in the body of a request that creates a job.

    Raises:
        ValueError: They are not texts by name, or not those that come with a job.
    """
    files = body.get(RECORDS_KEY, {})
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ValueError(f"{RECORDS_KEY} must be an object with texts")
    record_files.check_submitted(files)
    return files


def labels_to_wire(labels: Mapping[str, Labels]) -> dict[str, Any]:
    """The JSON of the labels of jobs."""
    return {"value": {key: each.to_json() for key, each in labels.items()}}


def labels_from_wire(data: Mapping[str, Any]) -> dict[str, Labels]:
    """Reads the JSON of `labels_to_wire`.

    Raises:
        ServiceError: It has another shape.
    """
    value = data.get("value")
    if not isinstance(value, Mapping):
        raise unreadable("the labels of runs", "there is no value")
    return {str(key): Labels.from_json(each) for key, each in value.items()}


def files_to_wire(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The JSON of record files."""
    return {"value": {name: base64.b64encode(data).decode() for name, data in files.items()}}


def files_from_wire(data: Mapping[str, Any]) -> dict[str, bytes]:
    """Reads the JSON of `files_to_wire`.

    Raises:
        ServiceError: It has another shape.
    """
    try:
        return {str(name): base64.b64decode(text, validate=True) for name, text in data["value"].items()}
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise unreadable("the records of a run", str(error)) from None
