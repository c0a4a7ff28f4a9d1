"""The snapshot of a project: the files that go along with `batchai run`, and what stays behind."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath

import pathspec

from batchai_magics.cell import ScriptFolder
from batchai_magics.cell.cell_script import nodes_of
from batchai_magics.cell.cell_uploads import (
    DOWNLOAD,
    MAX_EMPTY_FOLDERS,
    SECRET,
    empty_folders_note,
    is_excluded,
    why_left_out,
)
from batchai_magics.cell.launcher_line import SHELL_HINT
from batchai_magics.cell.notebook_script import SUFFIX, sent_notebook
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.jobs.git_process import GitProcess, git_folder, work_tree_of
from batchai_magics.models.file_names import text_of
from batchai_magics.models.secret_masking import is_secret_file
from batchai_magics.untrusted_files import NotRegularError, read_file, read_text

IGNORE_FILE = ".batchaiignore"  # in git's syntax
MAX_BYTES = 50 << 20
MAX_FILES = 5000
MAX_FILE_BYTES = 10 << 20  # of one file
_ENVIRONMENT_FILES = ("/pyvenv.cfg", "/conda-meta/history")  # in the folder of an environment
_MAX_LISTED = 2 * MAX_FILES  # paths; secrets and links that stay behind are among them
_LARGEST = 5  # files and folders that the error lists
_OF_THE_SYSTEM = ("/boot", "/dev", "/etc", "/proc", "/sys")
_MAX_SHEBANG = 300  # bytes of the first line of a script
_SHELL_SUFFIXES = (".bash", ".sh", ".zsh")
_DATA_SUFFIXES = (".json", ".yaml", ".yml")
_SHELL_SHEBANG = re.compile(rb"#![^\n]*\b(?:bash|dash|ksh|sh|zsh)\b")

# Why a path stays behind.
_OUTSIDE = "a link that leads outside"
_TO_NOTHING = "a link to what is not sent"
_LOOP = "a link to a folder that it is in"
_TOO_MANY = "too many links"
_LARGE = f"more than {MAX_FILE_BYTES >> 20} MiB"
_UNREADABLE = "cannot be read"
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_USERS_IGNORE_FILE = ("config", "--global", "--type=path", "--get", "core.excludesFile")
_TIMEOUT_S = 10.0


def read_script(path: Path, folder: Path, settings: Settings | None = None) -> ScriptFolder:
    """A script with the files of its project, without the homes of backends that the settings name.

    The project is `folder`, the working directory, or for a script elsewhere the folder that contains it.

    Raises:
        UsageError: It does not exist, the project cannot be sent, or is too large.
    """
    file = Path(os.path.abspath(folder / path.expanduser()))  # noqa: PTH100 links are kept
    if not file.is_file():
        near = (
            [entry.name for entry in file.parent.glob(f"*{file.suffix or '.py'}")]
            if file.parent.is_dir()
            else []
        )
        hint = did_you_mean(file.name, near) or f"Looked in {folder}."
        raise UsageError(f"{path}: no such file", hint=hint)
    _check_language(path, file)
    root = _project_of(file, folder.absolute())
    file = file if file.is_relative_to(root) else file.parent.resolve() / file.name
    name = text_of(file.relative_to(root).as_posix())
    contents = snapshot(root, _homes(settings) if settings else (), script=file)
    files = dict(contents.files)
    files.setdefault(name, file.read_bytes())  # also if an ignore file matches it
    if file.suffix == SUFFIX:
        files[name] = sent_notebook(files[name], str(path))
    left_out = {path: reason for path, reason in contents.left_out.items() if path != name}
    script = ScriptFolder(root, name, files, left_out, contents.notes, empty_folders=contents.empty_folders)
    missed: dict[str, str] = {}
    for mentioned in _mentioned(script.code, file.parent, root, {*files, *left_out, *contents.empty_folders}):
        folders = map(str, PurePosixPath(mentioned).parents)  # it is ignored, or lies in a folder left out
        reason = next((left_out[folder] for folder in folders if folder in left_out), "ignored")
        missed[mentioned] = f"{reason}, but the script mentions it"
    return replace(script, left_out={**left_out, **missed})


def _check_language(path: Path, file: Path) -> None:
    """Raises UsageError for a shell script, and for JSON and YAML, which Python may run without an error."""
    suffix = file.suffix.lower()
    if suffix in _DATA_SUFFIXES:
        hint = f"For a job.json: batchai run --spec {shlex.quote(str(path))}"
        raise UsageError(f"{path} is no script; a job runs Python", hint=hint)
    with file.open("rb") as opened:
        is_shell = suffix in _SHELL_SUFFIXES or _SHELL_SHEBANG.match(opened.read(_MAX_SHEBANG))
    if is_shell:
        raise UsageError(f"{path} is a shell script; a job runs Python", hint=SHELL_HINT)


def read_module(module: str, folder: Path, settings: Settings | None = None) -> ScriptFolder:
    """A module with the files of the working directory; it may also be installed, and then has no file there.

    Raises:
        UsageError: The package is there and has no such module, or the project is too large.
    """
    path = PurePosixPath(*module.split("."))
    candidates = [
        PurePosixPath(top, kind) for top in ("", "src") for kind in (f"{path}.py", path / "__main__.py")
    ]
    if name := next((candidate for candidate in candidates if (folder / candidate).is_file()), None):
        return replace(read_script(Path(name), folder, settings), module=module)
    if (folder / path.parts[0]).is_dir():
        near = [
            ".".join(file.relative_to(folder).with_suffix("").parts)
            for file in folder.glob(f"{path.parts[0]}/**/*.py")
        ]
        hint = did_you_mean(module, near) or f"Looked in {folder}."
        raise UsageError(f"-m {module}: no such module, nor a __main__.py in it", hint=hint)
    _check_project(folder.absolute(), folder / f"{module}.py")
    contents = snapshot(folder, _homes(settings) if settings else ())
    return ScriptFolder(
        folder,
        f"{module}.py",
        contents.files,
        contents.left_out,
        contents.notes,
        module=module,
        empty_folders=contents.empty_folders,
    )


def _project_of(file: Path, folder: Path) -> Path:
    """The folder that is sent with a script; raises UsageError for one that is no project."""
    _check_project(folder, file)
    if file.is_relative_to(folder):
        return folder
    if file.parent.resolve().is_relative_to(folder.resolve()):
        return folder.resolve()
    is_python = file.suffix in (".py", ".pyw", SUFFIX)
    if not is_python:
        with file.open("rb") as stream:
            first = stream.readline(_MAX_SHEBANG)
        is_python = first.startswith(b"#!") and b"python" in first
    if not is_python:
        text = f"{file} lies outside of the working directory, and is not a Python script"
        raise UsageError(text, hint="Arguments of the script come after --: batchai run train.py -- FILE")
    _check_project(file.parent, file)
    return file.parent


def _check_project(folder: Path, file: Path) -> None:
    """Raises UsageError for a folder that is no project; the hint says what to write."""
    if not (kind := _no_project(folder)):
        return
    parent = file.parent.resolve()
    project = next((path for path in (work_tree_of(parent), parent) if path and not _no_project(path)), None)
    if project:
        steps = f"cd {shlex.quote(str(project))}"
        name = (parent / file.name).relative_to(project).as_posix()
    else:
        steps, name = f"mkdir ~/train && cp {shlex.quote(str(file))} ~/train && cd ~/train", file.name
    text = f"{folder} is {kind}: `batchai run` sends the files of the working directory"
    raise UsageError(text, hint=f"Write: {steps} && batchai run {shlex.quote(name)}")


def _no_project(folder: Path) -> str:
    """Why a folder is no project: it belongs to the system, is the home folder or above it; else empty."""
    root, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 also without one
    if root == Path(root.anchor) or any(map(root.is_relative_to, _OF_THE_SYSTEM)):
        return "a folder of the system"
    if home == root:
        return "your home folder"
    return "above your home folder" if home.is_relative_to(root) else ""


def _homes(settings: Settings) -> list[Path]:
    """The folders that backends keep their state in."""
    homes = (getattr(section, "home", None) for section in settings.sections.values())
    return [Path(home).expanduser().resolve() for home in homes if home]


@dataclass(frozen=True)
class Snapshot:
    """The files of a project by their paths with `/`, and the paths that stay behind, with the reason.

    `empty_folders` contain no file at any depth: scripts write there.
    """

    files: Mapping[str, bytes] = field(repr=False)
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()
    empty_folders: tuple[str, ...] = ()


def snapshot(folder: Path, homes: Collection[Path] = (), *, script: Path | None = None) -> Snapshot:
    """Reads the files of a project, those behind links inside it too.

    In a git repository these are the files that git tracks or does not ignore. The homes of backends, caches,
    version control, virtual environments and what `.batchaiignore` matches are left out; so are secrets,
    large files, folders that a download has made, unless the script lies there, and what links outside lead
    to, which the result names.

    Raises:
        UsageError: The files exceed `MAX_BYTES` or `MAX_FILES`; the message lists the largest entries.
    """
    root = folder.resolve()
    lines: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        data = read_file(folder / IGNORE_FILE, may_be_link=True)
        lines = data.decode("utf-8", "replace").splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines(lines)
    unsent = _Unsent(root, ignored, frozenset(homes), script.parent.resolve() if script else root)
    listing = ProjectListing(frozenset()) if unsent.is_in_home(str(root)) else list_files(root, unsent)
    sent = unsent.without(listing.names)
    project = _Project(root, sent)
    project.walk("", ".", ())
    sizes = {text_of(name): size for name, (_, size) in project.files.items()}
    _check_size(folder, sizes, is_whole=not listing.is_cut)
    project.left_out |= unsent.downloads
    files = {}
    for name, (path, _) in sorted(project.files.items()):
        try:
            files[text_of(name)] = read_file(path, MAX_FILE_BYTES)
        except (OSError, ValueError):  # it was replaced, grows, or this user may not read it
            project.left_out[text_of(name)] = _UNREADABLE
    notes: list[str] = []
    if listing.problem:
        notes.append(f"{listing.problem}: what its ignore files list stays behind, even if it is tracked")
    unlisted = {name: path for name, path in project.unlisted.items() if not unsent.has_folder(str(path))}
    empty = sorted(folder for name, path in unlisted.items() for folder in _empty_folders(path, name))
    if len(empty) > MAX_EMPTY_FOLDERS:
        notes.append(empty_folders_note(len(empty)))
    return Snapshot(files, project.left_out, tuple(notes), tuple(map(text_of, empty[:MAX_EMPTY_FOLDERS])))


@dataclass(frozen=True)
class _Unsent:
    """What of a project never goes along: caches, ignored files, environments, homes, downloads."""

    root: Path
    ignored: pathspec.GitIgnoreSpec
    homes: Collection[Path]
    script_folder: Path  # goes along even if it is in a folder that was downloaded
    downloads: dict[str, str] = field(default_factory=dict)  # those found, with the reason

    # The methods take strings: pathlib would take most of the time in a project of many folders.

    def has_folder(self, path: str) -> bool:
        """Whether nothing of a folder goes along; then it is not even listed, however large it is."""
        if is_excluded(os.path.basename(path)) or self.is_in_home(path):  # noqa: PTH119 a string
            return True
        name = self._name_of(path)
        is_environment = any(os.path.lexists(f"{path}{file}") for file in _ENVIRONMENT_FILES)
        if is_environment or self._is_ignored(f"{name}/"):
            return True
        if not os.path.lexists(f"{path}/{DOWNLOAD}") or self.script_folder.is_relative_to(path):
            return False
        self.downloads[text_of(name)] = "downloaded from a job"
        return True

    def is_in_home(self, path: str) -> bool:
        """Whether a folder is the home of a backend, or lies in one."""
        return any(f"{path}{os.sep}".startswith(f"{home}{os.sep}") for home in self.homes)

    def has_file(self, path: str) -> bool:
        """Whether a file does not go along, given that its folder does."""
        return is_excluded(os.path.basename(path)) or self._is_ignored(self._name_of(path))  # noqa: PTH119 a string

    def _name_of(self, path: str) -> str:
        """The path in the project, with `/`."""
        return path.removeprefix(str(self.root)).lstrip(os.sep).replace(os.sep, "/")  # the root may be `/`

    def _is_ignored(self, name: str) -> bool:
        return self.ignored.match_file(text_of(name))

    def without(self, names: Collection[str]) -> list[str]:
        """The paths that go along; git lists more than those."""
        open_folders = {"": True}
        return [
            name
            for name in names
            if self._is_open(name.rpartition("/")[0], open_folders)
            and not self.has_file(str(self.root / name))
        ]

    def _is_open(self, folder: str, known: dict[str, bool]) -> bool:
        if folder not in known:
            above = self._is_open(folder.rpartition("/")[0], known)
            known[folder] = above and not self.has_folder(str(self.root / folder))
        return known[folder]


class _Project:
    """Collects the files of a project: a link has the files that it leads to.

    Attributes:
        files: The files by the path in the project, each with its real path and its size.
        left_out: The paths that stay behind, with the reason.
        unlisted: The folders of which no file is listed, by the path in the project.
    """

    def __init__(self, root: Path, names: Collection[str]) -> None:
        self._root = root
        self._names = frozenset(names)
        self._folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
        self._followed = 0
        self.files: dict[str, tuple[Path, int]] = {}
        self.left_out: dict[str, str] = {}
        self.unlisted: dict[str, Path] = {}

    def walk(self, name: str, real: str, above: tuple[str, ...]) -> None:
        """Collects the files of a folder.

        Args:
            name: Its path as the script sees it.
            real: Its path without links.
            above: The real paths of the folders that it was reached through.
        """
        if real not in self._folders or real in above:
            return
        try:
            with os.scandir(self._root / real) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:  # it was removed after it was listed
            return
        for entry in children:
            child = f"{name}/{entry.name}".lstrip("/")
            inner = PurePosixPath(real, entry.name).as_posix()
            target = self._target(child, inner, above=(*above, real)) if entry.is_symlink() else inner
            if target in self._folders and _is_open_folder(self._root / target):
                self.walk(child, target, (*above, real))
            elif target in self._names:
                self._take(child, target)
            elif entry.is_dir(follow_symlinks=False):
                self.unlisted[child] = self._root / inner

    def _target(self, name: str, real: str, *, above: tuple[str, ...]) -> str:
        """The path in the project that a link leads to; empty if it stays behind."""
        if real not in self._names:
            return ""
        try:
            path = (self._root / real).resolve()
        except (OSError, RuntimeError):  # links that lead to each other
            self.left_out[text_of(name)] = _LOOP
            return ""
        self._followed += 1
        if not path.is_relative_to(self._root):
            self.left_out[text_of(name)] = _OUTSIDE
            return ""
        target = path.relative_to(self._root).as_posix()
        if target in above:
            self.left_out[text_of(name)] = _LOOP
        elif self._followed > MAX_FILES:
            self.left_out[text_of(name)] = _TOO_MANY
        elif target not in self._folders and target not in self._names:
            self.left_out[text_of(name)] = SECRET if is_secret_file(target) else _TO_NOTHING
        else:
            return target
        return ""

    def _take(self, name: str, real: str) -> None:
        """Adds a regular file, unless it stays behind."""
        path = self._root / real
        try:
            status = path.lstat()
        except FileNotFoundError:  # git also lists deleted files
            return
        if not stat.S_ISREG(status.st_mode):
            return
        size = status.st_size
        if reason := why_left_out(name) or why_left_out(real):
            self.left_out[text_of(name)] = reason
        elif size > MAX_FILE_BYTES:
            self.left_out[text_of(name)] = _LARGE
        else:
            self.files[name] = path, size


def _empty_folders(path: Path, name: str) -> list[str]:
    """The deepest folders in a folder, or itself; none if there is a file in any of them."""
    deepest, unread = list[str](), [(str(path), name)]
    while unread:
        folder, folder_name = unread.pop()
        subfolders: list[tuple[str, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        return []  # at once: an ignored folder may have millions of files
                    subfolders.append((entry.path, f"{folder_name}/{entry.name}"))
        except OSError:  # it is gone, or not for this user
            return []
        deepest += [] if subfolders else [folder_name]
        unread += subfolders
    return deepest


def _is_open_folder(path: Path) -> bool:
    """Whether it is a folder, also if git tracks files below it, and this user may list it."""
    return path.is_dir() and os.access(path, os.R_OK | os.X_OK)


def _mentioned(script: str, script_folder: Path, root: Path, known: Collection[str]) -> Iterator[str]:
    """The files and folders below `root` that a script's texts and imports name, and that are not known.

    `script_folder` is the folder of the script.
    """
    folders = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}
    for text in dict.fromkeys(text for text in _paths_in(script) if not text.startswith("/")):
        for base in dict.fromkeys((root, script_folder)):
            path = Path(os.path.abspath(base / text))  # noqa: PTH100 links are kept
            if not path.is_relative_to(root) or path == root or not os.path.exists(path):  # noqa: PTH110 any text
                continue
            name = text_of(path.relative_to(root).as_posix())
            if name not in known and name not in folders and not _is_never_sent(path, root):
                yield name


def _paths_in(script: str) -> Iterator[str]:
    """What may be the path of a file in the text of a script."""
    for node in nodes_of(script):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Import):
            yield from (f"{alias.name.replace('.', '/')}.py" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield f"{node.module.replace('.', '/')}.py"


def _is_never_sent(path: Path, root: Path) -> bool:
    """Whether it is of no use to a script, such as a cache or an empty folder."""
    if is_excluded(path.relative_to(root).as_posix()):
        return True
    names = [entry.name for entry in path.iterdir()] if _is_open_folder(path) else [path.name]
    return not names or "pyvenv.cfg" in names


def _check_size(folder: Path, sizes: Mapping[str, int], *, is_whole: bool) -> None:
    total = sum(sizes.values())
    if is_whole and total <= MAX_BYTES and len(sizes) <= MAX_FILES:
        return
    entries: dict[str, int] = {}
    for name, size in sizes.items():
        top, slash, _ = name.partition("/")
        entries[top + slash] = entries.get(top + slash, 0) + size
    largest = sorted(entries.items(), key=lambda item: -item[1])[:_LARGEST]
    listed = ", ".join(f"{name} ({size / (1 << 20):.1f} MiB)" for name, size in largest)
    has = (
        f"{len(sizes)} files with {total / (1 << 20):.1f} MiB"
        if is_whole
        else f"more than {_MAX_LISTED} files"
    )
    text = (
        f"{folder} has {has}; at most {MAX_FILES} files with {MAX_BYTES >> 20} MiB can be sent along."
        f" The largest{'' if is_whole else ' of those found'}: {listed}"
    )
    hint = (
        f"List what the script does not need in {IGNORE_FILE}, or give it a folder of its own;"
        " put data on a share: --mount."
    )
    raise UsageError(text, hint=hint)


@dataclass(frozen=True)
class ProjectListing:
    """The paths of files and links, with `/`.

    `problem` says why git did not list those of a repository; `is_cut`: there are more than can be sent.
    """

    names: frozenset[str]
    problem: str = ""
    is_cut: bool = False


def list_files(root: Path, unsent: _Unsent) -> ProjectListing:
    """Lists the files below a folder, without what git ignores if it is in a repository.

    Outside a repository the list is cut once it is too long to be sent.

    Where git refuses the repository or fails, its ignore files are applied without it: nothing of what they
    list goes along, even if it is tracked.
    """
    top = work_tree_of(root)
    if top is None:
        return _listing(_walk(str(root), "", None, unsent))
    output = GitProcess(root, _LIST).output(_TIMEOUT_S)
    if output.problem:
        return _listing(_walk(str(root), "", tuple(_rules_above(root, top)), unsent), output.problem)
    names: set[str] = set()
    problem, is_cut = "", False
    for name in filter(None, os.fsdecode(output.data).split("\0")):
        inner = root / name
        if inner.is_dir() and not inner.is_symlink():  # a submodule, or another repository
            is_repository = os.path.lexists(inner / ".git") and not unsent.has_folder(str(inner))
            listing = list_files(inner, unsent) if is_repository else ProjectListing(frozenset())
            names |= {f"{name.rstrip('/')}/{path}" for path in listing.names}
            problem, is_cut = problem or listing.problem, is_cut or listing.is_cut
        else:
            names.add(name)
    return ProjectListing(frozenset(names), problem, is_cut)


def _listing(names: Iterator[str], problem: str = "") -> ProjectListing:
    listed = frozenset(islice(names, _MAX_LISTED))
    return ProjectListing(listed, problem, is_cut=len(listed) == _MAX_LISTED)


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
    """The rules that apply to a folder of a work tree from outside it, from the weakest to the strongest."""
    output = GitProcess(Path("/"), _USERS_IGNORE_FILE).output(_TIMEOUT_S)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 also without a home
    default = Path(config, "git/ignore")
    users = Path(os.fsdecode(output.data).rstrip("\n")) if output.data else default
    yield from _Rules.read(users.resolve(), top)
    with contextlib.suppress(OSError, ValueError):  # `.git` is damaged
        yield from _Rules.read(git_folder(top) / "info/exclude", top)
    for folder in reversed([parent for parent in root.parents if parent.is_relative_to(top)]):
        yield from _Rules.read(folder / ".gitignore", folder)


def _walk(folder: str, prefix: str, rules: Sequence[_Rules] | None, unsent: _Unsent) -> Iterator[str]:
    """Yields the paths of files and links, which are not followed; without rules outside a repository."""
    all_rules = None if rules is None else (*rules, *_Rules.read(Path(folder, ".gitignore"), Path(folder)))
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # it is gone, or not readable
        return
    for entry in entries:
        path, name, is_folder = entry.path, f"{prefix}{entry.name}", entry.is_dir(follow_symlinks=False)
        is_unsent = unsent.has_folder(path) if is_folder else unsent.has_file(path)
        if is_unsent or _is_ignored(path, all_rules or (), is_folder=is_folder):
            continue
        if not is_folder:
            yield name
        elif os.path.lexists(f"{path}/.git"):
            yield from (f"{name}/{inner}" for inner in list_files(Path(path), unsent).names)
        else:
            yield from _walk(path, f"{name}/", all_rules, unsent)


def _is_ignored(path: str, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether the last pattern that matches excludes it; patterns of deeper folders come last."""
    for rule in reversed(rules):
        name = Path(path).relative_to(rule.base).as_posix() + "/" * is_folder
        included = rule.patterns.check_file(name).include
        if included is not None:
            return included
    return False
