"""What has to be there before a job's processes: pulled, mounted, made. Nothing is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node import requirements
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.launch.plan import Containers, Directory, Image, LogPaths, Mount, Output, Plan, PlanNode


def plan(folder: Path, *directories: Directory) -> Plan:
    return Plan(
        guid="guid",
        nodes=(PlanNode("n0", str(folder), "/tmp", {}, directories),),
        processes=(),
        output=Output(LogPaths("/out"), LogPaths("/err")),
        exits="/exits",
        python="python",
        mounts=(Mount("mount -t x server:/", "data"),),
    )


def tools(made: Plan, folder: Path) -> list[requirements.Tool]:
    return list(
        requirements.tools(made, sign_in=folder / "sign-in", mounts=folder / "mounts", password="hush")
    )


def test_a_mount_command_gets_its_path_its_root_and_its_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(requirements, "elevated", lambda argv: argv)
    (tool,) = tools(plan(tmp_path)._replace(mounts=(Mount("mount -t x server:/", "my data"),)), tmp_path)
    path = tmp_path / "mounts" / "my data"
    assert tool.argv[-1] == f"mount -t x server:/ '{path}'"
    assert tool.env == {"AZ_BATCHAI_JOB_MOUNT_ROOT": str(tmp_path / "mounts"), MARK: "guid/mounts"}
    assert path.is_dir()
    end = tool.outcome(32, "no such server")
    assert end
    assert end.errors[0]["code"] == "JobPreparationFailed"
    assert len(str(tool.outcome(1, "x" * 9999))) < 2 * requirements.MAX_MESSAGE_LENGTH


def test_an_existing_mount_is_not_mounted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(requirements, "is_mounted", lambda path: path == tmp_path / "mounts" / "data")
    assert tools(plan(tmp_path), tmp_path) == []


@pytest.mark.parametrize(
    ("containers", "count"),
    [
        (Containers(Image("tf", username="u"), ("docker",)), 1),
        (Containers(Image("tf"), ("docker",)), 0),
        (Containers(Image("tf", username="u"), ()), 0),
    ],
)
def test_only_an_image_with_a_user_is_pulled_before_the_job(tmp_path, containers, count):
    made = tools(plan(tmp_path)._replace(containers=containers, mounts=()), tmp_path)
    assert [tool.argv for tool in made] == [["docker", "pull", "tf"]] * count
    assert all("hush" not in repr(tool) for tool in made)
    assert not (tmp_path / "sign-in").exists()
