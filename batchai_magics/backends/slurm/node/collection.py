"""Collects working directories from the nodes' own disks: each node moves its files to the run's folder.

As a program (`ROOT PLAN SECONDS`) it does so on a node other than the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node import scratch
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.node.scratch import MoveResult, Space
from batchai_magics.backends.slurm.node.start_line import own_folder, start_words
from batchai_magics.launch.plan import Plan

_MODULE = "batchai_magics.backends.slurm.node.collection"
START_TIMEOUT_S = 10.0  # time for srun to start programs on other nodes, in addition to their own
RANK_TIMEOUT_S = 10.0  # time for a rank's program when Slurm ends the run and is about to kill it
_RANKS_TIMEOUT_S = 3.0  # how long to wait for the other ranks of a node
_POLL_S = 0.1


class Collection:
    """Collects what a plan's nodes have on their disks; does nothing for runs without scratch folders."""

    def __init__(self, files: RunFiles, plan: Plan) -> None:
        self._files, self._plan = files, plan
        self._request = _read(files)

    @staticmethod
    def request(files: RunFiles, *, limit_bytes: int, number: int) -> None:
        """Tells all nodes to collect their files; `number` is the attempt's."""
        suffix = "" if number == 1 else f".attempt-{number}"
        private_files.write(_file(files), json.dumps({"limit_bytes": limit_bytes, "suffix": suffix}))

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to collect."""
        return bool(self._request)

    def collect(self, seconds: float) -> list[str]:
        """Has all nodes move their files; returns a sentence for each node that left some behind."""
        if not self._request:
            return []
        others = self._start_others(seconds)
        self.collect_node(0, seconds)
        if others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                others.wait(seconds + START_TIMEOUT_S)
            others.kill()
            others.wait()
        return self.left_behind()

    def left_behind(self) -> list[str]:
        """A sentence for each node that still has files, or did not report that it has none."""
        indices = range(len(self._plan.nodes)) if self._request else ()
        return [text for index in indices if (text := self._sentence(index))]

    def collect_node(self, index: int, seconds: float) -> None:
        """Moves the files of the node with this index, which is the current one."""
        if not self._request:
            return
        node = self._plan.nodes[index]
        target = self._files.layout.workdir / f"{node.id}{self._request['suffix']}"
        space = Space(int(self._request["limit_bytes"]), time.monotonic() + seconds)
        with contextlib.suppress(OSError):  # a full disk: the missing note says enough
            scratch.move(Path(node.folder), target, self._note(index), space)

    def collect_after_rank(self, rank: int) -> None:
        """Moves the files of a rank's node once the other ranks there have ended."""
        index = self._plan.processes[rank].node
        ranks = {process.rank for process in self._plan.processes if process.node == index}
        deadline = time.monotonic() + _RANKS_TIMEOUT_S
        while self._request and ranks - {end.rank for end in exits_in(Path(self._plan.exits))}:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)
        self.collect_node(index, RANK_TIMEOUT_S)

    def _start_others(self, seconds: float) -> subprocess.Popen[bytes] | None:
        """Starts the program on the other nodes, through srun."""
        names = [node.id for node in self._plan.nodes[1:]]
        if not names:
            return None
        count = len(names)
        tasks = [
            f"--nodelist={','.join(names)}",
            f"--nodes={count}",
            f"--ntasks={count}",
            "--ntasks-per-node=1",
        ]
        options = ["--overlap", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--quiet"]
        program = start_words(self._plan.python, _MODULE, own_folder())
        args = [str(self._files.root), str(self._files.layout.plan), str(seconds)]
        with self._files.batch_log.open("ab") as log:
            return subprocess.Popen(
                ["srun", *tasks, *options, "--cpu-bind=none", "--export=ALL", *program, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_detach,
            )

    def _sentence(self, index: int) -> str:
        node, moved = self._plan.nodes[index], MoveResult.read(self._note(index))
        where = f"on {node.id}, in {node.folder}"
        if moved is None:
            return f"Files may be left {where}: the node did not tell that they were copied"
        if not moved.left:
            return ""
        size = f"{moved.left_bytes / (1 << 20):.1f} MiB"
        files = f"{moved.left} files ({size}) were" if moved.left > 1 else f"1 file ({size}) was"
        return f"{files} left {where}: {moved.reason}"

    def _note(self, index: int) -> Path:
        return (
            self._files.root / "collected" / f"{self._plan.nodes[index].id}{self._request.get('suffix')}.json"
        )


def main() -> None:
    """Moves the files of the current node."""
    files, plan = RunFiles(Path(sys.argv[1])), Plan.read(sys.argv[2])
    index = [node.id for node in plan.nodes].index(os.environ["SLURMD_NODENAME"])
    Collection(files, plan).collect_node(index, float(sys.argv[3]))


def _detach() -> None:
    """Runs in the child before srun: leaves this process group, and dies with this program."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)


def _file(files: RunFiles) -> Path:
    return files.root / "collection.json"


def _read(files: RunFiles) -> dict[str, str | int]:
    try:
        request: dict[str, str | int] = json.loads(_file(files).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return request
