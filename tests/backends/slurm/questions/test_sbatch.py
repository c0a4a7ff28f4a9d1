"""What is asked of Slurm, to be read before it is sent."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.slurm import sbatch


def test_the_script_becomes_its_program_and_lets_no_signal_slip_by() -> None:
    text = sbatch.batch_script(Path("/h/j b"), 1, python="/usr/bin/python3", programs="/h/p")
    first, *_, last = text.splitlines()
    assert (first, "trap '' TERM" in text) == ("#!/bin/bash", True)
    assert last.startswith("exec /usr/bin/python3 -I -S -c ")
    assert last.endswith("/h/p '/h/j b' 1")
