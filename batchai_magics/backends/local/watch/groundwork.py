"""What has to be there before a job's processes: its private image, its own mounts, its directories."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from batchai_magics.backends.local import registry
from batchai_magics.backends.local.folders import unmanaged
from batchai_magics.backends.local.folders.layout import JobLayout
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.outcome import Outcome, failed_with

PREPARATION_FAILED = "JobPreparationFailed"
CONTAINER_FAILED = "FailedStartingContainer"  # the service's code for an image that could not be had


@dataclass(frozen=True)
class Tool:
    """A program to run; `problem` says from its exit code and its words why it did not do its work."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    code: str
    problem: Callable[[int, str], str]
    details: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, exit_code: int, words: str) -> Outcome | None:
        """The job's end when the program failed."""
        told = self.problem(exit_code, words)
        return failed_with(self.code, told, **self.details) if told else None


def tools(plan: dict[str, Any], job: JobLayout, *, password: str) -> Generator[Tool]:
    """The programs that the job needs run, each to be ended before the next; close it if not all are."""
    pull = plan["pull"]
    if pull:
        image = pull["image"]
        with registry.signed_in(job.registry, image, username=pull["username"], password=password) as env:
            argv = [*plan["engine"], "pull", image]
            yield Tool(argv, env, CONTAINER_FAILED, partial(_pull_problem, image), {"imageName": image})
    for item in plan["mounts"]:
        place = job.mounts / item["path"]
        if unmanaged.is_mounted(place):  # by a run of this job that was cut off
            continue
        place.mkdir(parents=True, exist_ok=True)
        env = {"AZ_BATCHAI_JOB_MOUNT_ROOT": str(job.mounts), process.MARK: unmanaged.mark(plan["guid"])}
        line = unmanaged.mount_line(item["command"], place)
        yield Tool(line, env, PREPARATION_FAILED, partial(unmanaged.problem, place))


def _pull_problem(image: str, code: int, words: str) -> str:
    said = words.strip().rpartition("\n")[2]
    return f"The image {image} could not be pulled: {said or f'exit code {code}'}" if code else ""


def directories(plan: dict[str, Any]) -> Outcome | None:
    """Makes the directories that are to be made; the job's end when one cannot be, or is not there."""
    for node in plan["nodes"]:
        for item in node["directories"]:
            told = _directory_problem(Path(node["cwd"], item["path"]), item)
            if told:
                return failed_with(PREPARATION_FAILED, told)
    return None


def _directory_problem(place: Path, item: Mapping[str, str]) -> str:
    named = f"The directory {place} (${item['variable']})"
    if item["need"] == "find":
        return "" if place.is_dir() else f"{named} is not there, and createNew is false"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{named} cannot be made: {error.strerror}"
    return ""
