"""A wrong argument is named in one clear line, with what to pass, before anything is asked or written."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from batchai_magics import Job, Settings, submit
from batchai_magics.cell import parse
from batchai_magics.errors import UsageError
from batchai_magics.models.resource_ids import Kind, workspace_id


class Untouched:
    """A backend that nobody may ask anything."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"it was asked for {name}")


@pytest.fixture
def job() -> Job:
    experiment = workspace_id(Settings()).child(Kind.EXPERIMENT, "default")
    return Job(Untouched(), experiment.child(Kind.JOB, "j"))


def test_a_file_in_the_place_of_a_number_is_told_how_to_be_passed(job: Job) -> None:
    with pytest.raises(UsageError) as caught:
        job.log("stderr.txt")
    assert caught.value.message == (
        "job.log: tail must be a non-negative integer or None, not 'stderr.txt' (str)"
    )
    assert caught.value.hint == "For that file: job.log(file='stderr.txt')."


@pytest.mark.parametrize(
    ("method", "values", "named", "part"),
    [
        ("log", (1.5,), {}, "job.log: tail must be a non-negative integer or None, not 1.5 (float)"),
        ("log", (True,), {}, "tail must be"),
        ("log", (-1,), {}, "tail must be"),
        ("log", (), {"file": 3}, "job.log: file must be a string"),
        ("log", (), {"file": Path("stderr.txt")}, "file must be a string"),
        ("wait", ("5",), {}, "job.wait: timeout_s must be a non-negative number of seconds or None"),
        ("wait", (-1,), {}, "timeout_s must be"),
        ("wait", (math.nan,), {}, "timeout_s must be"),
        ("events", (3,), {}, "job.events: stop must be a threading.Event or None"),
        ("metrics", (), {"tidy": "yes"}, "job.metrics: tidy must be True or False"),
        ("plot", (), {"ax": "axes"}, "job.plot: ax must be matplotlib Axes or None"),
        ("files", (1,), {}, "job.files: directory_id must be a string"),
        ("files", ("stdouterr", None), {}, "job.files: path must be a string"),
        ("download", (1,), {}, "job.download: path must be a path as a string, or a file of job.files()"),
        ("download", ("a", 2), {}, "job.download: to must be a path"),
        ("download", ("a",), {"directory_id": None}, "directory_id must be a string"),
        ("download", ("a",), {"partial": 1}, "partial must be True or False"),
    ],
)
def test_a_wrong_argument_of_a_job_is_named(
    job: Job, method: str, values: tuple[object, ...], named: dict[str, object], part: str
) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(job, method)(*values, **named)
    assert part in caught.value.message
    assert "\n" not in caught.value.message


def test_a_long_value_is_cut_in_the_message(job: Job) -> None:
    with pytest.raises(UsageError) as caught:
        job.log(file=["x" * 1000])
    assert len(str(caught.value)) < 200


def test_a_name_is_no_id_of_a_job() -> None:
    with pytest.raises(UsageError, match="Job: id must be a ResourceId, not 'resnet'"):
        Job(Untouched(), "resnet")


def test_what_is_submitted_is_a_request_with_settings() -> None:
    settings = Settings()
    with pytest.raises(UsageError, match="submit: request must be a CellRequest, not") as caught:
        submit(Untouched(), "print('hello')", settings)
    assert "parse(" in caught.value.hint
    with pytest.raises(UsageError, match="submit: settings must be Settings, not None"):
        submit(Untouched(), parse("j", "print()", settings=settings), None)
