"""The one place that runs `git`: it only reads, and runs no program that a repository names.

A repository's configuration may name programs: a file system monitor, hooks, filters, a pager, an external
diff, a transport. None of them runs. Of submodules, git reads only which commit is checked out.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from batchai_magics.untrusted_files import read_text

_WITHOUT_PROGRAMS = (
    *("--no-pager", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.pager=cat", "-c", "protocol.allow=never"),
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",  # reading does not write the index
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_OF_ANOTHER_REPOSITORY = (  # which the environment names, as in a hook
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_EXTERNAL_DIFF"),
)
_SETTINGS = ("config", "-z", "--get-regexp", r"^(filter\.|remote\.origin\.url$)")
_BLOCK = 1 << 16
_MAX_PROBLEM = 300  # characters
_SETTINGS_TIMEOUT_S = 2.0
_MAX_SETTINGS = 1 << 20  # bytes; a filter behind them would stay on
_CLOSING_S = 5.0


@dataclass(frozen=True)
class GitOutput:
    """The output of `git`; `problem` explains why there is none: it is missing, failed, or was too slow."""

    data: bytes = b""
    problem: str = ""


class GitProcess:
    """A `git` process, started in a folder; `output` waits for it."""

    def __init__(self, folder: Path, words: Sequence[str], options: Sequence[str] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed by `output`
        self._child: subprocess.Popen[bytes] | None = None
        program = shutil.which("git") or ""
        if not os.path.isabs(program):  # noqa: PTH117 one of the folder itself does not run
            return
        environment = {
            name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY
        }
        with contextlib.suppress(OSError):  # the folder is gone, or may not be entered
            self._child = subprocess.Popen(
                [program, *_WITHOUT_PROGRAMS, *options, *words],
                cwd=folder,
                env={**environment, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )

    def output(
        self, timeout_s: float, *, accepted: Collection[int] = (0,), most: int = 64 << 20
    ) -> GitOutput:
        """The output of the process, at most its first bytes; kills a process that does not end in time.

        Args:
            timeout_s: How long it may take from now on.
            accepted: The exit codes of a success.
            most: The number of bytes after which the rest is not read.
        """
        if self._child is None or self._child.stdout is None:
            self._errors.close()
            return GitOutput(problem="git cannot be started here")
        with self._errors, self._child as child:
            blocks: list[bytes] = []
            reader = threading.Thread(target=_read, args=(child.stdout, most, blocks), daemon=True)
            reader.start()
            reader.join(max(0.0, timeout_s))
            if timeout_s <= 0 or reader.is_alive():
                child.kill()
                reader.join(_CLOSING_S)  # before the pipe is closed
                return GitOutput(problem="git did not answer in time")
            output = b"".join(blocks)
            if len(output) > most:
                child.kill()
                return GitOutput(output)
            if child.wait() in accepted:
                return GitOutput(output)
            self._errors.seek(0)
            message = self._errors.read(_BLOCK).decode("utf-8", "replace").strip().partition("\n")[0]
            return GitOutput(problem=f"git failed: {message.removeprefix('fatal: ')[:_MAX_PROBLEM]}")

    def kill(self) -> None:
        """Ends the process; a waiting call of `output` returns a problem."""
        if self._child:
            self._child.kill()


def _read(stream: IO[bytes], most: int, blocks: list[bytes]) -> None:
    """Reads to the end, or past `most` bytes; runs in a thread, since pipes have no timeout on Windows."""
    size = 0
    while size <= most and (block := os.read(stream.fileno(), _BLOCK)):
        blocks.append(block)
        size += len(block)


@dataclass(frozen=True)
class RepositorySettings:
    """The settings in a repository's configuration."""

    without_filters: tuple[str, ...] = ()  # options that switch off its filters, to compare contents
    remote: str = ""  # the URL of `origin`, perhaps with credentials; empty without one
    problem: str = ""  # why these options are unknown, or do not suffice

    @classmethod
    def read(cls, folder: Path) -> RepositorySettings:
        """Reads the settings of the repository that a folder is in."""
        process = GitProcess(folder, _SETTINGS)
        output = process.output(_SETTINGS_TIMEOUT_S, accepted=(0, 1), most=_MAX_SETTINGS)
        if output.problem:
            return cls(problem=output.problem)
        remote, options = "", list[str]()
        is_possible = len(output.data) <= _MAX_SETTINGS
        for setting in filter(None, os.fsdecode(output.data).split("\0")):
            name, _, value = setting.partition("\n")
            name, _, key = name.rpartition(".")
            if not name.startswith("filter"):
                remote = remote or value
                continue
            is_possible = is_possible and "=" not in name  # or `-c` cannot name it
            options += ("-c", f"{name}.{key}={'false' * (key == 'required')}")
        problem = "" if is_possible else "git failed: the filters of the repository cannot be switched off"
        return cls(tuple(options), remote, problem)


def work_tree_of(folder: Path) -> Path | None:
    """The working tree that a folder is in, whether or not git accepts it."""
    folder = folder.absolute()
    return next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent / ".git")), None)


def git_folder(work_tree: Path) -> Path:
    """The folder with the configuration: a linked working tree has a file in its place.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not text, or too large.
    """
    dot_git = work_tree / ".git"
    if not dot_git.is_file():
        return dot_git
    worktree_folder = work_tree / read_text(dot_git).removeprefix("gitdir:").strip()
    common = worktree_folder / "commondir"
    return worktree_folder / read_text(common).strip() if common.is_file() else worktree_folder
