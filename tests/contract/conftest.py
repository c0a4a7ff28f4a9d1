"""Runs every contract test on every kind of place whose backend supports what the test needs.

`@pytest.mark.needs("auto_scale")` and `lacks` name a capability, a facet, or an entry of `PlaceKind.lacks`;
`@pytest.mark.place_options(idle_s=0.5)` changes settings. With the fixture `engine`, it runs containers.
`@pytest.mark.decided_by("service")` says who decides what a test is about: the service above all engines, the
engine, or the programs on nodes. Where a place has only samples of these, they are the tests with
`@pytest.mark.sample`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.local.boxes import docker, engine, limited, mpi_image, podman, short_folder
from tests.contract.place import Place, PlaceOptions
from tests.contract.places import PLACES

__all__ = ["docker", "engine", "mpi_image", "podman", "short_folder"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(capability): what the backend of a contract test can do")
    config.addinivalue_line("markers", "lacks(capability): what the backend of a contract test cannot do")
    config.addinivalue_line("markers", "decided_by(whom): the service, the engine, or the programs on nodes")
    config.addinivalue_line("markers", "sample: also runs where the place has only samples of its kind")
    config.addinivalue_line("markers", "place_options(**settings): the backend's settings in a contract test")


# What runs the containers of each backend; tests of the local backend try both. What docker's daemon starts
# inherits no connection to Slurm's process manager.
ENGINES = {"local": "docker", "arm": "podman", "slurm": "podman"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not _is_shown_elsewhere(item)]


def _is_shown_elsewhere(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if params.get("storage") == "containers" and params["place"] == "slurm over ssh":
        return True  # to what is below it, a container is a share
    return {"engine", "place"} <= params.keys() and params["engine"] != ENGINES[str(params["place"])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        wanted = {"needs": True, "lacks": False}
        marks = [mark for mark in metafunc.definition.iter_markers() if mark.name in wanted]
        decider = metafunc.definition.get_closest_marker("decided_by")
        assert decider, f"{metafunc.definition.nodeid} does not say what decides it"
        words = {metafunc.module.__name__.rpartition(".")[2], decider.args[0]}
        is_sample = metafunc.definition.get_closest_marker("sample") is not None
        fit = [
            name
            for name, offer in PLACES.items()
            if all(offer.has(mark.args[0]) is wanted[mark.name] for mark in marks)
            and offer.runs(words, is_sample=is_sample)
        ]
        metafunc.parametrize("place", fit, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if reason := PLACES[request.param].skip_reason():
        pytest.skip(reason)
    marker = request.node.get_closest_marker("place_options")
    options = PlaceOptions(**marker.kwargs if marker else {})
    if "engine" in request.fixturenames:
        options = replace(
            options, container_command=str(limited(request.getfixturevalue("engine"), tmp_path))
        )
    with PLACES[request.param].open(tmp_path, options) as place:
        yield place
