"""Command lines that start other programs: containers' engines and Open MPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.node import containers, mpi_launchers
from batchai_magics.backends.node.containers import ContainerCommand
from batchai_magics.launch.plan import (
    Containers,
    Image,
    LaunchMode,
    LogPaths,
    Output,
    Plan,
    PlanNode,
    Process,
    Rendezvous,
)

IMAGE = Image("tf:1", "https://me.azurecr.io", shm_size="1g")


def container(engine: str, image: Image = IMAGE, *, is_rank: bool = False) -> ContainerCommand:
    return ContainerCommand((engine,), image, "name", [Path("/home me")], ["COLOUR"], is_rank)


def test_an_engine_gets_folders_and_names_of_variables_and_the_command_as_one_word():
    line = container("docker").command("echo 'a b'; exit 3")
    assert "; exec docker run --rm --network=host --name=name --shm-size=1g " in line
    assert "'--volume=/home me:/home me'" in line
    assert " --env=COLOUR " in line
    in_child = """'/bin/bash -c "$0"; exit $?'"""
    command = """'echo '"'"'a b'"'"'; exit 3'"""
    assert line.endswith(f' --workdir="$PWD" me.azurecr.io/tf:1 /bin/bash -c {in_child} {command}')
    assert all(f"--env={name} " in line for name in containers.FORWARDED_VARIABLES)


def test_apptainers_processes_end_with_their_command_and_need_no_removal():
    apptainer = container("/usr/bin/apptainer")
    assert apptainer.command("x") == (
        "exec /usr/bin/apptainer exec --bind '/home me' docker://me.azurecr.io/tf:1 /bin/bash -c x"
    )
    assert apptainer.removals == []
    assert container("podman").removals == [("podman", "rm", "--force", "name")]


PODMAN = """#!/bin/bash
case "$1 $2 $3" in
    "image exists $KNOWN" | "pull --quiet $KNOWN") ;;
    "image exists "* | "pull --quiet "*) exit 125 ;;
    *) echo "${*:2}" ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "known", "used"),
    [
        ("python:3.12", "", "docker.io/library/python:3.12"),
        ("pytorch/pytorch", "", "docker.io/pytorch/pytorch"),
        ("mine", "mine", "mine"),
        ("localhost/mine", "", "localhost/mine"),
        ("quay.io/mine", "", "quay.io/mine"),
        ("docker.io/library/python", "", "docker.io/library/python"),
    ],
)
def test_podman_finds_a_short_name_at_docker_hub(tmp_path, name, known, used):
    podman = tmp_path / "podman"
    podman.write_text(PODMAN)
    podman.chmod(0o755)
    line = container(str(podman), Image(name)).command("x")
    done = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "KNOWN": known}, stdout=subprocess.PIPE, text=True
    )
    before, _, command = done.stdout.partition(" /bin/bash -c ")
    assert before.split()[-1] == used
    assert command.endswith("x\n")


IS_REMOVING = """#!/bin/bash
echo x >> "$0.asked"
[ "$(wc -l < "$0.asked")" -gt 2 ] && exit
echo "Error response from daemon: removal of container name is already in progress" >&2
exit 1
"""


@pytest.mark.slow
def test_a_container_that_docker_removes_by_itself_is_waited_for(tmp_path):
    docker = tmp_path / "docker"
    docker.write_text(IS_REMOVING)
    docker.chmod(0o755)
    containers.remove(container(str(docker)).removals, os.environ)
    assert (tmp_path / "docker.asked").read_text() == "x\n" * 3


@pytest.mark.slow
def test_enroot_imports_an_image_once_for_all_processes_of_a_job(tmp_path):
    program = tmp_path / "enroot"
    program.write_text(
        '#!/bin/bash\necho "$1" >> "$0.calls"\n'
        '[ "$1" = import ] && { touch "$3"; exit; }\nwhile [ "$1" != /bin/bash ]; do shift; done; exec "$@"\n'
    )
    program.chmod(0o755)
    env = {**os.environ, "AZ_BATCHAI_SHARED_JOB_TEMP": str(tmp_path)}
    line = container(str(program)).command("echo $PWD; exit 3 # done")
    for _ in range(2):
        done = subprocess.run(["/bin/bash", "-c", line], env=env, cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stdout.decode()) == (3, f"{tmp_path}\n"), done.stderr
    assert (tmp_path / "enroot.calls").read_text().split() == ["import", "start", "start"]
    assert '9>"$AZ_BATCHAI_SHARED_JOB_TEMP/.image.sqsh".lock || exit; ' in line
    assert "start --rw '--mount=/home me:/home me' --env=" in line
    assert "'docker://me.azurecr.io#tf:1'" in line
    assert "docker://tf:1" in container("enroot", Image("tf:1")).command("x")
    assert " --env=PMI_FD " in container("enroot", is_rank=True).command("x")
    assert container("enroot").removals == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["docker", "podman", "enroot"])
def test_an_engine_gets_the_names_of_what_tunes_a_job_where_it_starts(engine, tmp_path):
    program = tmp_path / engine
    program.write_text('#!/bin/bash\necho "$@"\n')
    program.chmod(0o755)
    (tmp_path / ".image.sqsh").touch()
    passed = {
        "NCCL_DEBUG": "WARN",
        "OMPI_MCA_btl": "self",
        "SLURM_PROCID": "3",
        "CUDA_VISIBLE_DEVICES": "1 2",
    }
    of_the_image = {"CUDA_HOME": "/cuda", "NCCL_VERSION": "2", "FI_PROVIDER_PATH": "/fi", "LANG": "C"}
    env = {"AZ_BATCHAI_SHARED_JOB_TEMP": str(tmp_path), "PATH": os.defpath, **passed, **of_the_image}
    argv = ["/bin/bash", "-c", container(str(program)).command("true")]
    words = subprocess.run(argv, env=env, capture_output=True, check=True).stdout.decode().split()
    assert {name for name in passed if f"--env={name}" in words} == passed.keys()
    assert not {name for name in of_the_image if f"--env={name}" in words}


# -- Open MPI ------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["-mca a b", "--mca a b", "--bind-to none", "-map-by slot", "--tag-output"]
)
@pytest.mark.parametrize("program", ["mpirun", "/usr/bin/mpiexec", "true;mpirun", "(mpirun"])
def test_every_option_of_open_mpi_is_known_after_every_way_to_start_it(program, option):
    assert mpi_launchers.needs_open_mpi(f"{program} {option} x")
    assert not mpi_launchers.needs_open_mpi(f"{program} -n 2 x")
    assert not mpi_launchers.needs_open_mpi(f"python {option} x")


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Path]:
    """Where a job's first programs and its host file are."""
    (tmp_path / "hosts").write_text("n0\nn1\n")
    return {"programs": tmp_path / "bin", "hosts": tmp_path / "hosts"}


def plan(*commands: str) -> Plan:
    return Plan(
        guid="guid",
        nodes=tuple(
            PlanNode(name, "/", "/tmp", {"COLOUR": "red", "PATH": "/theirs"}) for name in ("n0", "n1")
        ),
        processes=tuple(Process(rank, 0, command) for rank, command in enumerate(commands)),
        output=Output(LogPaths("/out"), LogPaths("/err")),
        exits="/exits",
        python="/venv/bin/python",
        notes=("first",),
    )


def test_the_choice_of_a_run_before_is_forgotten(job, monkeypatch):
    monkeypatch.setattr(mpi_launchers, "find_open_mpi", lambda: "/opt/mpirun")
    mpi_launchers.with_own_launcher(plan("mpirun -mca a b x"), **job)
    assert job["programs"].exists()
    assert mpi_launchers.with_own_launcher(plan("mpirun -n 2 x"), **job).nodes == plan("x").nodes
    assert not job["programs"].exists()


@pytest.mark.slow
def test_the_mpirun_named_after_open_mpi_goes_before_any_other(tmp_path, monkeypatch):
    for folder, name in (("a", "mpirun"), ("b", "mpirun.openmpi")):
        place = tmp_path / folder / name
        place.parent.mkdir()
        place.write_text("#!/bin/sh\necho Open MPI\n")
        place.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(["", str(tmp_path / "a"), str(tmp_path / "b")]))
    assert mpi_launchers.find_open_mpi() == str(tmp_path / "b" / "mpirun.openmpi")
    (tmp_path / "b" / "mpirun.openmpi").write_text("#!/bin/sh\necho HYDRA\n")
    assert mpi_launchers.find_open_mpi() == str(tmp_path / "a" / "mpirun")


# -- MPI -----------------------------------------------------------------------


def test_ranks_use_shared_memory_and_in_containers_loopback():
    boxed = plan("x")._replace(containers=Containers(Image("tf"), ("docker",)))
    assert mpi_launchers.transport(boxed)["FI_PROVIDER"] == "tcp"
    assert mpi_launchers.transport(boxed)["FI_TCP_IFACE"].startswith("lo")
    if sys.platform == "linux":
        assert mpi_launchers.transport(plan("x"))["FI_PROVIDER"] == "shm"


@pytest.mark.parametrize(
    ("engine", "rendezvous"),
    [
        (("docker",), Rendezvous.PORT),
        (("podman", "--remote"), Rendezvous.PORT),
        (("/usr/bin/podman", "--root", "x"), Rendezvous.DESCRIPTOR),
        (("apptainer",), Rendezvous.DESCRIPTOR),
    ],
)
def test_ranks_come_over_a_port_only_where_no_descriptor_reaches_them(engine, rendezvous):
    asked = plan("x")._replace(containers=Containers(Image("tf"), engine), launcher=LaunchMode.MPI)
    assert containers.in_containers(asked, [Path("/home")]).rendezvous is rendezvous


def test_a_command_that_starts_a_launcher_itself_is_told_what_that_means(job):
    starts = mpi_launchers.with_own_launcher(plan("mpirun -n 2 x", "mpirun -n 2 x"), **job)
    assert starts.notes == ("first", mpi_launchers.OWN_LAUNCHER)
    assert mpi_launchers.with_own_launcher(plan("python train.py"), **job).notes == ("first",)
