"""Native options of an engine, as the example runner declares one: `--nofile` of docs/example_runner.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.base.backend_registry import choose
from batchai_magics.cell import parse
from batchai_magics.commands.output.resource_json import as_json
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, SpecError
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind
from tests.contract.place import Place
from tests.server.running import connected, serving_backend

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine"), pytest.mark.needs("nofile_options")]


def test_the_option_reaches_the_processes(place: Place) -> None:
    job = place.run("ulimit -n", batchaiNofile="64")
    assert place.log(job.id) == b"64\n"
    assert job.spec.backend_options == {"nofile": "64"}
    assert as_json(job)["batchaiNofile"] == "64"


def test_the_engine_refuses_a_text_before_anything_is_written(place: Place) -> None:
    with pytest.raises(SpecError, match=r"properties\.batchaiNofile: invalid literal"):
        place.start(batchaiNofile="many")
    assert not place.backend.list(place.experiment, Kind.JOB)


def test_a_misspelt_option_gets_a_guess(place: Place) -> None:
    with pytest.raises(CapabilityError, match='Did you mean "batchaiNofile"') as caught:
        place.start(batchaiNofil="64")
    assert "properties.batchaiNofil is not supported by the processes backend" in str(caught.value)


def test_a_server_in_front_of_the_engine_takes_the_option(place: Place, tmp_path: Path) -> None:
    with serving_backend(place.backend, tmp_path / "server") as url:
        client = connected(url)
        there = replace(place, backend=client)
        assert client.capabilities.backend_options == ("nofile",)
        assert there.log(there.run("ulimit -n", batchaiNofile="64").id) == b"64\n"
        with pytest.raises(SpecError, match=r"properties\.batchaiNofile: invalid literal"):
            there.start(name="other", batchaiNofile="many")
        with pytest.raises(CapabilityError, match=r"properties\.batchaiSlurm is not supported by the arm"):
            there.start(name="other", batchaiSlurm="--qos=long")
        client.close()


def test_a_cell_has_the_option(place: Place) -> None:
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    settings = choose(Settings(), "processes")
    job = submit(place.backend, parse("r --nofile 99", script, settings=settings), settings).job
    place.wait(job.id)
    assert place.log(job.id) == b"99\n"
