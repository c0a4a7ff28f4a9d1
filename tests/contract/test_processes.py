"""What a job's processes get and leave: whole lines, exit codes, an environment, nothing after the end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.world import files_containing, until

pytestmark = pytest.mark.slow

RANK = "from mpi4py import MPI; rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size\n"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
LOGGED = "from batchai_magics import log\nfor step in range(3):\n    log(step=step, loss=1 / (1 + step))"


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
@pytest.mark.needs("mpi")
def test_spans_fit_the_piece_that_is_read(place: Place) -> None:
    job = place.run_cell("j --processes 2", RANK + "print(str(rank) * 9, flush=True)")
    chunk = job.backend.read(FileRef(job.id, "stdout.txt"), 5, 10)
    assert [(s.start, s.end) for s in chunk.spans] == [(5, 10), (10, 15)]


@pytest.mark.sample
@pytest.mark.needs("write_times")
def test_a_lone_processs_numbers_have_the_time_at_which_it_printed_them(place: Place) -> None:
    begun = time.time()
    job = place.run_cell("j", "for i in range(3): print(f'step={i} loss=0.5', flush=True)")
    times = job.metrics(tidy=True)["wall_time"]
    assert len(times) == 3
    assert all(begun <= moment.timestamp() <= time.time() for moment in times)


@pytest.mark.needs("mpi")
@pytest.mark.needs("mpi_check")
def test_ranks_that_use_it_and_processes_without_mpi_are_not(place: Place) -> None:
    assert not place.run_cell("j --nodes 2 --processes 2", RANK).show().execution.errors
    job = place.run_cell("k --toolkit pytorch --processes 2", "print(1)  # import mpi4py")
    assert not job.show().execution.errors


@pytest.mark.needs("mpi_check")
def test_ranks_that_each_print_something_else_are_not(place: Place) -> None:
    for name, body in {"log": LOGGED, "mute": "x = 1"}.items():
        assert not place.run_cell(f"{name} --nodes 2 --processes 2", body).show().execution.errors, name


@pytest.mark.needs("mpi_check")
def test_ranks_whose_script_imports_an_mpi_that_they_do_not_join_are_told_of(place: Place) -> None:
    line = "if True:\n    from mpi4py import __version__"
    (warning,) = (
        place.run_cell("j --processes 2", f"import os\n{line}\nprint(os.getpid())").show().execution.errors
    )
    assert (warning.code, warning.is_warning) == ("MpiNotUsed", True)


@pytest.mark.needs("mpi")
def test_the_first_failing_rank_is_named_with_its_code(place: Place) -> None:
    code = RANK + "import sys, time\nif rank == 2: sys.exit(7)\ntime.sleep(1000)"
    job = place.run_cell("j --nodes 2 --processes 4", code)
    first = job.ranks()[0]
    assert (job.exit_code, first.rank, first.exit_code) == (7, 2, 7)
    details = {d.name: d.value for d in job.show().execution.errors[0].details}
    assert details == {"failedRank": "2", "failedNode": first.node, "exitCode": "7"}


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


@pytest.mark.needs("shared_job_folder")
def test_the_environment_is_what_batch_ai_promised(place: Place) -> None:
    code = "import os\nfor k, v in sorted(os.environ.items()): print(f'{k}={v}')"
    job = place.run_cell("j --env COLOUR=red --output MODEL", code)
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


@pytest.mark.lacks("own_environment")
def test_what_the_notebook_exports_does_not_leak_into_jobs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PRIVATE_TOKEN", "hush")
    job = place.run_cell("j", "import os; print('MY_PRIVATE_TOKEN' in os.environ)")
    assert job.log() == "False\n"


@pytest.mark.needs("shared_job_folder")
def test_preparation_runs_once_on_every_node_before_the_processes(place: Place) -> None:
    prep = "'echo prepared; echo x >> $AZ_BATCHAI_SHARED_JOB_TEMP/count'"
    code = "import os; print(open(os.environ['AZ_BATCHAI_SHARED_JOB_TEMP'] + '/count').read().count('x'))"
    job = place.run_cell(f"j --nodes 2 --processes 2 --prep {prep}", code)
    assert job.log() == "2\n2\n"
    logs = [f.name for f in job.files("stdouterr") if f.name.startswith("stdout-job_prep")]
    assert [job.log(file=name) for name in logs] == ["prepared\n"] * 2


@pytest.mark.needs("storage")
def test_output_lies_where_the_service_put_it_under_the_recorded_names(place: Place) -> None:
    job = place.run_cell("j --prep true")
    assert [file.name for file in job.files("stdouterr")] == [
        "execution.log",
        "stderr-job_prep.txt",
        "stderr.txt",
        "stdout-job_prep.txt",
        "stdout.txt",
    ]
    segment = job.show().output_path_segment
    expected = f"{place.workspace.subscription}/batchai/workspaces/default/experiments/default/jobs/j/"
    assert segment.startswith(expected)
    assert place.backend.storage.download(place.share, f"{segment}/stdouterr/stdout.txt") == b"hello\n"


@pytest.mark.sample
def test_a_job_over_its_time_is_ended(place: Place) -> None:
    job = place.run_cell("j --max-time 1s", "import time; time.sleep(1000)")
    assert job.show().execution.errors[0].code == "JobMaxWallClockTimeReached"
    assert job.state is ExecutionState.FAILED


# -- secrets


@pytest.mark.sample
def test_secrets_reach_a_job_and_one_that_waited_and_no_file_or_command_line_shows_them(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    first = place.submit("j --nodes 2 --processes 2 --secret TOKEN", SLEEP)
    until(lambda: first.log() == "up\nup\n")
    waiting = place.submit("k --nodes 2 --secret TOKEN", "import os; print(len(os.environ['TOKEN']))")
    words = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in words if "hush-hush" in line]
    first.cancel()
    assert waiting.wait(PATIENCE_S).log() == "9\n9\n"
    assert not files_containing(tmp_path, "hush-hush")


# -- hostile output


def test_binary_rubbish_is_kept_byte_for_byte(place: Place) -> None:
    code = "import sys\ndata = bytes(range(256)) * 400\nsys.stdout.buffer.write(data)"
    job = place.run_cell("j", code)
    assert job.backend.read(FileRef(job.id, "stdout.txt")).data == bytes(range(256)) * 400


@pytest.mark.needs("mpi")
def test_a_line_of_ten_megabytes_stays_one_line(place: Place) -> None:
    job = place.run_cell("j --processes 2", RANK + "print(str(rank) * (10 << 20), flush=True)")
    assert sorted(map(len, job.log().splitlines())) == [10 << 20] * 2


@pytest.mark.needs("partial_lines")
def test_output_without_any_line_end_is_seen_while_the_job_runs(place: Place) -> None:
    job = place.submit(
        "j", "import sys, time\nsys.stdout.write('no end'); sys.stdout.flush(); time.sleep(1000)"
    )
    until(lambda: job.log() == "no end")
    job.cancel()


# -- the end

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "daemon"], start_new_session=True)
open(sys.argv[1] + "/" + str(os.getpid()), "w")
time.sleep(1000)
"""


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
