"""The program beside a run that watches it: what it prints becomes notes; it is started again if it dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from batchai_magics.backends.node import watch_process
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.watch_process import STOP, WatchProcess, WatchProgram, stack_lines_from
from tests.world import until

pytestmark = pytest.mark.slow
FD_SETSIZE = 1024
PROGRAM = """
import os, sys
from batchai_magics.backends.node.watch_process import end_signal
over = end_signal()
print({stop!r}, flush=True)
print(os.getpid(), file=sys.stderr, flush=True)
over.wait()
print(*{notes}, sep="\\n")
"""


class Watched:
    """A program that prints these notes, and what is reported about it."""

    def __init__(self, folder: Path, *, notes: Sequence[str] = (), stop: str = "", export: str = "") -> None:
        self.log, self.lost = folder / "log", list[str]()
        files = JobLayout(folder)
        files.records.mkdir()
        if export:
            (files.records / "watch.json").write_text(json.dumps({"exports": [export]}))
        else:
            files.stop_if.touch()
        start = [sys.executable, "-c", PROGRAM.format(notes=[*notes], stop=stop)]
        self.process = WatchProcess(WatchProgram(start, self.log, ()), files, lost=self.lost.append)

    def kill(self, start: int) -> None:
        """Kills the program of this start, from 1, once it runs."""
        until(lambda: self.log.read_text().count("\n") >= start)
        os.kill(int(self.log.read_text().split()[start - 1]), signal.SIGKILL)

    def check_until_started(self, start: int) -> None:
        """Checks until the program was started so often."""
        until(lambda: self.process.check() or self.log.read_text().count("\n") >= start)

    def close(self) -> list[str]:
        """Ends it; what could not be done."""
        return self.process.close()


@pytest.mark.parametrize("notes", [[], ["one"], ["one", "two"]])
def test_each_line_that_is_not_empty_is_a_note(notes, tmp_path):
    assert Watched(tmp_path, notes=notes).close() == notes


def test_the_reason_to_stop_that_the_program_prints_is_returned_and_is_no_note(tmp_path):
    reason = "loss was\nnan, and µ too large"
    watched = Watched(tmp_path, notes=["one"], stop=STOP + json.dumps(reason))
    assert until(watched.process.check) == reason
    assert watched.close() == ["one"]


def test_descriptor_above_the_limit_of_select_is_checked(tmp_path):
    with contextlib.ExitStack() as opened:
        for _ in range(FD_SETSIZE):
            opened.enter_context(open(os.devnull))  # noqa: PTH123 as the descriptors are what counts
        watched = Watched(tmp_path, stop=f'{STOP}"loss was nan"')
        assert until(watched.process.check) == "loss was nan"
        watched.close()


def test_a_watcher_killed_repeatedly_is_reported_while_the_run_goes_on(tmp_path):
    watched = Watched(tmp_path)
    for start in (1, 2, 3):
        watched.check_until_started(start)
        watched.kill(start)
    until(lambda: watched.process.check() or watched.lost)
    watched.process.check()
    text = "the conditions of this job are no longer watched: the watcher was killed by SIGKILL"
    assert watched.lost == watched.close() == [f"{text}, see {watched.log}"]


def test_a_watcher_that_exports_is_not_restarted(tmp_path):
    watched = Watched(tmp_path, export="tensorboard:runs")
    watched.kill(1)
    until(lambda: watched.process.check() or watched.lost)
    assert watched.lost == watched.close()
    assert watched.lost[0].startswith("this job is no longer watched: ")
    assert watched.log.read_text().count("\n") == 1


def test_a_watcher_that_cannot_be_restarted_is_reported_and_does_not_end_the_run(tmp_path):
    watched = Watched(tmp_path)
    watched.kill(1)
    watched.log.unlink()
    watched.log.mkdir()
    until(lambda: watched.process.check() or watched.lost)
    assert watched.lost == watched.close()


def test_a_node_that_does_not_answer_in_time_has_no_stacks_and_the_others_have_theirs(monkeypatch):
    monkeypatch.setattr(watch_process, "_NODE_TIMEOUT_S", 0.5)
    assert stack_lines_from([["sleep", "1000"], ["echo", '{"rank": 1}']]) == ['{"rank": 1}']
