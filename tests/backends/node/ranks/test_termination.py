"""How processes end: asked first, killed after their grace, and nothing is waited for once they are gone."""

from __future__ import annotations

import subprocess
import time

import pytest

from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.leftovers import LiveProcess

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


class OneRank:
    """A rank that has no output: a real process that ignores SIGTERM."""

    def __init__(self) -> None:
        command = "trap '' TERM; echo up; while :; do sleep 0.1; done"
        self.process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE)
        assert self.process.stdout
        with self.process.stdout as output:
            assert output.readline() == b"up\n"

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def poll(self, timeout_s: float) -> None:
        time.sleep(min(timeout_s, 0.01))

    def abandon(self) -> None:
        self.process.wait()

    def find(self) -> list[LiveProcess]:
        found = leftovers.find(self.process.pid) if self.is_running else None
        return [found] if found else []


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace_and_not_waited_for_then():
    rank, began = OneRank(), time.monotonic()
    termination.end(rank, find=OneRank.find, patience_s=PATIENCE_S, grace_s=0.2)
    assert rank.process.returncode == -9
    assert 0.2 <= time.monotonic() - began < PATIENCE_S / 2


def test_without_processes_kill_returns_at_once():
    began = time.monotonic()
    termination.kill(list)
    assert time.monotonic() - began < termination.KILL_S / 2
