"""`--upload`: uploads files, folders and glob patterns beside the script.

Files keep their path relative to the notebook's folder, so that packages stay importable: `import a.models`
finds `a/models.py`. Files from elsewhere keep only their name.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from batchai_magics.errors import UsageError
from batchai_magics.models.file_names import text_of
from batchai_magics.models.secret_masking import is_secret_file

DOWNLOAD = ".batchai-download"  # in a folder that a download has made

# Caches and metadata, not uploaded unless named explicitly.
EXCLUDED = (
    *("__pycache__", "*.pyc", ".git", ".hg", ".svn", ".ipynb_checkpoints", ".venv", ".DS_Store"),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache", DOWNLOAD),
)
MAX_BYTES = 256 << 20  # of all files together, which the kernel holds in memory until uploaded
MAX_FILES = 5000
MAX_EMPTY_FOLDERS = 100  # made in the working directory
_ON_SHARE = "put large data on a share with `%az storage file upload-batch`, and read it there with --mount"


@dataclass(frozen=True)
class _UploadItem:
    """A file or folder named by `--upload`, and its path beside the script.

    Paths are strings: for thousands of small files, `pathlib` would take longer than the system calls.
    """

    word: str  # as it was written
    source: str
    target: str  # with `/`; empty for the notebook's folder itself
    real: Path | None = None  # what a link leads to; None for anything else
    is_named: bool = False  # by the word itself; not found in a folder, or by a pattern
    is_empty_folder: bool = False


@dataclass(frozen=True)
class Uploads:
    """The content of the files to upload by target path, and messages about what is renamed or left out.

    `empty_folders` are the targets of folders without any entry: scripts write there.
    """

    files: Mapping[str, bytes] = field(repr=False)
    notes: tuple[str, ...] = ()
    empty_folders: tuple[str, ...] = ()


def read_uploads(words: Sequence[str], folder: Path) -> Uploads:
    """Reads all files to upload; raises UsageError that names what it rejects."""
    if not words:
        return Uploads({})
    root = _absolute("", folder)
    named = [item for word in words for item in _items_of(word, root)]
    chosen = _chosen_files(named, root)
    empty = sorted(chosen.empty_folders)
    renamed = {item.word: item.target for item in named if not Path(item.source).is_relative_to(root)}
    notes = [f"--upload {word}: it is {target} for the script" for word, target in renamed.items() if target]
    notes += left_out_notes(chosen.left_out)
    notes += [empty_folders_note(len(empty))] * (len(empty) > MAX_EMPTY_FOLDERS)
    contents: dict[str, bytes] = {}
    for target, source in sorted(chosen.files.items()):
        try:
            with open(source, "rb", buffering=0) as file:  # noqa: PTH123 pathlib is slow
                contents[target] = file.read()
        except OSError as error:
            raise UsageError(f"--upload {target}: {error.strerror or error}") from None
    return Uploads(contents, tuple(notes), tuple(empty[:MAX_EMPTY_FOLDERS]))


def empty_folders_note(count: int) -> str:
    """The message that a job does not have all empty folders."""
    return f"the job has the first {MAX_EMPTY_FOLDERS} of {count} empty folders"


class _Chosen(NamedTuple):
    """The files to send by their targets, why others stay behind by their paths, and folders to make."""

    files: dict[str, str]
    left_out: dict[str, str]
    empty_folders: set[str]


def _chosen_files(named: Sequence[_UploadItem], root: Path) -> _Chosen:
    """The files and empty folders that are found; UsageError at the first file that is too much."""
    chosen = _Chosen({}, {}, set())
    files, left_out, empty_folders = chosen
    size = 0
    for item in (inner for named_item in named for inner in _files(named_item, root)):
        if item.is_empty_folder:
            empty_folders.add(item.target)
        elif reason := _why_left_out(item):
            path = Path(item.source)
            left_out[text_of(str(path.relative_to(root) if path.is_relative_to(root) else path))] = reason
        elif item.target not in files:
            size += _size(item)
            files[item.target] = item.source
            if size > MAX_BYTES:
                most = f"at most {MAX_BYTES >> 20} MiB can be uploaded, and {item.target} exceeds that"
                raise UsageError(f"--upload {item.word}: {most}", hint=_ON_SHARE)
            if len(files) > MAX_FILES:
                text = f"--upload {item.word}: at most {MAX_FILES} files can be uploaded"
                raise UsageError(text, hint=_ON_SHARE)
        elif files[item.target] != item.source:
            text = f"--upload: {files[item.target]} and {item.source} would both be {item.target}"
            raise UsageError(text, hint="rename one of them")
    _check_folders(files)
    return chosen


SECRET = "a secret by its name"  # why a path stays behind
# SQLite loses its locks on a file that is opened and closed beside it in the same process. Another process
# may then truncate what this one has mapped, which kills it.
DATABASE = "the database of a home by its name"
_DATABASE_FILES = ("state.db", "state.db-shm", "state.db-wal")
_MAX_NAMED = 10  # paths that stay behind


def left_out_notes(left_out: Mapping[str, str]) -> Iterator[str]:
    """Messages about paths that stay behind, each with its reason."""
    reasons: dict[str, list[str]] = {}
    for path, reason in left_out.items():
        reasons.setdefault(reason, []).append(path)
    for reason, paths in reasons.items():
        more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
        listed = ", ".join(paths[:_MAX_NAMED])
        advised = next((path for path in paths if not is_secret_file(path)), paths[0])
        yield f"not sent ({reason}): {listed}{more}; to send it: --upload {shlex.quote(advised)}"


def why_left_out(path: str) -> str:
    """Why a file stays behind unless it is named, by its path with `/`; empty if it does not."""
    if is_secret_file(path):
        return SECRET
    return DATABASE if path.rpartition("/")[2] in _DATABASE_FILES else ""


def _why_left_out(item: _UploadItem) -> str:
    """Why a file stays behind that no word names; raises UsageError for a link to a secret that is named."""
    real = PurePosixPath(*item.real.parts[-_PARTS:]).as_posix() if item.real else ""
    if not item.is_named:
        return why_left_out(item.target) or (why_left_out(real) if real else "")
    if real and is_secret_file(real) and not is_secret_file(Path(item.source).name):
        text = f"--upload {item.word}: this link leads to {item.real}, {SECRET}"
        raise UsageError(text, hint="name that file itself if the job is to have it")
    return ""


_PARTS = 3  # of a real path; the folders above it are the user's own


def _items_of(word: str, root: Path) -> Iterator[_UploadItem]:
    """The files and folders that a word names or matches."""
    path = _absolute(word, root)
    if os.path.lexists(path):
        name = path.relative_to(root if path.is_relative_to(root) else path.parent).as_posix()
        target = "" if name == "." else text_of(name)
        yield _UploadItem(word, str(path), target, _real_of_link(path), is_named=True)
    elif glob.has_magic(word):
        yield from _matches(word, path, root)
    else:
        hint = f"Looked in {root}"
        raise UsageError(f"--upload {word}: there is no such file or folder", hint=hint)


def _matches(word: str, pattern: Path, root: Path) -> Iterator[_UploadItem]:
    """The matches of a glob pattern with `*`, `?`, `[a-z]` and `**`."""
    above = (path for path in pattern.parents if not glob.has_magic(str(path)))
    base = root if pattern.is_relative_to(root) else next(above)
    names = glob.glob(str(pattern.relative_to(base)), root_dir=base, recursive=True)  # noqa: PTH207 `**/` as in a shell
    paths = [Path(name) for name in sorted(names) if not is_excluded(Path(name).as_posix())]
    if "**" in pattern.parts:  # it matches folders as well as all that is in them
        paths = [path for path in paths if not (base / path).is_dir()]
    if not paths:
        hint = f"Looked in {root}; {_excluded_hint()}"
        raise UsageError(f"--upload {word}: no file matches", hint=hint)
    for path in paths:
        yield _UploadItem(word, str(base / path), text_of(path.as_posix()), _real_of_link(base / path))


def _real_of_link(path: Path) -> Path | None:
    return path.resolve() if path.is_symlink() else None


def _absolute(word: str, root: Path) -> Path:
    """The absolute path of a word without `..`, links not resolved."""
    return Path(os.path.abspath(root / Path(word).expanduser()))  # noqa: PTH100 links are kept


def _files(item: _UploadItem, root: Path) -> Iterator[_UploadItem]:
    """The file itself, or all files and empty folders in the folder, sorted by name."""
    if not os.path.isdir(item.source):  # noqa: PTH112 pathlib is slow
        yield item
        return
    real = Path(item.source).resolve()
    is_empty = True
    for file in _walk(item, (root.resolve(), real), (real,)):
        is_empty = False
        yield file
    if is_empty:
        raise UsageError(f"--upload {item.word}: there are no files in this folder", hint=_excluded_hint())


def _walk(item: _UploadItem, allowed: Sequence[Path], above: tuple[Path, ...]) -> Iterator[_UploadItem]:
    try:
        with os.scandir(item.source) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"--upload {item.word}: {item.source}: {error.strerror or error}") from None
    if not entries and item.target:
        yield replace(item, is_empty_folder=True)
    for entry in entries:
        if is_excluded(entry.name):
            continue
        target = f"{item.target}/{text_of(entry.name)}".lstrip("/")
        real = Path(entry.path).resolve() if entry.is_symlink() else None
        inner = _UploadItem(item.word, entry.path, target, real)
        if real and not any(map(real.is_relative_to, allowed)):
            hint = "put the file itself there, or name the link itself with --upload"
            raise UsageError(f"--upload {item.word}: the link {entry.path} points out, to {real}", hint=hint)
        if not entry.is_dir():
            yield inner
            continue
        real = real or above[-1] / entry.name
        if real in above:
            text = f"--upload {item.word}: the link {entry.path} leads to a folder that it is in"
            raise UsageError(text, hint="remove the link")
        yield from _walk(inner, allowed, (*above, real))


def is_excluded(path: str) -> bool:
    """Whether a path with `/` is a cache or metadata, or lies in a folder of such files."""
    return any(map(_excluded().match, map(os.path.normcase, path.split("/"))))


@cache
def _excluded() -> re.Pattern[str]:
    return re.compile("|".join(translate(os.path.normcase(pattern)) for pattern in EXCLUDED))


def _excluded_hint() -> str:
    return f"these are left out: {' '.join(EXCLUDED)}"


def _size(item: _UploadItem) -> int:
    """The size of a regular file; raises UsageError for anything else."""
    try:
        status = os.stat(item.source)  # noqa: PTH116 pathlib is slow
    except OSError as error:
        reason = " is a broken link" if item.real else f": {error.strerror or error}"
        raise UsageError(f"--upload {item.word}: {item.source}{reason}") from None
    if not stat.S_ISREG(status.st_mode):
        text = f"--upload {item.word}: {item.source} is not a regular file"
        raise UsageError(text, hint="pipes, sockets and devices cannot be uploaded")
    return status.st_size


def _check_folders(files: Mapping[str, str]) -> None:
    """Raises UsageError if a target path would be both file and folder."""
    folders: set[str] = set()
    for target in files:
        above = target.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            if above in files:
                text = f"--upload: {files[above]} would be a file where {files[target]} needs a folder"
                raise UsageError(text, hint="rename one of them")
            above = above.rpartition("/")[0]
