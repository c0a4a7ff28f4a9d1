"""Whether what makes the environment of `--with` is there."""

import pytest

from batchai_magics import cell
from batchai_magics.backends.local.runner import LocalFacts
from batchai_magics.errors import CapabilityError
from batchai_magics.models.resource_ids import Kind
from tests.world import World

pytestmark = pytest.mark.slow


@pytest.fixture
def no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFacts, "has_uv", lambda self: False)  # the machine may have one


@pytest.mark.usefixtures("no_uv")
def test_packages_without_uv_are_refused_before_anything_is_submitted(world: World) -> None:
    with pytest.raises(CapabilityError, match=r"machine that submits has none[\s\S]*pip install uv"):
        world.submit("r --with einops", "print(1)")
    assert list(world.backend.list(world.job_id("r").parent, Kind.JOB)) == []


@pytest.mark.usefixtures("no_uv")
def test_an_environment_that_is_there_needs_none(world: World) -> None:
    spec = cell.parse("r --with einops", "print(1)", settings=world.settings).spec
    digest = spec.job_preparation.command_line.partition("/environments/")[2].partition('"')[0]
    made = world.home / "shares" / "account" / "share" / "environments" / digest / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert world.submit("r --with einops", "print(1)").id == world.job_id("r")
