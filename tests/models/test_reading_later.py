"""A job whose description is read when somebody asks for it is the very same job."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from batchai_magics.models.resources import JobResource
from tests.widgets.scripted_job import resource


class Source:
    """A job's fields, and which of them were read."""

    def __init__(self, job: JobResource) -> None:
        self.job = job
        self.read: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self.read.append(name)
        return getattr(self.job, name)


class JobCopy:
    """The same, for who copies it."""

    def __init__(self, job: JobResource) -> None:
        vars(self).update(vars(job))


def lazy_job() -> tuple[JobResource, JobResource]:
    """A job, and the same with fields that are yet to be read."""
    job = resource()
    return job, JobResource.reading_later(JobCopy(job))


def test_each_field_is_read_once_and_not_before_it_is_asked_for() -> None:
    source = Source(resource())
    later = JobResource.reading_later(source)
    assert not source.read
    assert (later.id, later.word, later.word) == (source.job.id, source.job.word, source.job.word)
    assert "spec" not in source.read
    assert [later.spec, later.execution, later.spec] == [source.job.spec, source.job.execution, later.spec]
    assert len(source.read) == len(set(source.read))


@pytest.mark.parametrize("again", [lambda job: job, copy.copy, lambda job: pickle.loads(pickle.dumps(job))])
def test_it_is_equal_to_one_that_was_read(again) -> None:
    job, later = lazy_job()
    assert again(later) == job
    assert again(later).to_wire() == job.to_wire()
    assert repr(again(later)) == repr(job)


def test_a_changed_one_is_no_other_job() -> None:
    job, later = lazy_job()
    assert replace(later, output_path_segment="s") == replace(job, output_path_segment="s")


def test_what_a_job_has_not_is_named() -> None:
    job, later = lazy_job()
    for one in (job, later):
        with pytest.raises(AttributeError, match="no speck"):
            one.speck  # noqa: B018 it is looked for
