"""Users of one server share its machine: trials are theirs, and no job waits for another user's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.contract.place import HOLD
from tests.server.running import Running, connected, serving
from tests.wire_bodies import plain_job
from tests.world import until

pytestmark = pytest.mark.slow


def start(server: Running, user: ArmBackend, name: str, **fields: object) -> ResourceId:
    """Creates a job that runs until it is stopped."""
    id = server.world.job_id(name)
    user.create(id, JobSpec.from_wire(plain_job(server.world.cluster, HOLD, **fields)))
    return id


def test_trials_that_the_server_starts_belong_to_the_user_of_the_sweep(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        anna = connected(server.url, server.add_user("anna"))
        settings = replace(server.world.settings, experiment=server.world.job_id("x").parent.name)
        line = 's --sweep "lr=1" --retry-failed 1'
        request = parse_sweep(line, "raise SystemExit(3)", settings=settings, notebook=Notebook())
        sweep = submit_sweep(anna, request, settings).sweep
        until(lambda: len(sweep.stored_trials()[0].runs) == 2)  # which takes no step
        ids = [run.id.key for run in sweep.stored_trials()[0].runs]
        owners = server.world.backend.ownership.owners(sweep.experiment.key)
        assert [owners.get(id) for id in ids] == ["anna", "anna"]


def test_a_job_does_not_start_after_one_of_another_user(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        anna, ben = (connected(server.url, server.add_user(name)) for name in ("anna", "ben"))
        first = start(server, anna, "first")
        assert anna.show(start(server, anna, "second", batchaiAfter=[str(first)])).waiting
        with pytest.raises(NotFoundError, match="another user's"):
            start(server, ben, "third", batchaiAfter=[str(first)])
        assert server.world.backend.names(first.parent, Kind.JOB) == ["first", "second"]
