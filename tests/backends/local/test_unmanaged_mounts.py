"""Unmanaged file systems: really mounted for nodes and jobs, unmounted after them, and never deleted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from batchai_magics.backends.local import process, unmanaged_mounts
from batchai_magics.backends.node.ranks.leftovers import mount_mark
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resources import Cluster
from tests.backends.local.namespace import AS_SOMEBODY, scene, tell
from tests.world import PATIENCE_S, World, until

pytestmark = pytest.mark.slow

SHARE = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def volumes(command: str, place: str = "data") -> dict[str, object]:
    return {"unmanagedFileSystems": [{"mountCommand": command, "relativeMountPath": place}]}


def idle(world: World, cluster: Cluster) -> int:
    return world.backend.show(cluster.id).node_states.idle_node_count


def mounted(world: World) -> int:
    return len(unmanaged_mounts.mount_points(world.home))


# -- of clusters ---------------------------------------------------------------


def test_a_cluster_mounts_before_its_nodes_take_jobs_and_unmounts_after_them(tmp_path: Path) -> None:
    assert scene(a_cluster_with_a_folder_of_the_machine, tmp_path) == [
        ["theirs\n", 1],
        "set up with theirs\n",
        [2, 1],
        [0, 0],
        [1, 1],
        [0, ["file", "made-by-j"]],
    ]


def a_cluster_with_a_folder_of_the_machine(folder: Path) -> None:
    """A bind mount: on the same device as all the rest, so that only the table of mounts tells of it."""
    theirs = folder / "my data"
    theirs.mkdir()
    (theirs / "file").write_text("theirs\n")
    world = World(folder / "home")
    task = {
        "commandLine": "echo set up with $(cat $AZ_BATCHAI_MOUNT_ROOT/data/file)",
        "stdOutErrPathPrefix": SHARE,
    }
    cluster = world.make_cluster(
        2, nodeSetup={"mountVolumes": volumes(f"mount --bind '{theirs}'"), "setupTask": task}
    )
    job = world.start(
        "cat $AZ_BATCHAI_MOUNT_ROOT/data/file; touch $AZ_BATCHAI_MOUNT_ROOT/data/made-by-j", cluster="c"
    )
    tell(job.wait(PATIENCE_S).log(), mounted(world))
    until(lambda: idle(world, cluster) == 2)
    (log, *_) = [
        file for file in world.backend.setup_logs.files(cluster.id) if file.name.startswith("stdout")
    ]
    (at,) = world.home.rglob(log.name)
    tell(at.read_text())
    tell(idle(world, cluster), mounted(world))
    world.resize(cluster.id, 0)
    until(lambda: not idle(world, cluster) and not mounted(world))
    tell(idle(world, cluster), mounted(world))
    world.resize(cluster.id, 1)
    until(lambda: idle(world, cluster) == 1)
    tell(idle(world, cluster), mounted(world))
    world.backend.delete(cluster.id)
    until(lambda: not mounted(world))
    tell(mounted(world), sorted(path.name for path in theirs.iterdir()))
    world.close()


def test_a_mount_that_fails_makes_the_node_unusable_in_the_words_of_mount(tmp_path: Path) -> None:
    (told,) = scene(a_cluster_of_somebody_without_rights, tmp_path, who=AS_SOMEBODY)
    assert "data could not be mounted: mount: " in told


def a_cluster_of_somebody_without_rights(folder: Path) -> None:
    world = World(folder / "home")
    cluster = world.make_cluster(nodeSetup={"mountVolumes": volumes("mount -t tmpfs none")})
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    tell(world.backend.show(cluster.id).errors[0].message)
    world.close()


def test_node_is_unusable_if_its_mount_command_mounts_nothing(world: World) -> None:
    cluster = world.make_cluster(nodeSetup={"mountVolumes": volumes("echo no mount at")})
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    assert "nothing is mounted at" in world.backend.show(cluster.id).errors[0].message


def test_mount_command_may_print_invalid_text(world: World) -> None:
    command = r"printf 'no caf\351' >&2; exit 32 #"
    cluster = world.make_cluster(nodeSetup={"mountVolumes": volumes(command)})
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    told = world.backend.show(cluster.id).errors[0].message
    assert "data could not be mounted: no caf\ufffd (exit code 32)" in told


def test_cluster_with_a_hanging_mount_command_can_be_deleted(world: World) -> None:
    default = set(world.backend.layout.clusters.iterdir())
    cluster = world.make_cluster(nodeSetup={"mountVolumes": volumes("sleep 1000 #")})
    (folder,) = set(world.backend.layout.clusters.iterdir()) - default
    until(lambda: process.marked(mount_mark(folder.name)))
    world.backend.delete(cluster.id)
    until(lambda: not process.marked(mount_mark(folder.name)))
    assert not folder.exists()


# -- of jobs -------------------------------------------------------------------


def test_a_job_mounts_before_it_runs_and_unmounts_when_it_ends(tmp_path: Path) -> None:
    assert scene(jobs_with_mounts_of_their_own, tmp_path) == [
        ["succeeded", "1\n", 0],
        ["failed", "JobPreparationFailed", 0],
        ["failed", "JobTerminated", 0],
        1,
        ["failed", "JobSupervisorLost", 0],
        [0, False],
    ]


def jobs_with_mounts_of_their_own(folder: Path) -> None:
    world = World(folder / "home")
    mount = volumes("mount -t tmpfs none")
    count = "grep -c $AZ_BATCHAI_JOB_MOUNT_ROOT/data /proc/self/mountinfo"
    output = {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/data"}

    def start(name: str, command: str, **fields: object) -> Job:
        return world.start(command, name, **{"mountVolumes": mount, **fields})

    def end(job: Job) -> None:
        job.wait(PATIENCE_S)
        errors = job.show().execution.errors
        tell(job.state.value, errors[0].code if errors else job.log(), mounted(world))

    end(start("one", f"{count}; touch $AZ_BATCHAI_OUTPUT_MODEL/x", outputDirectories=[output]))
    end(start("two", "true", mountVolumes=volumes("mount -t no-such-type none")))
    stopped = start("three", "echo up; sleep 1000")
    until(lambda: stopped.log() == "up\n")
    stopped.cancel()
    end(stopped)
    killed = start("four", "echo up; sleep 1000")
    until(lambda: killed.log() == "up\n")
    tell(mounted(world))
    world.supervisor(killed).kill()
    until(lambda: killed.is_done)
    end(killed)
    last = start("five", "echo up; sleep 1000")
    until(lambda: last.log() == "up\n")
    root = world.backend.layout.job(world.guid(last)).root
    world.backend.delete(last.id)
    tell(mounted(world), root.exists())
    world.close()


# -- rights --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sudo", "output", "warning"),
    [
        ('echo "by sudo" "$@"; shift 3; exec "$@"', "by sudo -n -E -- /bin/bash -c id -u\n1000\n", ""),
        ("exit 1", "1000\n", "has no sudo without a password; the task runs without being root\n"),
    ],
)
def test_an_elevated_task_runs_as_root_through_sudo_or_its_log_says_why_not(
    tmp_path: Path, sudo: str, output: str, warning: str
) -> None:
    program = tmp_path / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{sudo}\n")
    program.chmod(0o755)
    ((out, err),) = scene(an_elevated_setup_task_of_somebody, tmp_path, who=AS_SOMEBODY)
    assert (out, err.endswith(warning), bool(err)) == (output, True, bool(warning))
    assert err.startswith("warning: runElevated: " if warning else "")


def an_elevated_setup_task_of_somebody(folder: Path) -> None:
    os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
    world = World(folder / "home")
    task = {"commandLine": "id -u", "runElevated": True, "stdOutErrPathPrefix": SHARE}
    cluster = world.make_cluster(nodeSetup={"setupTask": task})
    until(lambda: idle(world, cluster) == 1)
    tell([next(world.home.rglob(f"{name}-tvm-*.txt")).read_text() for name in ("stdout", "stderr")])
    world.close()


# -- deleting ------------------------------------------------------------------


def test_deletion_of_a_folder_does_not_enter_mounts(tmp_path: Path) -> None:
    assert scene(a_folder_with_mounts_in_it, tmp_path) == [
        ["theirs"],
        ["inner"],
        ["gone", "kept"],
        "nothing left",
    ]


def a_folder_with_mounts_in_it(folder: Path) -> None:
    theirs, ours = folder / "theirs", folder / "a folder"
    for place in (theirs, ours / "deep/bind", ours / "tmp", ours / "gone", folder / "linked"):
        place.mkdir(parents=True)
    (theirs / "theirs").touch()
    (folder / "linked/kept").touch()
    (ours / "link").symlink_to(folder / "linked")
    subprocess.run(["mount", "--bind", theirs, ours / "deep/bind"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", ours / "tmp"], check=True)
    (ours / "tmp/inner").touch()
    unmanaged_mounts.remove(ours)
    tell([path.name for path in (ours / "deep/bind").iterdir()])
    tell([path.name for path in (ours / "tmp").iterdir()])
    tell(
        "there" if (ours / "gone").exists() else "gone",
        "kept" if (folder / "linked/kept").exists() else "lost",
    )
    unmanaged_mounts.unmount(ours)
    unmanaged_mounts.remove(ours)
    tell("something left" if ours.exists() else "nothing left")


def test_exclusive_mount_lock_excludes_others(tmp_path: Path) -> None:
    waited: list[str] = []
    with unmanaged_mounts.exclusive(tmp_path):
        with pytest.raises(BlockingIOError), unmanaged_mounts.exclusive(tmp_path, wait=False):
            pytest.fail("two at once")
        with (
            pytest.raises(InterruptedError),
            unmanaged_mounts.exclusive(tmp_path, meanwhile=lambda: stop(waited)),
        ):
            pytest.fail("two at once")
    with unmanaged_mounts.exclusive(tmp_path, wait=False):
        assert waited == ["waited"]


def stop(waited: list[str]) -> None:
    waited.append("waited")
    raise InterruptedError
