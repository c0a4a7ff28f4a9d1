"""Scripts of PyTorch and Accelerate run unchanged on two nodes, as a cell and behind their launchers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.slurm import real_slurm
from tests.patience import PATIENCE_S
from tests.server.clients import python_of

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
RANKS = [f"rank {rank} of 4, local {rank % 2}, read 4 tensors" for rank in range(4)]
CELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "batchai_magics")
line = "%%batchai_job ddp --nodes 2 --processes 4 --toolkit pytorch --wait --max-time 4m --python {python}"
shell.run_cell(line + "\\n" + {script!r}).raise_error()
"""
Run = Callable[..., str]


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a command of this Python in a folder with the scripts; gives what it printed."""
    env = {**os.environ, "BATCHAI_BACKEND": request.param, "IPYTHONDIR": str(tmp_path / "ipython")}
    if request.param == "slurm":
        if reason := real_slurm.skip_reason():
            pytest.skip(reason)
        conf = str(real_slurm.SHARED.get().conf)
        env |= {"BATCHAI_SLURM_HOME": str(tmp_path / "home"), "BATCHAI_SLURM_CONF": conf}
        env |= {"BATCHAI_SLURM_LOOK_S": "0.2"}
    for script in PROGRAMS.glob("train_*.py"):
        shutil.copy(script, tmp_path)

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
        return printed

    return run


def losses(printed: str) -> list[float]:
    """The losses of the epochs."""
    return [float(text) for text in re.findall(r"epoch \d loss ([0-9.]+)", printed)]


def ranks(printed: str) -> list[str]:
    """What the ranks reported about themselves."""
    return sorted(re.findall(r"^rank \d of .*", printed, re.MULTILINE))


@pytest.mark.parametrize("run", ["local"], indirect=True)  # on Slurm the same script runs below
def test_a_cell_trains_with_ddp_workers_validation_and_a_checkpoint(run: Run) -> None:
    script = (PROGRAMS / "train_ddp.py").read_text()
    printed = run("-c", CELL.format(python=python_of("torch"), script=script))
    assert ranks(printed) == RANKS, printed
    first, last = losses(printed)
    assert last < first
    assert re.search(r"epoch 1: 100%.*2/2", printed)


@pytest.mark.parametrize("run", ["slurm"], indirect=True)  # on the local backend: docs/how-to/pytorch.md
def test_torchrun_trains_the_same_script(run: Run) -> None:
    counts = ("--nnodes=2", "--nproc_per_node=2")
    printed = run(*batchai_run(), "torchrun", *counts, "train_ddp.py", "--epochs=3")
    assert ranks(printed) == RANKS, printed
    assert len(losses(printed)) == 3


@pytest.mark.parametrize("run", ["local"], indirect=True)
def test_accelerate_trains_with_the_settings_of_its_launcher(run: Run) -> None:
    options = ("--cpu", "--num_machines=2", "--num_processes=4", "--gradient_accumulation_steps=2")
    printed = run(*batchai_run(), "accelerate", "launch", *options, "train_accelerate.py")
    assert ranks(printed) == [f"rank {rank} of 4 on cpu, accumulates 2" for rank in range(4)], printed
    assert len(losses(printed)) == 2


def batchai_run() -> tuple[str, ...]:
    """The words of `batchai run` before a launcher's."""
    return ("-m", "batchai_magics.cli", "run", "--max-time=4m", "--python", python_of("torch"), "--")
