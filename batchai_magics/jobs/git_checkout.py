"""The git state of a folder, from two `git` processes that run while the submitter does something else."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from batchai_magics.records.submission import MAX_DIFF, GitState, cut

TIMEOUT_S = 2.0  # for both processes, from their start; a submission never waits longer
MAX_OUTPUT = 4 * MAX_DIFF  # bytes
MAX_UNTRACKED = 100
_NO_COMMIT = 128  # exit status of `git diff HEAD` before the first commit
_READ_ONLY = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "-z")
_DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
_LOGIN = re.compile(r"(?<=://)[^/@]*@")


class GitCheckout:
    """The processes that report the git state of a folder; none outside a repository."""

    def __init__(self, folder: Path) -> None:
        self._root = _root_of(folder)
        self._deadline = time.monotonic() + TIMEOUT_S
        self._children = [_started(self._root, words) for words in (_STATUS, _DIFF)] if self._root else []

    def state(self) -> GitState | None:
        """The state as of the start; None outside a repository. Blocks until `git` is done or times out."""
        if self._root is None:
            return None
        accepted = ((0,), (0, _NO_COMMIT))
        outputs = [self._output(*each) for each in zip(self._children, accepted, strict=True)]
        if None in outputs:
            return GitState(remote=remote_of(self._root), problem="git did not say it in time, or failed")
        status, diff = (output.decode("utf-8", "replace") for output in outputs if output is not None)
        return with_status(GitState(remote=remote_of(self._root)), status, diff)

    def _output(self, child: subprocess.Popen[bytes] | None, accepted: Collection[int]) -> bytes | None:
        """The first bytes that a process prints; None if it failed, or is not done in time."""
        if child is None or child.stdout is None:
            return None
        output, stream = b"", child.stdout
        with child:
            while len(output) <= MAX_OUTPUT:
                left_s = self._deadline - time.monotonic()
                if left_s <= 0 or not select.select([stream], [], [], left_s)[0]:
                    child.kill()
                    return None
                if not (block := os.read(stream.fileno(), 1 << 16)):
                    break
                output += block
            else:
                child.kill()
                return output
        return output if child.returncode in accepted else None


def with_status(state: GitState, status: str, diff: str) -> GitState:
    """The state with what `git status --porcelain=v2 --branch -z` and `git diff` have printed."""
    words = [line.split(" ", 2) for line in status.split("\0") if line.startswith("# branch.")]
    head = {word[1]: word[2] for word in words if len(word) > 2}
    untracked = [line[2:] for line in status.split("\0") if line.startswith("? ")]
    text, is_cut = cut(diff, MAX_DIFF)
    return state._replace(
        commit=head.get("branch.oid", "").replace("(initial)", ""),
        branch=head.get("branch.head", "").replace("(detached)", ""),
        diff=text,
        is_diff_cut=is_cut,
        untracked=tuple(untracked[:MAX_UNTRACKED]),
    )


def remote_of(root: Path) -> str:
    """The URL of the remote `origin` without credentials; empty without one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        section = ""
        for line in (_git_folder(root) / "config").read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text.startswith("["):
                section = text
            elif section == '[remote "origin"]' and text.partition("=")[0].strip() == "url":
                return _LOGIN.sub("", text.partition("=")[2].strip())
    return ""


def _git_folder(root: Path) -> Path:
    """The folder with the configuration: a linked working tree has a file in its place."""
    place = root / ".git"
    if place.is_dir():
        return place
    own = root / place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    common = own / "commondir"
    return own / common.read_text(encoding="utf-8").strip() if common.exists() else own


def _root_of(folder: Path) -> Path | None:
    """The working tree that a folder is in."""
    folder = folder.absolute()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _started(root: Path, words: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
    """A `git` process; None if there is no git."""
    try:
        return subprocess.Popen(
            ["git", "-c", "core.fsmonitor=false", *words],
            cwd=root,
            env={**os.environ, **_READ_ONLY},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
