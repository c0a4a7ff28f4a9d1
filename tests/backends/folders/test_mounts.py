"""Which folder is behind a mount path. Nothing is mounted here."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.errors import SpecError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import MountVolumes
from tests.wire_bodies import plain_cluster, plain_job

LAYOUT = Layout(Path("/home"))
ROOT = "AZ_BATCHAI_MOUNT_ROOT"
ROOTS = {ROOT: {"afs": Path("/share"), "afs2/deep": Path("/deep")}}
SERVER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/fileServers/f"


def volumes(**kinds: list[dict[str, object]]) -> MountVolumes:
    return MountVolumes.from_wire(kinds)


def share(path: str, account: str = "acc", url: str = "") -> dict[str, object]:
    return {
        "accountName": account,
        "azureFileUrl": url or f"https://{account}.file.core.windows.net/data",
        "relativeMountPath": path,
        "credentials": {"accountKey": "k"},
    }


def test_each_kind_of_mount_has_its_folder():
    blob = {
        "accountName": "acc",
        "containerName": "boxes",
        "relativeMountPath": "bfs",
        "credentials": {"accountKey": "k"},
    }
    server = {"fileServer": {"id": SERVER}, "relativeMountPath": "nfs", "sourceDirectory": "/data/inner"}
    unmanaged_one = {"mountCommand": "mount x", "relativeMountPath": "own"}
    made = volumes(
        azureFileShares=[share("afs")],
        azureBlobFileSystems=[blob],
        fileServers=[server],
        unmanagedFileSystems=[unmanaged_one],
    )
    usual = mounts.with_default(LAYOUT, None)
    assert set(usual) == {"autoafs", "autobfs"}
    assert mounts.with_default(LAYOUT, made) == {
        **usual,
        "afs": Path("/home/shares/acc/data"),
        "bfs": Path("/home/containers/acc/boxes"),
        "nfs": Path("/home/fileservers/g/w/f/inner"),
    }
    taken = volumes(
        azureFileShares=[share("autoafs")],
        unmanagedFileSystems=[{"mountCommand": "m", "relativeMountPath": "autobfs/deep"}],
    )
    assert mounts.with_default(LAYOUT, taken) == {"autoafs": Path("/home/shares/acc/data")}


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        (f"${ROOT}/afs", "/share"),
        (f"${ROOT}/afs/logs/", "/share/logs"),
        ("${" + ROOT + "}/afs2/deep/x", "/deep/x"),
    ],
)
def test_a_path_below_a_mount_is_in_its_folder(path, folder):
    assert mounts.resolve(path, ROOTS) == Path(folder)


@pytest.mark.parametrize(
    "path",
    [
        f"${ROOT}/afsother",
        f"${ROOT}/afs/../x",
        f"${ROOT}/afs/a/../../x",
        f"${ROOT}/nowhere",
        f"${ROOT}",
        f"${ROOT}X/afs",
        "/afs",
    ],
)
def test_a_path_on_no_mount_or_out_of_one_is_refused(path):
    with pytest.raises(SpecError) as caught:
        mounts.resolve(path, ROOTS, field="the.field")
    assert caught.value.problems[0].path == "the.field"


@pytest.mark.parametrize("root", ["$AZ_BATCHAI_JOB_MOUNT_ROOT", "${AZ_BATCHAI_JOB_MOUNT_ROOT}"])
def test_logs_on_an_unmanaged_file_system_are_refused_and_elsewhere_go_with_the_job(root):
    systems = {"unmanagedFileSystems": [{"mountCommand": "mount x", "relativeMountPath": "own"}]}
    cluster = ClusterSpec.from_wire(plain_cluster())

    def logs(path):
        fields = {"stdOutErrPathPrefix": f"{root}/{path}", "mountVolumes": systems}
        job = JobSpec.from_wire(plain_job(SERVER.replace("fileServers", "clusters"), **fields))
        return mounts.output_root(LAYOUT, job, cluster, "guid")

    for path in ("own", "own/logs"):
        with pytest.raises(SpecError):
            logs(path)
    assert logs("owner/logs") == LAYOUT.job("guid").unmounted / "owner/logs"


def test_existing_link_of_a_mount_is_kept(tmp_path):
    layout, root = Layout(tmp_path / "home"), tmp_path / "mounts"
    root.mkdir()
    (tmp_path / "mine").mkdir()
    (root / "autoafs").symlink_to(tmp_path / "mine")
    for _ in range(2):
        mounts.link(layout, root, volumes(azureFileShares=[share("deep/afs")]))
    assert (root / "autoafs").resolve() == tmp_path / "mine"
    assert (root / "deep/afs").resolve() == layout.share("acc", "data").resolve()
    assert layout.share("acc", "data").is_dir()
