"""Runs the quickstart from top to bottom, and says what it measured and where the results are.

The job lives in a home of its own, so that every run of this script is a new job.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import find
from batchai_magics.models.states import ExecutionState

QUICKSTART = Path(__file__).parent / "01_quickstart.ipynb"
FIRST, JOB = "first", "quickstart"  # jobs of the notebook; the results are those of the second
PATIENCE_S = 600  # for one cell, the kernel's start, and outputs still on their way when a cell has ended
LOOK_S = 2.0  # between two looks at the job
EVERY = 20  # steps
LAST_LINES = 5  # of what a job that failed wrote to its stderr


def main() -> None:
    """Executes the notebook, writes its results, and prints the table of speeds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results")
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchai-demo-", ignore_cleanup_errors=True) as home:
        os.environ["BATCHAI_HOME"] = home
        began = time.monotonic()
        print(
            f"{QUICKSTART.name}: a training, then a benchmark on 2 nodes with 4 processes; a minute or two.",
            flush=True,
        )
        with Steps():
            notebook = execute(out / QUICKSTART.name)
        files = [out / QUICKSTART.name, write_log(out / "stdout.txt")]
        if problem := failure():
            sys.exit(f"\n{problem}\nThe notebook and the log: {', '.join(map(str, files))}")
        files.insert(1, write_chart(notebook, out / "chart.png"))
        print(f"\n{speeds()}")
        print(f"\n{QUICKSTART.name} ran in {time.monotonic() - began:.0f} s. Results:")
        print(*(f"  {file}" for file in files), sep="\n")
        print("\nNext: `make lab` opens the notebook in JupyterLab, with the job live beneath its cell.")


class Progress:
    """Tells which cell begins, of how many, by its first line."""

    def __init__(self, notebook: nbformat.NotebookNode) -> None:
        self._indices = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]

    def __call__(self, cell: nbformat.NotebookNode, cell_index: int) -> None:
        """Prints the line of a cell that is about to run."""
        if cell_index in self._indices:
            place = f"[{self._indices.index(cell_index) + 1}/{len(self._indices)}]"
            print(place, cell.source.partition("\n")[0][:90], flush=True)


class Steps:
    """Tells how far the job is while a cell waits for it."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _tell(self) -> None:
        told, is_over = 0, False
        while not is_over:
            is_over = self._is_over.wait(LOOK_S)  # the last steps are told, too
            with contextlib.suppress(BatchAIError):  # the job is not there yet
                steps = [record for record in _job().records() if getattr(record, "name", "") == "loss"]
                if steps and (steps[-1].step or 0) >= told + EVERY:
                    told = steps[-1].step
                    print(f"      step {told}, loss {steps[-1].value:.3f}", flush=True)


def execute(target: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; what it reached is written to `target` even if a cell fails."""
    notebook = nbformat.read(QUICKSTART, as_version=4)
    waits = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), PATIENCE_S)
    client = NotebookClient(notebook, **waits, resources={"metadata": {"path": str(QUICKSTART.parent)}})
    client.on_cell_execute = Progress(notebook)
    client.extra_arguments = ["--log-level=ERROR"]  # the kernel's warnings are not about the notebook
    try:
        return client.execute()
    finally:
        nbformat.write(notebook, target)


def write_chart(notebook: nbformat.NotebookNode, target: Path) -> Path:
    """The last picture of the notebook, as a file."""
    data = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    *_, picture = (item["image/png"] for item in data if "image/png" in item)
    target.write_bytes(base64.b64decode(picture))
    return target


def write_log(target: Path) -> Path:
    """The job's log, as a file."""
    target.write_text(_job().log(), encoding="utf-8")
    return target


def failure() -> str:
    """What became of the jobs, with the last lines of the first failed one's errors; empty if none failed."""
    return next(filter(None, (_failure_of(_job(name)) for name in (FIRST, JOB))), "")


def _failure_of(job: Job) -> str:
    if job.state is ExecutionState.SUCCEEDED:
        return ""
    execution = job.show().execution
    reasons = [f"{error.code}: {error.message}" for error in execution.errors] if execution else []
    said = job.log(tail=LAST_LINES, file="stderr.txt")
    return "\n".join([f"The job {job.name} {job.state.value}.", *reasons, said.rstrip()])


def speeds() -> str:
    """Images per second of each process at each step, and the total."""
    job = _job()
    table = job.metrics().pivot(index="step", columns="rank", values="images_per_sec")
    total = job.summary().total_images_per_sec
    return f"images/sec of each process\n{table.to_string()}\n\ntotal images/sec: {total:.2f}"


def _job(name: str = JOB) -> Job:
    """The handle again, in another process than the one that submitted: the name is enough."""
    settings = load_settings()
    return find(open_backend(settings), name, settings)


if __name__ == "__main__":
    main()
