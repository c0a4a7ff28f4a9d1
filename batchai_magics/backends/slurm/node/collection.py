"""The end of working directories on nodes' own disks: each node moves its files to the run's folder.

Started as `ROOT PLAN SECONDS` it is the program that does so on a node that the run's own program is not on.
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
START_S = 10.0  # what srun gets to start a program on other nodes, beside the time that this gets
RANK_S = 10.0  # what a rank's program gets for it when Slurm ends the run: soon it kills
_OTHERS_S = 3.0  # what the other ranks of a node get to end
_AGAIN_S = 0.1


class Collection:
    """Collects what the nodes of a plan have on their disks; does nothing for one that has nothing there."""

    def __init__(self, files: RunFiles, plan: Plan) -> None:
        self._files, self._plan = files, plan
        self._told = _read(files)

    @staticmethod
    def order(files: RunFiles, *, limit_bytes: int, number: int) -> None:
        """Tells all nodes that there is something to collect; `number` is that of the run's beginning."""
        suffix = "" if number == 1 else f".attempt-{number}"
        private_files.write(_file(files), json.dumps({"limit_bytes": limit_bytes, "suffix": suffix}))

    @property
    def is_wanted(self) -> bool:
        """Whether the nodes have something on their disks."""
        return bool(self._told)

    def collect(self, seconds: float) -> list[str]:
        """Has all nodes move their files; gives a sentence for each node that has left some behind."""
        if not self._told:
            return []
        others = self._started(seconds)
        self.collect_of(0, seconds)
        if others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                others.wait(seconds + START_S)
            others.kill()
            others.wait()
        return self.left_behind()

    def left_behind(self) -> list[str]:
        """A sentence for each node that still has files, or has not told that it has none."""
        indices = range(len(self._plan.nodes)) if self._told else ()
        return [text for index in indices if (text := self._sentence(index))]

    def collect_of(self, index: int, seconds: float) -> None:
        """Moves the files of a node, which is this one."""
        if not self._told:
            return
        node = self._plan.nodes[index]
        target = self._files.layout.workdir / f"{node.id}{self._told['suffix']}"
        space = Space(int(self._told["limit_bytes"]), time.monotonic() + seconds)
        with contextlib.suppress(OSError):  # a full disk: that it left no note tells as much
            scratch.move(Path(node.folder), target, self._note(index), space)

    def collect_behind(self, rank: int) -> None:
        """Moves the files of a rank's node, once the other ranks there have ended as well."""
        index = self._plan.processes[rank].node
        ranks = {process.rank for process in self._plan.processes if process.node == index}
        deadline = time.monotonic() + _OTHERS_S
        while self._told and ranks - {end.rank for end in exits_in(Path(self._plan.exits))}:
            if time.monotonic() > deadline:
                return
            time.sleep(_AGAIN_S)
        self.collect_of(index, RANK_S)

    def _started(self, seconds: float) -> subprocess.Popen[bytes] | None:
        """The programs of the other nodes, which srun starts."""
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
        how = ["--overlap", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--quiet"]
        program = start_words(self._plan.python, _MODULE, own_folder())
        words = [str(self._files.root), str(self._files.layout.plan), str(seconds)]
        with self._files.batch_log.open("ab") as log:
            return subprocess.Popen(
                ["srun", *tasks, *how, "--cpu-bind=none", "--export=ALL", *program, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_apart,
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
        return self._files.root / "collected" / f"{self._plan.nodes[index].id}{self._told.get('suffix')}.json"


def main() -> None:
    """Moves the files of the node that this runs on."""
    files, plan = RunFiles(Path(sys.argv[1])), Plan.read(sys.argv[2])
    index = [node.id for node in plan.nodes].index(os.environ["SLURMD_NODENAME"])
    Collection(files, plan).collect_of(index, float(sys.argv[3]))


def _apart() -> None:
    """In the child, before srun: signals to this program's group are for this program; it dies with it."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)


def _file(files: RunFiles) -> Path:
    return files.root / "collection.json"


def _read(files: RunFiles) -> dict[str, str | int]:
    try:
        told: dict[str, str | int] = json.loads(_file(files).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return told
