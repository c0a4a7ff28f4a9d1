"""The program that runs all processes of a plan, as their launcher."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import psutil
import pytest

from batchai_magics.launch.plan import LaunchMode, LogPaths, Plan, Rendezvous
from tests.backends.node.ranks.plans import is_running, plan, start
from tests.world import until

pytestmark = pytest.mark.slow


def ranks(
    folder: Path, script: str, *, count: int = 2, rendezvous: Rendezvous = Rendezvous.DESCRIPTOR
) -> Path:
    """The plan of an MPI job, half of its ranks on each of two nodes."""
    (folder / "script.py").write_text(script)
    command = f"{sys.executable} {folder}/script.py; exit $?"
    file = plan(folder, *[command] * count, stdout=LogPaths(str(folder / "stdout"), str(folder / "spans")))
    made = Plan.read(str(file))
    processes = tuple(process._replace(node=process.rank * 2 // count) for process in made.processes)
    nodes = (made.nodes[0], made.nodes[0]._replace(id="node-1"))
    made._replace(nodes=nodes, processes=processes, launcher=LaunchMode.MPI, rendezvous=rendezvous).write(
        str(file)
    )
    return file


MPI = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
ENV = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def test_two_programs_of_mpi_may_run_one_after_the_other(tmp_path: Path) -> None:
    file = ranks(tmp_path, MPI + "print(world.size)")
    made = Plan.read(str(file))
    twice = f"{sys.executable} {tmp_path}/script.py && {sys.executable} {tmp_path}/script.py"
    processes = tuple(process._replace(command=twice) for process in made.processes)
    made._replace(processes=processes).write(str(file))
    assert start(file, **ENV).wait() == 0
    assert (tmp_path / "stdout").read_text() == "2\n" * 4


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
    [("world.Abort(42)", 42), ("import os; os._exit(0)", 1)],
)
def test_a_rank_that_leaves_mpi_ends_all_of_them(tmp_path: Path, end: str, code: int) -> None:
    script = MPI + f"if world.rank == 1:\n    {end}\nimport time; time.sleep(1000)"
    assert start(ranks(tmp_path, script), **ENV).wait() == code
    left = [
        p for p in psutil.process_iter(["cmdline"]) if f"{tmp_path}/script.py" in (p.info["cmdline"] or [])
    ]
    until(lambda: not any(is_running(process.pid) for process in left))


STRANGERS = (b"cmd=initack pmiid=1\n", b"x" * 1000, b"\n", b"HYD\0\0\0\0\0\0\0\0\0")


def test_strangers_at_the_port_get_nothing_and_hurt_nobody(tmp_path: Path) -> None:
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
