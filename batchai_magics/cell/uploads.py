"""`--upload`: files, folders and glob patterns of the notebook's folder go beside the script.

Each keeps its path relative to that folder, so that a package stays one: `import a.models` finds
`a/models.py`. What lies elsewhere goes by its own name.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from batchai_magics.errors import UsageError
from batchai_magics.models.file_names import text_of

# What programs leave behind in folders; it stays here unless it is named itself.
LEFT_OUT = (
    *("__pycache__", "*.pyc", ".git", ".hg", ".svn", ".ipynb_checkpoints", ".venv", ".DS_Store"),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache"),
)
MOST_BYTES = 256 << 20  # of all files together: the kernel holds them until they are on the share
MOST_FILES = 5000
_ON_SHARE = "put large data on a share with `%az storage file upload-batch`, and read it there with --mount"


@dataclass(frozen=True)
class _Item:
    """What a word of the option names: a file or a folder, and its path beside the script."""

    word: str  # as it was written
    source: Path
    target: str  # with `/`; empty for the notebook's folder itself


def read_uploads(words: Sequence[str], folder: Path) -> dict[str, bytes]:
    """The files to put beside the script, by their paths there; UsageError names what it cannot take."""
    root = _absolute("", folder)
    files: dict[str, Path] = {}
    size = 0
    for item in (file for word in words for named in _named(word, root) for file in _files(named, root)):
        if item.target not in files:
            size += _size(item)
            files[item.target] = item.source
            _check_total(item, size, len(files))
        elif files[item.target] != item.source:
            text = f"--upload: {files[item.target]} and {item.source} would both be {item.target}"
            raise UsageError(text, hint="rename one of them")
    _check_folders(files)
    return {target: _read(target, source) for target, source in sorted(files.items())}


def _named(word: str, root: Path) -> Iterator[_Item]:
    """The files and folders that a word stands for."""
    path = _absolute(word, root)
    if os.path.lexists(path):
        name = path.relative_to(root if path.is_relative_to(root) else path.parent).as_posix()
        yield _Item(word, path, "" if name == "." else text_of(name))
    elif glob.has_magic(word):
        yield from _matches(word, path, root)
    else:
        hint = f"the folder is {root}"
        raise UsageError(f"--upload {word}: there is no such file or folder", hint=hint)


def _matches(word: str, pattern: Path, root: Path) -> Iterator[_Item]:
    """What a glob pattern matches: `*`, `?`, `[a-z]`, and `**` for folders of any depth."""
    above = (path for path in pattern.parents if not glob.has_magic(str(path)))
    base = root if pattern.is_relative_to(root) else next(above)
    names = glob.glob(str(pattern.relative_to(base)), root_dir=base, recursive=True)  # noqa: PTH207 `**/` as in a shell
    found = [Path(name) for name in sorted(names) if not any(map(_is_left_out, Path(name).parts))]
    if "**" in pattern.parts:  # it matches folders as well as all that is in them
        found = [path for path in found if not (base / path).is_dir()]
    if not found:
        hint = f"the folder is {root}; {_left_out_hint()}"
        raise UsageError(f"--upload {word}: no file matches", hint=hint)
    for path in found:
        yield _Item(word, base / path, text_of(path.as_posix()))


def _absolute(word: str, root: Path) -> Path:
    """The path of a word, without `..` and without following links."""
    return Path(os.path.abspath(root / Path(word).expanduser()))  # noqa: PTH100 links are kept


def _files(item: _Item, root: Path) -> Iterator[_Item]:
    """The file that an item is, or all files in the folder that it is, in the order of their names."""
    if not item.source.is_dir():
        yield item
        return
    allowed = (root.resolve(), item.source.resolve())
    found = list(_below(item, allowed, (item.source.resolve(),)))
    if not found:
        raise UsageError(f"--upload {item.word}: there are no files in this folder", hint=_left_out_hint())
    yield from found


def _below(item: _Item, allowed: Sequence[Path], above: tuple[Path, ...]) -> Iterator[_Item]:
    for entry in sorted(_entries(item), key=lambda entry: entry.name):
        if _is_left_out(entry.name):
            continue
        inner = _Item(item.word, Path(entry.path), _joined(item.target, text_of(entry.name)))
        real = Path(entry.path).resolve() if entry.is_symlink() else None
        if real and not any(map(real.is_relative_to, allowed)):
            hint = "put the file itself there, or name the link itself with --upload"
            raise UsageError(f"--upload {item.word}: the link {entry.path} leads out, to {real}", hint=hint)
        if not entry.is_dir():
            yield inner
            continue
        real = real or above[-1] / entry.name
        if real in above:
            text = f"--upload {item.word}: the link {entry.path} leads to a folder that it is in"
            raise UsageError(text, hint="remove the link")
        yield from _below(inner, allowed, (*above, real))


def _entries(item: _Item) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(item.source) as entries:
            return list(entries)
    except OSError as error:
        raise UsageError(f"--upload {item.word}: {item.source}: {error.strerror or error}") from None


def _is_left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def _left_out_hint() -> str:
    return f"these are left out: {' '.join(LEFT_OUT)}"


def _joined(folder: str, name: str) -> str:
    return str(PurePosixPath(folder, name))


def _size(item: _Item) -> int:
    """The size of a regular file; a UsageError for what is none."""
    try:
        found = item.source.stat()
    except OSError as error:
        is_link = item.source.is_symlink()
        what = f"{item.source} leads nowhere" if is_link else f"{item.source}: {error.strerror or error}"
        raise UsageError(f"--upload {item.word}: {what}") from None
    if not stat.S_ISREG(found.st_mode):
        text = f"--upload {item.word}: {item.source} is no regular file"
        raise UsageError(text, hint="pipes, sockets and devices cannot be uploaded")
    return found.st_size


def _check_total(item: _Item, size: int, count: int) -> None:
    if size > MOST_BYTES:
        most = f"at most {MOST_BYTES >> 20} MiB go along, and {item.target} exceeds that"
        raise UsageError(f"--upload {item.word}: {most}", hint=_ON_SHARE)
    if count > MOST_FILES:
        text = f"--upload {item.word}: at most {MOST_FILES} files go along"
        raise UsageError(text, hint=_ON_SHARE)


def _check_folders(files: Mapping[str, Path]) -> None:
    """Raises a UsageError where one path would be both a file and a folder."""
    for target in files:
        for above in PurePosixPath(target).parents:
            if str(above) in files:
                text = f"--upload: {files[str(above)]} would be a file where {files[target]} needs a folder"
                raise UsageError(text, hint="rename one of them")


def _read(target: str, source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise UsageError(f"--upload {target}: {error.strerror or error}") from None
