"""Exports of real jobs while they run, read by the genuine programs."""

import shutil
import signal
from pathlib import Path

import psutil
import pytest

from batchai_magics.metrics.reading.event_files import EventFileReader
from tests.ports import deaf_port
from tests.server.clients import drive, python_of
from tests.world import World, senders_in, until, world

__all__ = ["world"]
pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
STEP = 'print(f\'{{"step": {step}, "loss": {2.5 / step}}}\', flush=True)'
ENDS = f"for step in (1, 2):\n    {STEP}\n"
WAITS = f"import time\n{ENDS}time.sleep(600)"


def exported_points(folder: Path) -> list[tuple[str, int, float]]:
    """The numbers in the event files of a folder."""
    files = folder.rglob("events.out.tfevents.*")
    return [(each.name, each.step, each.value) for file in files for each in EventFileReader(file).read()]


def exported(folder: Path) -> list[tuple[int, float]]:
    """The losses in the event files of a folder."""
    files = folder.rglob("events.out.tfevents.*")
    return [(point.step, point.value) for file in files for point in EventFileReader(file).read()]


def test_tensorboard_follows_a_running_job(world: World, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    job = world.submit(f"r --export tensorboard={runs}", WAITS)
    until(lambda: exported(runs) == [(1, 2.5), (2, 1.25)])
    assert not job.is_done
    found = drive("tensorboard", str(PROGRAMS / "read_events.py"), str(runs))
    assert [point[:2] for point in found["r"]["loss"]] == [[1, 2.5], [2, 1.25]]


def test_the_last_numbers_of_a_short_job_are_exported_to_a_folder_beside_the_notebook(
    world: World, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world.run("r --export tensorboard=runs", ENDS)
    assert exported(tmp_path / "runs" / "r") == [(1, 2.5), (2, 1.25)]


def test_a_target_that_does_not_respond_is_a_warning_and_nothing_else(world: World) -> None:
    with deaf_port() as port:
        job = world.run(f"r --export mlflow=http://127.0.0.1:{port}", ENDS)
    (error,) = job.show().execution.errors
    assert (job.state.value, error.code) == ("succeeded", "ExportIncomplete")
    assert "2 numbers are missing: MLflow does not respond" in error.message
    (sender,) = until(lambda: senders_in(world.home))
    sender.suspend()  # it writes there
    until(lambda: sender.status() == psutil.STATUS_STOPPED)
    shutil.rmtree(world.home / "outbox")  # nobody is to try again
    sender.kill()


def test_mlflow_has_the_run_live_and_its_end_even_without_the_supervisor(world: World, mlflow) -> None:
    logs = "from batchai_magics import log\nlog(params={'width': 8, 'api_key': 'hunter2'})\n"
    job = world.submit(f"r --export mlflow={mlflow.uri} --tag wide", logs + WAITS)
    (run,) = until(lambda: mlflow.is_known("default") and mlflow.runs("default"))
    until(lambda: len(mlflow.history(run, "loss")) == 2)
    (run,) = mlflow.runs("default")
    params = {each["key"]: each["value"] for each in run["data"]["params"]}
    assert params == {"width": "8", "api_key": "***"}
    assert {"key": "wide", "value": "true"} in run["data"]["tags"]
    assert run["info"]["status"] == "RUNNING"
    world.supervisor(job).send_signal(signal.SIGKILL)
    until(lambda: job.is_done and mlflow.runs("default")[0]["info"]["status"] == "FAILED")


def test_event_files_of_tensorboards_own_writer_are_read_live_and_exported(
    world: World, tmp_path: Path
) -> None:
    words = [python_of("tensorboard"), f"{PROGRAMS}/write_events.py", "tb"]
    writes = f"import subprocess\nsubprocess.run({words})"
    prints = """print('{"step": 2, "accuracy": 0.75}', flush=True)"""
    job = world.submit(f"r --export tensorboard={tmp_path}/runs", f"{prints}\n{writes}\n{WAITS}")
    wanted = [("accuracy", 2, 0.75), ("loss", 1, 2.5), ("loss", 2, 1.25)]
    wanted += [("rate", 3, 180.5), ("train/loss", 0, 2.5)]
    columns = ["metric", "step", "value"]
    until(lambda: len(job.metrics(tidy=True)) >= len(wanted))
    table = job.metrics(tidy=True)[columns]
    assert sorted(table.itertuples(index=False, name=None)) == wanted
    assert not job.is_done
    points = until(lambda: len(found := exported_points(tmp_path / "runs")) >= len(wanted) and found)
    assert sorted(points) == wanted
    job.cancel()
