"""A job whose description is read when somebody asks for it is the very same job."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest

from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import JobResource
from tests.widgets.scripted import resource


def read(spec: JobSpec, times: list[int]) -> JobSpec:
    times.append(1)
    return spec


def late(times: list[int]) -> tuple[JobResource, JobResource]:
    """A job, and the same with a description that is yet to be read."""
    job = resource()
    fields = {name: value for name, value in vars(job).items() if name != "spec"}
    return job, JobResource.reading_later(partial(read, job.spec, times), **fields)


def test_it_is_read_once_and_not_before_it_is_asked_for() -> None:
    times: list[int] = []
    job, later = late(times)
    assert (later.id, later.word, later.execution) == (job.id, job.word, job.execution)
    assert not times
    assert [later.spec, later.spec] == [job.spec] * 2
    assert len(times) == 1


@pytest.mark.parametrize("again", [lambda job: job, copy.copy, lambda job: pickle.loads(pickle.dumps(job))])
def test_it_is_equal_to_one_that_was_read(again) -> None:
    job, later = late([])
    assert again(later) == job
    assert again(later).to_wire() == job.to_wire()
    assert repr(again(later)) == repr(job)


def test_a_changed_one_is_no_other_job() -> None:
    job, later = late([])
    assert replace(later, output_path_segment="s") == replace(job, output_path_segment="s")


def test_what_a_job_has_not_is_named() -> None:
    job, later = late([])
    for one in (job, later):
        with pytest.raises(AttributeError, match="no speck"):
            one.speck  # noqa: B018 it is looked for
