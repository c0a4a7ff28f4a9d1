"""Hosts whose clocks are ten minutes apart: the shared file system's clock says how old something is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from batchai_magics.backends.service.file_repository import READ_INTERVAL_S, FileClock
from batchai_magics.backends.slurm.queries import MAX_TTL_S
from tests.backends.slurm.scripted_slurm import ScriptedClient
from tests.backends.slurm.share.clocks.hosts import (
    OFF_S,
    Host,
    clock_off,
    either_way,
    error_of,
)
from tests.backends.slurm.share.clocks.test_standing import until_heard
from tests.world import until


@either_way
def test_the_clock_is_that_of_the_files(tmp_path: Path, off_s: float) -> None:
    clock = FileClock(tmp_path / "clock")
    before = time.time()
    with clock_off(off_s):
        first = clock.now()
        assert before - 1 < first < before + OFF_S / 2
        assert clock.now() >= first


def test_what_another_host_wrote_a_moment_ago_is_never_of_the_future(tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "clock", monotonic=lambda: 9.0)  # it stands still while the machine sleeps
    clock.read()
    (tmp_path / "other").touch()
    until(lambda: (tmp_path / "other").touch() or (tmp_path / "other").stat().st_mtime > clock.now())
    assert clock.age_s((tmp_path / "other").stat().st_mtime) >= 0


def test_the_file_system_is_asked_again_after_half_a_minute(tmp_path: Path) -> None:
    now = 9.0
    clock = FileClock(tmp_path / "clock", monotonic=lambda: now)
    clock.now()
    os.utime(tmp_path / "clock", (0, 0))
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime == 0
    now += READ_INTERVAL_S + 1
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime > 0


def test_where_nothing_can_be_written_the_hosts_own_clock_has_to_do(tmp_path: Path) -> None:
    with clock_off(OFF_S):
        assert FileClock(tmp_path / "missing" / "clock").now() > time.time() - 1


# what Slurm has said


@either_way
def test_an_answer_that_another_host_got_just_now_is_good(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    with clock_off(off_s):
        other.answers.jobs()
    here.answers.jobs()
    assert slurm_client.asked == 1


@either_way
def test_an_old_answer_is_not_kept_whoever_got_it(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    with clock_off(off_s):
        other.answers.jobs()
    (file,) = (each for each in here.answers.files if each.exists())
    *times, lines = json.loads(file.read_text())
    file.write_text(json.dumps([*(moment - MAX_TTL_S for moment in times), lines]))
    here.answers.jobs()
    assert slurm_client.asked == 2


@either_way
def test_what_slurm_says_of_a_job_is_heard_whoever_submitted_it(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    with clock_off(off_s):
        job = other.submitted()
    slurm_client.report("CANCELLED")
    assert error_of(until_heard(here, job)) == "JobTerminated"


@either_way
def test_what_slurm_said_before_a_job_was_submitted_is_nothing_about_it(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    slurm_client.lines = {}
    here.answers.jobs()
    with clock_off(off_s):
        job = other.submitted()
    slurm_client.report("RUNNING")
    here.runs.reconcile(job)
    assert here.files.engine_report(1) is None
