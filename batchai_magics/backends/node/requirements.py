"""What a job needs before its processes start: its private image, its mounts, its directories."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.backends.node import mount_commands
from batchai_magics.backends.node.outcome import Outcome, failed_with
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.launch.plan import Directory, Plan, Requirement

PREPARATION_FAILED = "JobPreparationFailed"
CONTAINER_FAILED = "FailedStartingContainer"  # the service's code for an image that could not be pulled


class Tool(NamedTuple):
    """A program to run; `problem` explains its failure from its exit code and output, or returns ""."""

    argv: Sequence[str]
    env: Mapping[str, str]
    code: str
    problem: Callable[[int, str], str]
    details: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"Tool({self.argv!r})"  # the environment may contain secrets

    def outcome(self, exit_code: int, words: str) -> Outcome | None:
        """The job's outcome if the program failed."""
        problem = self.problem(exit_code, words)
        return failed_with(self.code, problem, **self.details) if problem else None


def tools(plan: Plan, *, sign_in: Path, mounts: Path, password: str) -> Generator[Tool]:
    """The programs that the job needs, each to be run to its end before the next.

    Close the generator if not all of them are run. `sign_in` is a folder for registry credentials, `mounts`
    the job's mount root.
    """
    image, engine, _ = plan.containers
    if image and image.username and engine:
        from batchai_magics.backends.node import image_registry  # few jobs need it

        name = image_registry.image_name(image.server, image.name)
        with image_registry.signed_in(sign_in, name, username=image.username, password=password) as env:
            argv = [*engine, "pull", name]
            yield Tool(argv, env, CONTAINER_FAILED, partial(_pull_problem, name), {"imageName": name})
    for mount in plan.mounts:
        path = mounts / mount.path
        if mount_commands.is_mounted(path):  # by an earlier run of this job that was interrupted
            continue
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        env = {"AZ_BATCHAI_JOB_MOUNT_ROOT": str(mounts), MARK: mount_commands.mark(plan.guid)}
        line = mount_commands.mount_line(mount.command, path)
        yield Tool(line, env, PREPARATION_FAILED, partial(mount_commands.problem, path))


def _pull_problem(image: str, code: int, words: str) -> str:
    last_line = words.strip().rpartition("\n")[2]
    return f"The image {image} could not be pulled: {last_line or f'exit code {code}'}" if code else ""


def directories(plan: Plan) -> Outcome | None:
    """Creates the job's directories; returns the job's outcome if one is missing or cannot be created."""
    for node in plan.nodes:
        for directory in node.directories:
            problem = _directory_problem(Path(node.folder, directory.path), directory)
            if problem:
                return failed_with(PREPARATION_FAILED, problem)
    return None


def _directory_problem(path: Path, directory: Directory) -> str:
    named = f"The directory {path} (${directory.variable})"
    if directory.need is Requirement.EXIST:
        return "" if path.is_dir() else f"{named} is not there, and createNew is false"
    if directory.need is Requirement.CREATE:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{named} cannot be made: {error.strerror}"
    return ""
