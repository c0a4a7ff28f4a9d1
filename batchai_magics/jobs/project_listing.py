"""Lists the files of a project: those that git tracks or does not ignore, each submodule's by itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pathspec

from batchai_magics.cell.cell_uploads import is_excluded
from batchai_magics.jobs.git_process import GitProcess, git_folder, work_tree_of
from batchai_magics.untrusted_files import NotRegularError, read_text

_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_USERS_IGNORE_FILE = ("config", "--global", "--type=path", "--get", "core.excludesFile")
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ProjectListing:
    """The paths of files and links, with `/`; `problem` says why git did not list those of a repository."""

    names: frozenset[str]
    problem: str = ""


def list_files(root: Path) -> ProjectListing:
    """Lists the files below a folder, without what git ignores if it is in a repository.

    Where git refuses the repository or fails, its ignore files are applied without it: nothing of what they
    list goes along, even if it is tracked.
    """
    top = work_tree_of(root)
    if top is None:
        return ProjectListing(frozenset(_walk(root, "", None)))
    found = GitProcess(root, _LIST).output(_TIMEOUT_S)
    if found.problem:
        return ProjectListing(frozenset(_walk(root, "", tuple(_rules_above(root, top)))), found.problem)
    names: set[str] = set()
    problem = ""
    for name in filter(None, os.fsdecode(found.data).split("\0")):
        inner = root / name
        if inner.is_dir() and not inner.is_symlink():  # a submodule, or another repository
            listing = list_files(inner) if os.path.lexists(inner / ".git") else ProjectListing(frozenset())
            names |= {f"{name.rstrip('/')}/{each}" for each in listing.names}
            problem = problem or listing.problem
        else:
            names.add(name)
    return ProjectListing(frozenset(names), problem)


@dataclass(frozen=True)
class _Rules:
    """The patterns of an ignore file, and the folder that they are relative to."""

    base: Path
    patterns: pathspec.GitIgnoreSpec

    @classmethod
    def read(cls, file: Path, base: Path) -> Iterator[_Rules]:
        """The rules of a file, if there is one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, NotRegularError):
            lines = read_text(file, errors="replace").splitlines()
            yield cls(base, pathspec.GitIgnoreSpec.from_lines(lines))


def _rules_above(root: Path, top: Path) -> Iterator[_Rules]:
    """What applies to a folder of a work tree from outside of it, from the weakest to the strongest."""
    own = GitProcess(Path("/"), _USERS_IGNORE_FILE).output(_TIMEOUT_S)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 also without a home
    default = Path(config, "git/ignore")
    users = Path(os.fsdecode(own.data).rstrip("\n")) if own.data else default
    yield from _Rules.read(users.resolve(), top)
    with contextlib.suppress(OSError, ValueError):  # `.git` is damaged
        yield from _Rules.read(git_folder(top) / "info/exclude", top)
    for folder in reversed([each for each in root.parents if each.is_relative_to(top)]):
        yield from _Rules.read(folder / ".gitignore", folder)


def _walk(folder: Path, prefix: str, rules: Sequence[_Rules] | None) -> Iterator[str]:
    """Yields the paths of files and links, which are not followed; without rules outside a repository."""
    here = None if rules is None else (*rules, *_Rules.read(folder / ".gitignore", folder))
    try:
        entries = list(os.scandir(folder))
    except PermissionError:  # such as a container's data; the script cannot read it either
        return
    for entry in entries:
        path, name, is_folder = Path(entry.path), f"{prefix}{entry.name}", entry.is_dir(follow_symlinks=False)
        if is_excluded(entry.name) or _is_ignored(path, here or (), is_folder=is_folder):
            continue
        if not is_folder:
            yield name
        elif os.path.lexists(path / ".git"):
            yield from (f"{name}/{each}" for each in list_files(path).names)
        else:
            yield from _walk(path, f"{name}/", here)


def _is_ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether the last pattern that matches excludes it; those of deeper folders come last."""
    for rule in reversed(rules):
        name = path.relative_to(rule.base).as_posix() + "/" * is_folder
        included = rule.patterns.check_file(name).include
        if included is not None:
            return included
    return False
