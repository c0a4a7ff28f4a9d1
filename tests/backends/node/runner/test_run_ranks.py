"""The program that runs a plan's processes: what they get, how they end, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.node.runner import run_ranks
from batchai_magics.backends.node.runner.exits import exits_in
from batchai_magics.backends.node.runner.run_ranks import EX_IOERR, rank_of_launcher
from batchai_magics.backends.slurm import programs
from batchai_magics.launch.plan import (
    VERSION,
    Launcher,
    Limits,
    LogFile,
    Meeting,
    Node,
    Output,
    Plan,
    Process,
    ProcessExit,
)
from tests.world import until

pytestmark = pytest.mark.slow
PROGRAM = run_ranks.__file__
GUID = f"guid-{os.getpid()}"  # what has one mark ends together: no other run of these tests may have it


def plan(folder: Path, *commands: str, stdout: LogFile | None = None, own: Output | None = None) -> Path:
    """The plan of processes on one node."""
    (folder / "exits").mkdir()
    env = {"WHO": "node", "BOTH": "node"}
    made = Plan(
        guid=GUID,
        nodes=(Node("node-0", str(folder), "/the/tmp", env),),
        processes=tuple(
            Process(rank, 0, command, env={"BOTH": "process"}, output=own)
            for rank, command in enumerate(commands)
        ),
        output=Output(stdout or LogFile(str(folder / "stdout")), LogFile(str(folder / "stderr"))),
        exits=str(folder / "exits"),
        python=sys.executable,
        limits=Limits(disk_grace_s=0.05),
    )
    made.write(str(folder / "plan.json"))
    return folder / "plan.json"


def start(
    plan_file: Path, *index: str, program: str = run_ranks.__file__, **env: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", program, str(plan_file), *index], env=env, cwd="/")


def exit_of(folder: Path, index: int = 0) -> ProcessExit:
    return next(end for end in exits_in(folder / "exits") if end.rank == index)


def test_a_process_gets_its_nodes_variables_and_its_own_over_them(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo $OUTER $WHO $BOTH $BATCHAI_JOB_GUID $TMPDIR; pwd")
    assert start(file, "0", OUTER="outer", WHO="outer").wait() == 0
    said = (tmp_path / "stdout").read_text().split()
    assert said == ["outer", "node", "process", GUID, "/the/tmp", str(tmp_path)]


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_the_exit_code_is_that_of_the_process(tmp_path: Path, command: str, code: int) -> None:
    assert start(plan(tmp_path, "true", command), "1").wait() == code
    end = exit_of(tmp_path, 1)
    assert (end.rank, end.node, end.exit_code) == (1, "node-0", code)
    assert len(exits_in(tmp_path / "exits")) == 1


@pytest.mark.parametrize("name", ["PMI_RANK", "PMI_ID"])
def test_the_launcher_says_which_rank_a_process_is(tmp_path: Path, name: str) -> None:
    assert start(plan(tmp_path, "exit 1", "exit 2"), **{name: "1"}).wait() == 2


def test_the_rank_of_a_descriptor_goes_before_that_of_a_port(monkeypatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_ID", "2")
    assert rank_of_launcher() == "1"


def test_what_a_process_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """It holds the pipes open, and is in the process's group: nobody waits for it."""
    assert start(plan(tmp_path, "sleep 1000 & echo $!"), "0").wait() == 0
    left = int((tmp_path / "stdout").read_text())
    until(lambda: not is_running(left))


def test_a_process_ends_when_its_ranks_program_is_told_to(tmp_path: Path) -> None:
    child = start(plan(tmp_path, "echo $$; trap '' TERM; while true; do sleep 0.05; done"), "0")
    own = started(tmp_path)
    child.terminate()
    assert child.wait() == 143
    until(lambda: not is_running(own))
    assert not exits_in(tmp_path / "exits")


def test_a_process_ends_when_its_ranks_program_is_killed(tmp_path: Path) -> None:
    child = start(plan(tmp_path, "echo $$; exec sleep 1000"), "0")
    own = started(tmp_path)
    child.kill()
    child.wait()
    until(lambda: not is_running(own))


def test_all_that_a_process_has_started_ends_when_its_ranks_program_is_killed(tmp_path: Path) -> None:
    code = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
    daemon = f"{sys.executable} -c '{code}'"
    child = start(plan(tmp_path, f"sleep 1000 & echo $!; {daemon} & wait"), "0")
    file = tmp_path / "stdout"
    until(lambda: file.exists() and file.read_text().count("\n") == 2)
    child.kill()
    child.wait()
    for pid in map(int, file.read_text().split()):
        until(lambda pid=pid: not is_running(pid))


def test_the_end_of_the_process_is_the_end_though_a_child_writes_for_ever(tmp_path: Path) -> None:
    command = "(while true; do echo x; sleep 0.01; done) & head -c 50000 /dev/zero | tr '\\0' y; echo; exit 5"
    assert start(plan(tmp_path, command), "0").wait() == 5
    lines = (tmp_path / "stdout").read_text().split("\n")
    assert sum(line.count("y") for line in lines) == 50_000
    left = [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(tmp_path)]
    until(lambda: not any(is_running(process.pid) for process in left))


def test_what_a_process_hands_to_a_slow_helper_is_kept(tmp_path: Path) -> None:
    assert start(plan(tmp_path, "echo kept > >(sleep 0.05; cat)"), "0").wait() == 0
    assert (tmp_path / "stdout").read_text() == "kept\n"


def test_a_process_whose_output_cannot_be_kept_is_ended(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo lost; sleep 1000", stdout=LogFile("/dev/full"))
    assert start(file, "0").wait() == EX_IOERR
    assert not exits_in(tmp_path / "exits")


def test_a_process_has_log_files_of_its_own_where_the_plan_says_so(tmp_path: Path) -> None:
    own = Output(LogFile(str(tmp_path / "own-out")), LogFile(str(tmp_path / "own-err")))
    file = plan(tmp_path, "echo out; echo err >&2", own=own)
    assert start(file, "0").wait() == 0
    assert [(tmp_path / name).read_text() for name in ("own-out", "own-err")] == ["out\n", "err\n"]
    assert not (tmp_path / "stdout").exists()


def test_a_copy_of_the_programs_runs_a_rank_without_the_package(tmp_path: Path) -> None:
    script = programs.installed(tmp_path / "elsewhere") / programs.RUN_SCRIPT
    file = plan(tmp_path, "echo far away; exit 3")
    child = start(file, "0", program=str(script.with_name("run_ranks.py")))
    assert child.wait() == 3
    assert (tmp_path / "stdout").read_text() == "far away\n"
    assert exit_of(tmp_path).exit_code == 3


def test_a_plan_of_another_version_stops_a_rank_with_the_reason(tmp_path: Path) -> None:
    file = plan(tmp_path, "true")
    file.write_text(file.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    argv = [sys.executable, "-I", "-S", PROGRAM, str(file), "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"version 99, and this program reads version {VERSION}" in done.stderr


# -- all processes of a plan, as their launcher --------------------------------


def ranks(folder: Path, script: str, *, count: int = 2, meeting: Meeting = Meeting.DESCRIPTOR) -> Path:
    """The plan of an MPI job, half of its ranks on each of two nodes."""
    (folder / "script.py").write_text(script)
    command = f"{sys.executable} {folder}/script.py; exit $?"
    file = plan(folder, *[command] * count, stdout=LogFile(str(folder / "stdout"), str(folder / "spans")))
    made = Plan.read(str(file))
    processes = tuple(process._replace(node=process.rank * 2 // count) for process in made.processes)
    nodes = (made.nodes[0], made.nodes[0]._replace(id="node-1"))
    made._replace(nodes=nodes, processes=processes, launcher=Launcher.MPI, meeting=meeting).write(str(file))
    return file


MPI = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
ENV = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


@pytest.mark.parametrize("meeting", Meeting)
def test_ranks_find_each_other_and_know_their_nodes(tmp_path: Path, meeting: Meeting) -> None:
    script = (
        MPI + "print(world.rank, world.allreduce(world.rank), world.Split_type(MPI.COMM_TYPE_SHARED).size)"
    )
    assert start(ranks(tmp_path, script, count=4, meeting=meeting), **ENV).wait() == 0
    assert sorted((tmp_path / "stdout").read_text().splitlines()) == [f"{rank} 6 2" for rank in range(4)]
    assert {end.exit_code for end in exits_in(tmp_path / "exits")} == {0}


def test_two_programs_of_mpi_may_run_one_after_the_other(tmp_path: Path) -> None:
    file = ranks(tmp_path, MPI + "print(world.size)")
    made = Plan.read(str(file))
    twice = f"{sys.executable} {tmp_path}/script.py && {sys.executable} {tmp_path}/script.py"
    processes = tuple(process._replace(command=twice) for process in made.processes)
    made._replace(processes=processes).write(str(file))
    assert start(file, **ENV).wait() == 0
    assert (tmp_path / "stdout").read_text() == "2\n" * 4


def test_names_are_published_looked_up_and_taken_back(tmp_path: Path) -> None:
    script = (
        MPI
        + """
if world.rank == 0:
    MPI.Publish_name("service", "a#port$1")
world.Barrier()
print(MPI.Lookup_name("service"))
world.Barrier()
if world.rank == 0:
    MPI.Unpublish_name("service", "a#port$1")
world.Barrier()
try:
    MPI.Lookup_name("service")
except MPI.Exception:
    print("gone")
"""
    )
    assert start(ranks(tmp_path, script), **ENV).wait() == 0
    assert sorted((tmp_path / "stdout").read_text().splitlines()) == ["a#port$1"] * 2 + ["gone"] * 2


def test_ranks_cannot_start_others_and_go_on(tmp_path: Path) -> None:
    script = (
        MPI
        + """
world.Set_errhandler(MPI.ERRORS_RETURN)
try:
    world.Spawn("true", maxprocs=1)
except MPI.Exception:
    print("refused")
"""
    )
    assert start(ranks(tmp_path, script), **ENV).wait() == 0
    assert (tmp_path / "stdout").read_text() == "refused\n" * 2


@pytest.mark.parametrize(
    ("end", "code"),
    [("world.Abort(42)", 42), ("import os; os._exit(0)", 1), ("import os; os.kill(0, 9)", 137)],
)
def test_a_rank_that_leaves_mpi_ends_all_of_them(tmp_path: Path, end: str, code: int) -> None:
    script = MPI + f"if world.rank == 1:\n    {end}\nimport time; time.sleep(1000)"
    assert start(ranks(tmp_path, script), **ENV).wait() == code
    left = [
        p for p in psutil.process_iter(["cmdline"]) if f"{tmp_path}/script.py" in (p.info["cmdline"] or [])
    ]
    until(lambda: not any(is_running(process.pid) for process in left))


@pytest.mark.parametrize("hello", [b"cmd=initack pmiid=1\n", b"x" * 1000, b"\n", b"HYD\0\0\0\0\0\0\0\0\0"])
def test_a_stranger_at_the_port_gets_nothing_and_hurts_nobody(tmp_path: Path, hello: bytes) -> None:
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
    script = "import os\nprint(os.environ['PMI_PORT'], flush=True)\n" + wait + MPI + "print(world.size)"
    child = start(ranks(tmp_path, script, meeting=Meeting.PORT), **ENV)
    file = tmp_path / "stdout"
    until(lambda: file.exists() and file.read_text().count("\n") == 2)
    host, _, port = file.read_text().split()[0].partition(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(hello)
        if b"\n" in hello or len(hello) > 256:
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        (tmp_path / "go").touch()
        assert child.wait() == 0
    assert file.read_text().split()[2:] == ["2", "2"]


def started(folder: Path) -> int:
    """The process id that the process has written."""
    file = folder / "stdout"
    until(lambda: file.exists() and file.read_bytes().endswith(b"\n"))
    return int(file.read_text())


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False
