"""What lies on this machine is counted and removed, and nothing else."""

from __future__ import annotations

import time

import pytest

from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind
from tests.default_resources import ensure_defaults
from tests.world import World

pytestmark = pytest.mark.slow


def test_a_link_to_itself_hides_no_file_beside_it(world: World) -> None:
    shares = world.home / "shares"
    for number in range(20):
        (shares / f"{number}").write_bytes(bytes(10_000))
        (shares / f"link-{number}").symlink_to(f"link-{number}")
    kept = {part.name: part for part in world.backend.cleaning.stored_items()}
    assert kept["file shares"].size_bytes >= 200_000


def test_all_of_it_goes_and_what_is_somebody_elses_stays(world: World) -> None:
    world.run("one")
    (world.home / "mine.txt").write_text("of no concern")
    (world.home / "shares" / "link").symlink_to(world.home / "mine.txt")
    world.backend.cleaning.clean()
    assert [path.name for path in world.home.iterdir()] == ["mine.txt"]
    assert not world.backend.list(world.workspace, Kind.WORKSPACE)
    ensure_defaults(world.backend, world.settings)  # it is a home as good as new
    assert world.run("two").log() == "hello\n"


def test_old_runs_go_with_their_logs_and_tagged_ones_stay(world: World) -> None:
    old, tagged = world.run("old"), world.run("tagged --tag baseline")
    between = time.time()
    new = world.run("new")
    cleaning = world.backend.cleaning
    logs = [file for file in world.home.rglob("stdout.txt") if world.guid(old) in str(file)]
    assert logs
    found = cleaning.old_runs(between, keeps_tagged=True)
    assert [item.name for item in found] == ["default/old"]
    assert found[0].size_bytes >= sum(file.stat().st_size for file in logs) > 0
    assert cleaning.clean_runs(between, keeps_tagged=True) == found
    assert not any(file.exists() for file in logs)
    with pytest.raises(NotFoundError):
        old.show()
    assert [job.state.value for job in (tagged, new)] == ["succeeded"] * 2
    assert [item.name for item in cleaning.clean_runs(between, keeps_tagged=False)] == ["default/tagged"]
    assert new.log().startswith("hello")
