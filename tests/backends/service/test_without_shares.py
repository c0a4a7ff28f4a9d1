"""A backend whose users have no shares: the service keeps the scripts of cells itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.base import STORAGE, Backend
from batchai_magics.backends.service.service import Service
from batchai_magics.cell import Notebook, parse
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError
from batchai_magics.jobs.submit import SubmittedJob, submit
from tests.contract.place import Place, PlaceOptions
from tests.contract.places import PLACES
from tests.patience import PATIENCE_S
from tests.server.running import connected, serving_backend

pytestmark = pytest.mark.slow
SCRIPT = """
from pathlib import Path
print(Path(__file__).with_name("data.csv").read_text(), n)
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The place of the example runner, without shares."""
    with PLACES["processes"].open(tmp_path / "place", PlaceOptions()) as place:
        home = place.backend.context
        bare = Service(home.repository, home.runner, setting=home.setting, core_quota=home.core_quota)
        bare.storage = bare.containers = bare.accounts = None
        yield replace(place, backend=bare)


def run(backend: Backend, folder: Path) -> SubmittedJob:
    (folder / "data.csv").write_text("7")
    settings = Settings()
    request = parse(
        "r --upload data.csv --use n",
        SCRIPT,
        settings=settings,
        notebook=Notebook(folder=folder, names={"n": 8}),
    )
    return submit(backend, request, settings)


def test_a_cell_runs_with_its_files_and_variables(place: Place, tmp_path: Path) -> None:
    job = run(place.backend, tmp_path).job.wait(PATIENCE_S)
    assert job.log() == "7 8\n"
    again = run(place.backend, tmp_path)
    assert (again.is_new, again.job.name) == (False, "r")


def test_job_files_reach_the_backend_through_a_server(place: Place, tmp_path: Path) -> None:
    with serving_backend(place.backend, tmp_path / "home") as url:
        client = connected(url)
        assert client.storage is None
        assert run(client, tmp_path).job.wait(PATIENCE_S).log() == "7 8\n"
        client.close()


def test_commands_on_shares_say_that_there_are_none(place: Place) -> None:
    with pytest.raises(CapabilityError, match="the processes backend has no file shares"):
        STORAGE.of(place.backend)
    place.backend.groups.create("g", "local")
    place.backend.groups.delete("g")
