"""Prepares a node of a job, once: links, folders, modules, the job preparation."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node import requirements
from batchai_magics.backends.node.job_environment import JOB_MODULES
from batchai_magics.backends.node.outcome import preparation_outcome
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan

POLL_S = 0.1  # how often the other processes of a node check whether it is done
_FILES = "batchai/files"  # the uploaded files, in the code
_MOUNTS = "batchai/mounts"
_FOLDERS = ("batchai/shared", "batchai/checkpoints", "batchai/modules", "outputs/batchai/artifacts")
SHARE_OUTPUT = "batchai"  # the output that stands for the default share


class SetupBarrier(NamedTuple):
    """The setup of a node, for which all of its processes wait."""

    folder: Path  # the folder in which the service starts processes
    share: str  # where the default share is mounted, below the mount root
    # the path of each other mount below the mount root, with the name of its output
    mounts: Mapping[str, str]
    paths: Mapping[str, str]  # the paths of the service's inputs and outputs: `in:ID`, `out:ID`

    def run_once(self, prepare: Callable[[], Outcome | None]) -> Outcome | None:
        """Runs `prepare` in the first process of this node; the others wait for its result."""
        lock, result = self.folder / "batchai/setup.lock", self.folder / "batchai/setup.json"
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            while not result.exists():
                time.sleep(POLL_S)
            return Outcome.from_json(result.read_text(encoding="utf-8"))
        failure = prepare()
        part = result.with_suffix(".part")
        part.write_text(failure.to_json() if failure else "", encoding="utf-8")
        part.replace(result)
        return failure

    def make_folders(self, plan: Plan) -> None:
        """Creates the folders of the plan, the mounts, and the modules that scripts may import."""
        planned = (plan.nodes[0].folder, plan.exits, plan.telemetry, plan.machines)
        for path in (*map(Path, planned), Path(plan.output.stdout.path).parent):
            path.mkdir(parents=True, exist_ok=True)
        for name in _FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        _link(self.folder / "outputs/batchai/records", self.folder / "logs/batchai/records")
        for name, source in JOB_MODULES.items():
            shutil.copyfile(source, self.folder / "batchai/modules" / name)
        share = self.folder / _MOUNTS / self.share
        share.mkdir(parents=True, exist_ok=True)
        for mount, name in self.mounts.items():
            _link(self.folder / _MOUNTS / mount, Path(self.paths[f"out:{name}"]))
        files = self.folder / _FILES
        if files.is_dir() and share.is_dir() and not share.is_symlink():
            for entry in files.iterdir():
                _link(share / entry.name, entry)
        # Output directories below the default share are in the output that stands for it.
        node = plan.nodes[0]
        share, outputs = self.folder / _MOUNTS / self.share, self.paths.get(f"out:{SHARE_OUTPUT}")
        for directory in node.directories if outputs else ():
            prefix, is_own, _ = directory.path.partition(f"/{plan.guid}/outputs")
            if is_own and f"{prefix}/".startswith(f"{share}/"):
                relative = prefix[len(str(share)) :].strip("/")
                target = Path(str(outputs), relative)
                target.mkdir(parents=True, exist_ok=True)
                _link(share / relative / plan.guid, target)

    def directories(self, plan: Plan) -> Outcome | None:
        """Creates the job's directories, except for mounted inputs; returns the outcome of a failure."""
        mounted = {f"AZ_BATCHAI_INPUT_{name[3:]}" for name in self.paths if name.startswith("in:")}
        node = plan.nodes[0]  # all nodes have the same directories
        to_create = tuple(directory for directory in node.directories if directory.variable not in mounted)
        return requirements.directories(plan._replace(nodes=(node._replace(directories=to_create),)))

    def prepare(self, plan: Plan, node: int, env: Mapping[str, str]) -> Outcome | None:
        """Runs the job preparation of a node, with logs of its own."""
        process = plan.processes[node]
        output = plan.output_of(process)
        Path(output.stdout.path).parent.mkdir(parents=True, exist_ok=True)
        with open(output.stdout.path, "ab") as stdout, open(output.stderr.path, "ab") as stderr:  # noqa: PTH123 texts of the plan
            done = subprocess.run(
                ["/bin/bash", "-c", process.command],
                cwd=plan.node_of(process).folder,
                env={**env},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                check=False,
            )
        return preparation_outcome([done.returncode])


def write_log_file(folder: Path, name: str, text: str) -> None:
    """Writes a file of the run's logs, atomically: the service uploads files as they appear."""
    file, part = folder / "logs/batchai" / name, folder / f"batchai/{os.getpid()}.part"
    file.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def write_records(folder: Path, records: Mapping[str, str]) -> None:
    """Writes the record files of the submission, which the first process of a job does."""
    for name, text in records.items():
        file = folder / "logs/batchai/records" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _link(path: Path, target: Path) -> None:
    """Creates a link unless the path exists; replaces an empty folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
    if not path.exists():
        path.symlink_to(target)
