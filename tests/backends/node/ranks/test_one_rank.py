"""The program that runs one process of a plan: what it gets, how it ends, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import batchai_magics
from batchai_magics.backends.folders import installed_programs
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.slurm import sbatch
from batchai_magics.launch.plan import VERSION, Plan
from batchai_magics.records.provenance import MachineRecord
from tests.backends.node.ranks.plans import GUID, PROGRAM, exit_of, is_running, plan, start
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = pytest.mark.slow


def test_a_process_gets_its_nodes_variables_and_its_own_over_them(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo $OUTER $WHO $BOTH $BATCHAI_JOB_GUID; pwd")
    assert start(file, "0", OUTER="outer", WHO="outer").wait() == 0
    said = (tmp_path / "stdout").read_text().split()
    assert said[:4] == ["outer", "node", "process", GUID]
    assert said[4] == str(tmp_path)


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


PATIENT = f"""
import sys
sys.path.insert(0, {str(Path(batchai_magics.__file__).parents[1])!r})
from batchai_magics.backends.node.ranks import rank
from tests.backends.node.ranks import ranks_program
rank.LINGER_S = {PATIENCE_S}
ranks_program.main()
"""


def test_what_a_process_hands_to_a_slow_helper_is_kept(tmp_path: Path) -> None:
    program = tmp_path / "patient.py"  # on any machine, the helper ends within its time
    program.write_text(PATIENT)
    file = plan(tmp_path, "echo kept > >(sleep 0.05; cat)")
    assert start(file, "0", program=str(program)).wait() == 0
    assert (tmp_path / "stdout").read_text() == "kept\n"


def test_a_process_whose_output_cannot_be_kept_is_ended(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo lost; sleep 1000")
    assert start(file, "0", max_file_bytes=0).wait() == os.EX_IOERR
    assert not exits_in(tmp_path / "exits")


def test_a_copy_of_the_programs_runs_a_rank_without_the_package(tmp_path: Path) -> None:
    programs = installed_programs.install(tmp_path / "elsewhere", sbatch.PROGRAMS)
    file = plan(tmp_path, "echo far away; exit 3")
    assert start(file, "0", PROGRAMS=str(programs)).wait() == 3
    assert (tmp_path / "stdout").read_text() == "far away\n"
    assert exit_of(tmp_path).exit_code == 3


def test_the_machine_of_a_rank_is_recorded_without_another_interpreter(tmp_path: Path) -> None:
    (tmp_path / "own" / "torch-9.9.dist-info").mkdir(parents=True)
    file, machines = plan(tmp_path, "true"), tmp_path / "machines"
    Plan.read(str(file))._replace(machines=str(machines), python="/nowhere").write(str(file))
    assert start(file, "0", PYTHONPATH=str(tmp_path / "own")).wait() == 0
    until(lambda: [*machines.glob("*.json")])
    machine = MachineRecord.from_text(next(machines.iterdir()).read_text())
    assert (machine.packages["torch"], machine.packages["pytest"]) == ("9.9", pytest.__version__)
    assert (machine.executable, machine.problem) == (sys.executable, "")


def test_a_plan_of_another_version_stops_a_rank_with_the_reason(tmp_path: Path) -> None:
    file = plan(tmp_path, "true")
    file.write_text(file.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    argv = [sys.executable, "-I", "-S", PROGRAM, str(file), "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "version 99" in done.stderr
    assert f"batchai_magics reads version {VERSION}" in done.stderr
