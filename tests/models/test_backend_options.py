"""Native options of engines: their keys in a job.json, and what a line adds to them."""

from __future__ import annotations

import json

import pytest

from batchai_magics.errors import SpecError, UsageError
from batchai_magics.models.backend_options import (
    BackendOption,
    check_texts,
    given_options,
    with_backend_options,
)
from batchai_magics.models.job_spec import JobSpec

FIELDS = {
    "cluster": {
        "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/clusters/c"
    },
    "nodeCount": 1,
    "stdOutErrPathPrefix": "x",
    "customToolkitSettings": {"commandLine": "true"},
}


def even(text: str) -> None:
    if int(text) % 2:
        raise ValueError(f"{text} is odd")


EVEN = BackendOption("even", "even numbers", "N", even)


def spec(**more: object) -> JobSpec:
    return JobSpec.from_wire({"properties": {**FIELDS, **more}})


@pytest.mark.parametrize("key", ["batchaiSlurm", "batchaislurm", "BatchAISlurm"])
def test_a_job_file_has_the_option_of_an_engine_in_any_letter_case(key: str) -> None:
    read = spec(**{key: "--qos=long"})
    assert read.backend_options == {"slurm": "--qos=long"}
    assert read.to_wire()["properties"]["batchaiSlurm"] == "--qos=long"
    assert JobSpec.from_stored(json.dumps(read.to_wire())) == read


def test_unknown_properties_of_a_read_job_are_no_options() -> None:
    shown = {**FIELDS, "batchaiWaiting": "Priority", "batchaiAttempts": [], "batchaiEven": "2"}
    assert JobSpec.from_service(shown).backend_options == {"even": "2"}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"batchaiEven": 2}, r"properties\.batchaiEven: expected text"),
        ({"batchaiEven": "2", "batchaieven": "4"}, "this key is there twice: batchaiEven"),
        ({"slurm": "--qos=long"}, r"properties\.slurm: unknown key"),
        (
            {"nodecuont": 2, "nodeCount": "x"},
            r'(?s)nodecuont: unknown key \(Did you mean "nodeCount"\?.*nodeCount:',
        ),
    ],
)
def test_unknown_and_invalid_keys_beside_backend_options_are_refused(
    field: dict[str, object], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        spec(**field)


def test_a_job_cannot_be_made_with_a_key_that_is_no_option() -> None:
    made = spec(batchaiEven="2")
    with pytest.raises(ValueError, match="unknown key nodecount"):
        JobSpec(**dict(made), nodecount="2")


def test_backend_option_of_the_command_line_follows_that_of_the_file() -> None:
    given = given_options({"even": "4", "name": "x"}, [EVEN])
    assert with_backend_options({"batchaiEven": "2"}, given) == {"batchaiEven": "2 4"}
    assert with_backend_options({"nodeCount": 1}, given) == {"nodeCount": 1, "batchaiEven": "4"}
    assert with_backend_options({"nodeCount": 1}, given_options({"even": None}, [EVEN])) == {"nodeCount": 1}


def test_what_the_engine_does_not_take_is_named_by_option_and_by_field() -> None:
    with pytest.raises(UsageError, match="--even: 3 is odd"):
        given_options({"even": "3"}, [EVEN])
    with pytest.raises(SpecError, match=r"properties\.batchaiEven: 3 is odd"):
        check_texts({"even": "3"}, [EVEN], what="the job")
    check_texts({"even": "2", "of another engine": "3"}, [EVEN], what="the job")


@pytest.mark.parametrize("name", ["", "Slurm", "two-words", "two words", "--slurm"])
def test_the_name_of_an_option_is_one_lower_case_word(name: str) -> None:
    with pytest.raises(ValueError, match="one lower-case word"):
        BackendOption(name, "")
