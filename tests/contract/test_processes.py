"""What a job's processes get and leave: whole lines, exit codes, an environment, nothing after the end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.world import files_containing, until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

RANK = "from mpi4py import MPI; rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size\n"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
LOGGED = "from batchai_magics import log\nfor step in range(3):\n    log(step=step, loss=1 / (1 + step))"


@pytest.mark.decided_by("engine")
@pytest.mark.sample
@pytest.mark.needs("mpi")
def test_ranks_on_two_nodes_have_one_communicator_and_whole_lines_known_by_rank(place: Place) -> None:
    code = (
        RANK + "for i in range(500): print(f'{rank}/{size}:{i}:', 'x' * (i % 97), sep='', flush=i % 3 == 0)"
    )
    job = place.run_cell("j --nodes 2 --processes 4", code)
    lines = job.log().splitlines()
    assert len(lines) == 2000
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"{rank}/4:")]
        assert own == [f"{rank}/4:{i}:{'x' * (i % 97)}" for i in range(500)]
    assert not job.show().execution.errors
    piece = job.backend.read(FileRef(job.id, "stdout.txt"), 5, 10)
    assert [piece.spans[0].start, piece.spans[-1].end] == [5, 15]
    chunk = job.backend.read(FileRef(job.id, "stdout.txt"))
    assert [chunk.spans[0].start, chunk.spans[-1].end] == [0, chunk.size]
    for span in chunk.spans:
        lines_of_rank = chunk.data[span.start : span.end].splitlines()
        assert all(line.startswith(b"%d/4:" % span.rank) for line in lines_of_rank)
    by_node: dict[str, list[int]] = {}
    for rank in job.ranks():
        by_node.setdefault(rank.node, []).append(rank.rank)
    assert sorted(map(sorted, by_node.values())) == [[0, 1], [2, 3]]


@pytest.mark.sample
@pytest.mark.needs("write_times")
def test_a_lone_processs_numbers_have_the_time_at_which_it_printed_them(place: Place) -> None:
    begun = time.time()
    job = place.run_cell("j", "for i in range(3): print(f'step={i} loss=0.5', flush=True)")
    times = job.metrics(tidy=True)["wall_time"]
    assert len(times) == 3
    assert all(begun <= moment.timestamp() <= time.time() for moment in times)


@pytest.mark.needs("mpi_check")
def test_ranks_that_join_no_mpi_are_warned_of_where_they_print_the_same_or_import_it(place: Place) -> None:
    imports = "import os\nif True:\n    from mpi4py import __version__\nprint(os.getpid())"
    cells = {
        "torch --toolkit pytorch --processes 2": "print(1)  # import mpi4py",
        "log --nodes 2 --processes 2": LOGGED,
        "mute --nodes 2 --processes 2": "x = 1",
        "imports --processes 2": imports,
    }
    jobs = [place.submit(line, code) for line, code in cells.items()]
    same = {"commandLine": "bash -c 'echo same'", "processCount": 2}
    jobs.append(Job(place.backend, place.start(customToolkitSettings=None, customMpiSettings=same)))
    shown = [job.wait(PATIENCE_S).show() for job in jobs]
    assert [(job.state, job.execution.exit_code) for job in shown] == [(ExecutionState.SUCCEEDED, 0)] * 5
    warned = {job.id.name: (error.code, error.is_warning) for job in shown for error in job.execution.errors}
    assert warned == dict.fromkeys(("imports", "job"), ("MpiNotUsed", True))
    assert "The 2 processes ran independently" in shown[-1].execution.errors[0].message


@pytest.mark.sample
@pytest.mark.needs("separate_stderr")
@pytest.mark.needs("mpi")
def test_an_uncaught_error_in_one_rank_ends_the_job(place: Place) -> None:
    code = RANK + "if rank == 1: raise ValueError('boom')\nMPI.COMM_WORLD.Barrier()"
    job = place.run_cell("j --nodes 2 --processes 4", code)
    assert job.exit_code == 1
    trace = job.log(file="stderr.txt")
    assert "ValueError: boom" in trace
    assert "runpy" not in trace


@pytest.mark.needs("mpi")
def test_a_rank_killed_by_a_signal_is_recorded_as_a_shell_would(place: Place) -> None:
    job = place.run_cell(
        "j --processes 2",
        RANK + "import os\nif rank == 1: os.kill(os.getpid(), 9)\nimport time; time.sleep(1000)",
    )
    assert (job.exit_code, job.ranks()[0].rank) == (137, 1)


@pytest.mark.sample
@pytest.mark.needs("shared_job_folder")
@pytest.mark.needs("storage")
def test_the_environment_and_the_places_of_output_are_those_of_the_service(place: Place) -> None:
    code = "import os\nfor k, v in sorted(os.environ.items()): print(f'{k}={v}')"
    job = place.run_cell("j --prep true --env COLOUR=red --output MODEL", code)
    found = dict(line.partition("=")[::2] for line in job.log().splitlines())
    for name in (
        "MOUNT_ROOT",
        "JOB_MOUNT_ROOT",
        "STDOUTERR_DIR",
        "JOB_TEMP",
        "SHARED_JOB_TEMP",
        "OUTPUT_MODEL",
    ):
        assert Path(found[f"AZ_BATCHAI_{name}"]).is_dir(), name
    assert Path(found["AZ_BATCHAI_MPI_HOST_FILE"]).read_text().split() == [job.ranks()[0].node]
    assert (found["COLOUR"], found["AZ_BATCHAI_NUM_GPUS"]) == ("red", "0")
    assert Path(found["AZ_BATCHAI_OUTPUT_MODEL"]).parts[-5:-2] == ("default", "jobs", "j")
    prepared = ["stderr-job_prep.txt", "stderr.txt", "stdout-job_prep.txt", "stdout.txt"]
    assert [file.name for file in job.files("stdouterr")] == ["execution.log", *prepared]
    segment = job.show().output_path_segment
    expected = f"{place.workspace.subscription}/batchai/workspaces/default/experiments/default/jobs/j/"
    assert segment.startswith(expected)
    stored = place.backend.storage.download(place.share, f"{segment}/stdouterr/stdout.txt")
    assert stored.decode() == job.log()


@pytest.mark.decided_by("engine")
@pytest.mark.lacks("own_environment")
def test_what_the_notebook_exports_does_not_leak_into_jobs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PRIVATE_TOKEN", "hush")
    job = place.run_cell("j", "import os; print('MY_PRIVATE_TOKEN' in os.environ)")
    assert job.log() == "False\n"


@pytest.mark.decided_by("engine")
@pytest.mark.needs("shared_job_folder")
def test_preparation_runs_once_on_every_node_before_the_processes(place: Place) -> None:
    prep = "'echo prepared; echo x >> $AZ_BATCHAI_SHARED_JOB_TEMP/count'"
    code = "import os; print(open(os.environ['AZ_BATCHAI_SHARED_JOB_TEMP'] + '/count').read().count('x'))"
    job = place.run_cell(f"j --nodes 2 --processes 2 --prep {prep}", code)
    assert job.log() == "2\n2\n"
    logs = [f.name for f in job.files("stdouterr") if f.name.startswith("stdout-job_prep")]
    assert [job.log(file=name) for name in logs] == ["prepared\n"] * 2


# -- secrets


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_secrets_reach_a_job_and_one_that_waited_and_no_file_or_command_line_shows_them(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    first = place.submit("j --nodes 2 --processes 2 --secret TOKEN", SLEEP)
    until(lambda: first.log() == "up\nup\n")
    waiting = place.submit("k --secret TOKEN", "import os; print(len(os.environ['TOKEN']))")
    words = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in words if "hush-hush" in line]
    first.cancel()
    assert waiting.wait(PATIENCE_S).log() == "9\n"
    shown = waiting.show()
    assert "hush-hush" not in repr(shown) + json.dumps(shown.to_wire())
    assert shown.to_wire()["properties"]["secrets"] == [{"name": "TOKEN"}]
    assert not files_containing(tmp_path, "hush-hush")


# -- hostile output


@pytest.mark.sample
def test_binary_rubbish_is_kept_byte_for_byte_and_seen_before_a_line_ends(place: Place) -> None:
    code = "import sys, time\nsys.stdout.buffer.write(bytes(range(256)) * 400)\nsys.stdout.flush()"
    job = place.submit("j", f"{code}\ntime.sleep(1000)")
    file = FileRef(job.id, "stdout.txt")
    until(lambda: job.backend.read(file).size == 256 * 400)
    assert job.backend.read(file).data == bytes(range(256)) * 400
    job.cancel()


@pytest.mark.needs("mpi")
def test_a_line_of_ten_megabytes_stays_one_line(place: Place) -> None:
    job = place.run_cell("j --processes 2", RANK + "print(str(rank) * (10 << 20), flush=True)")
    assert sorted(map(len, job.log().splitlines())) == [10 << 20] * 2


# -- the end

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "daemon"], start_new_session=True)
open(sys.argv[1] + "/" + str(os.getpid()), "w")
time.sleep(1000)
"""


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_terminate_ends_stubborn_processes_and_what_they_daemonized(place: Place, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    job = place.submit(f"j --nodes 2 --processes 2 --grace 2s --args {pids}", STUBBORN)
    until(lambda: len(list(pids.iterdir())) == 4)
    job.cancel()
    until(lambda: not any(psutil.pid_exists(int(p.name)) and _lives(int(p.name)) for p in pids.iterdir()))
    job.wait(PATIENCE_S)


def test_what_a_finished_script_left_running_is_ended(place: Place) -> None:
    code = "import subprocess, sys\nprint(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"
    job = place.run_cell("j", code)
    assert not _lives(int(job.log()))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False
