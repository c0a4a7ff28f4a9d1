"""What is asked of Slurm, to be read before it is sent, and what runs containers on its nodes."""

from pathlib import Path

import pytest

from batchai_magics.backends.slurm import sbatch


def test_the_script_becomes_its_program_and_lets_no_signal_slip_by():
    text = sbatch.batch_script(Path("/h/j b"), 1, python="/usr/bin/python3", programs="/h/p")
    first, *_, last = text.splitlines()
    assert (first, "trap '' TERM" in text) == ("#!/bin/bash", True)
    assert last.startswith("exec /usr/bin/python3 -I -S -c ")
    assert last.endswith("/h/p '/h/j b' 1")


@pytest.mark.parametrize(
    ("configured", "there", "engine"),
    [
        ("", {"podman", "apptainer"}, ("apptainer",)),
        ("", {"podman", "enroot"}, ("enroot",)),
        ("singularity --quiet", set(), ("singularity", "--quiet")),
        ("host", {"apptainer"}, ()),
    ],
)
def test_what_was_set_or_is_there_runs_them(configured, there, engine):
    assert sbatch.container_engine(configured, has_credentials=False, has=there.__contains__) == engine
