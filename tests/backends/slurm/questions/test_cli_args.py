"""What is asked of Slurm, to be read before it is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.slurm import cli_args
from batchai_magics.backends.slurm.cli_args import SubmitOptions

PLAIN = SubmitOptions("resnet", "guid", "gpu", node_count=2, minutes=90, log=Path("/home/me/100%/batch.log"))


def test_a_submission_says_who_and_what_and_how_long() -> None:
    assert PLAIN.options == [
        "--job-name=batchai-resnet",
        "--comment=guid",
        "--nodes=2",
        "--time=90",
        "--output=/home/me/100%%/batch.log",
        "--open-mode=append",
        "--no-requeue",
        "--nice=0",
        "--partition=gpu",
    ]


def test_what_somebody_wrote_by_hand_comes_last() -> None:
    made = replace(PLAIN, more=("--time=5", "--exclusive"))
    assert made.options[-2:] == ["--time=5", "--exclusive"]


def test_a_job_may_be_held_wait_for_another_and_avoid_nodes() -> None:
    made = replace(PLAIN, is_held=True, after="7", excluded=("n1", "n2"))
    assert {"--hold", "--dependency=afterany:7", "--exclude=n1,n2"} < {*made.options}


def test_the_script_becomes_its_program_and_lets_no_signal_slip_by() -> None:
    text = cli_args.batch_script(Path("/h/j b"), 1, python="/usr/bin/python3", programs=Path("/h/p"))
    first, *_, last = text.splitlines()
    assert (first, "trap '' TERM" in text) == ("#!/bin/bash", True)
    assert last.startswith("exec /usr/bin/python3 -I -S -c ")
    assert last.endswith("/h/p '/h/j b' 1")
