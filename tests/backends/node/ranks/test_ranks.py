"""The processes of a plan, started together or one by one: MPI's ranks, and what each gets and leaves."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import batchai_magics
from batchai_magics.backends.folders import installed_programs
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.slurm import sbatch
from batchai_magics.launch.plan import (
    VERSION,
    LaunchMode,
    Limits,
    LogPaths,
    Output,
    Plan,
    PlanNode,
    Process,
    Rendezvous,
)
from batchai_magics.records.provenance import MachineRecord
from tests.patience import PATIENCE_S
from tests.world import is_alive, until

pytestmark = pytest.mark.slow


PROGRAM = str(Path(__file__).with_name("ranks_program.py"))


def plan(folder: Path, *commands: str) -> Path:
    """The plan of processes on one node."""
    (folder / "exits").mkdir()
    made = Plan(
        guid=f"guid-{os.getpid()}",  # of this run of the tests: what has one mark ends together
        nodes=(PlanNode("node-0", str(folder), "/the/tmp", {}),),
        processes=tuple(Process(rank, 0, command) for rank, command in enumerate(commands)),
        output=Output(
            LogPaths(str(folder / "stdout"), str(folder / "spans")), LogPaths(str(folder / "stderr"))
        ),
        exits=str(folder / "exits"),
        python=sys.executable,
        limits=Limits(),
    )
    made.write(str(folder / "plan.json"))
    return folder / "plan.json"


def start(plan_file: Path, *index: str, program: str = PROGRAM, **env: str) -> subprocess.Popen[bytes]:
    """Starts the program that runs all processes, or the one of an index."""
    return subprocess.Popen([sys.executable, "-I", "-S", program, str(plan_file), *index], env=env, cwd="/")


def ranks(
    folder: Path, script: str, *, count: int = 2, rendezvous: Rendezvous = Rendezvous.DESCRIPTOR
) -> Path:
    """The plan of an MPI job, half of its ranks on each of two nodes."""
    (folder / "script.py").write_text(script)
    command = f"{sys.executable} {folder}/script.py; exit $?"
    file = plan(folder, *[command] * count)
    made = Plan.read(str(file))
    processes = tuple(process._replace(node=process.rank * 2 // count) for process in made.processes)
    nodes = (made.nodes[0], made.nodes[0]._replace(id="node-1"))
    made._replace(nodes=nodes, processes=processes, launcher=LaunchMode.MPI, rendezvous=rendezvous).write(
        str(file)
    )
    return file


MPI = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
ENV = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def test_two_programs_of_mpi_may_run_one_after_the_other(tmp_path):
    file = ranks(tmp_path, MPI + "print(world.size)")
    made = Plan.read(str(file))
    twice = f"{sys.executable} {tmp_path}/script.py && {sys.executable} {tmp_path}/script.py"
    processes = tuple(process._replace(command=twice) for process in made.processes)
    made._replace(processes=processes).write(str(file))
    assert start(file, **ENV).wait() == 0
    assert (tmp_path / "stdout").read_text() == "2\n" * 4


@pytest.mark.parametrize(
    ("end", "code"),
    [("world.Abort(42)", 42), ("import os; os._exit(0)", 1)],
)
def test_a_rank_that_leaves_mpi_ends_all_of_them(tmp_path, end, code):
    script = MPI + f"if world.rank == 1:\n    {end}\nimport time; time.sleep(1000)"
    assert start(ranks(tmp_path, script), **ENV).wait() == code
    script_file = f"{tmp_path}/script.py"
    left = [p for p in psutil.process_iter(["cmdline"]) if script_file in (p.info["cmdline"] or [])]
    until(lambda: not any(map(is_alive, left)))


STRANGERS = (b"cmd=initack pmiid=1\n", b"x" * 1000, b"\n", b"HYD\0\0\0\0\0\0\0\0\0")


def test_strangers_at_the_port_get_nothing_and_do_not_disturb_the_job(tmp_path):
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
    script = "import os\nprint(os.environ['PMI_PORT'], flush=True)\n" + wait + MPI + "print(world.size)"
    child = start(ranks(tmp_path, script, rendezvous=Rendezvous.PORT), **ENV)
    file = tmp_path / "stdout"
    until(lambda: file.exists() and file.read_text().count("\n") == 2)
    host, _, port = file.read_text().split()[0].partition(":")
    with contextlib.ExitStack() as open_until_the_end:
        for hello in STRANGERS:
            stranger = open_until_the_end.enter_context(socket.create_connection((host, int(port))))
            stranger.sendall(hello)
            if b"\n" in hello or len(hello) > 256:
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(100) == b""
        (tmp_path / "go").touch()
        assert child.wait() == 0
    assert file.read_text().split()[2:] == ["2", "2"]


# -- one process


PATIENT = f"""
import sys
sys.path.insert(0, {str(Path(batchai_magics.__file__).parents[1])!r})
from batchai_magics.backends.node.ranks import rank
from tests.backends.node.ranks import ranks_program
rank.LINGER_S = {PATIENCE_S}
ranks_program.main()
"""


def test_what_a_process_hands_to_a_slow_helper_is_kept(tmp_path):
    program = tmp_path / "patient.py"  # on any machine, the helper ends within its time
    program.write_text(PATIENT)
    file = plan(tmp_path, "echo kept > >(sleep 0.05; cat)")
    assert start(file, "0", program=str(program)).wait() == 0
    assert (tmp_path / "stdout").read_text() == "kept\n"


def test_a_copy_of_the_programs_runs_a_rank_without_the_package(tmp_path):
    programs = installed_programs.install(tmp_path / "elsewhere", sbatch.PROGRAMS)
    file = plan(tmp_path, "echo far away; exit 3")
    assert start(file, "0", PROGRAMS=str(programs)).wait() == 3
    assert (tmp_path / "stdout").read_text() == "far away\n"
    assert [end.exit_code for end in exits_in(tmp_path / "exits")] == [3]


def test_the_machine_of_a_rank_is_recorded_without_another_interpreter(tmp_path):
    own, later = tmp_path / "own", tmp_path / "later"  # what Python would import, and a version behind it
    (own / "torch-9.8.dist-info").mkdir(parents=True)
    (later / "torch-9.9.dist-info").mkdir(parents=True)
    file, machines = plan(tmp_path, "true"), tmp_path / "machines"
    Plan.read(str(file))._replace(machines=str(machines), python="/nowhere").write(str(file))
    assert start(file, "0", PYTHONPATH=f"{own}{os.pathsep}{later}").wait() == 0
    until(lambda: [*machines.glob("*.json")])
    machine = MachineRecord.from_text(next(machines.iterdir()).read_text())
    assert (machine.packages["torch"], machine.packages["pytest"]) == ("9.8", pytest.__version__)
    assert (machine.executable, machine.problem) == (sys.executable, "")


LISTED = f"""
import os, sys
root = {str(Path(batchai_magics.__file__).parents[1])!r}
sys.path[:] = [*filter(None, sys.path), root, os.environ["PYTHONPATH"]]
from batchai_magics.backends.node.ranks.machine_recording import packages
print(dict(packages())["torch"])
"""


def test_packages_are_listed_without_running_a_sitecustomize_of_the_user(tmp_path):
    (tmp_path / "torch-9.9.dist-info").mkdir()
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    argv, env = [sys.executable, "-E", "-S", "-c", LISTED], {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.check_output(argv, env=env, text=True) == "9.9\n"


def test_a_plan_of_another_version_stops_a_rank_with_the_reason(tmp_path):
    file = plan(tmp_path, "true")
    file.write_text(file.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    argv = [sys.executable, "-I", "-S", PROGRAM, str(file), "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "version 99" in done.stderr
    assert f"batchai_magics reads version {VERSION}" in done.stderr
