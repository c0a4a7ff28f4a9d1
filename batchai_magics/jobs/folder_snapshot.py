"""The snapshot of a script's folder: the files that go along with `batchai run`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pathspec

from batchai_magics.cell import ScriptFolder
from batchai_magics.cell.cell_uploads import EXCLUDED
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.file_names import text_of

IGNORE_FILE = ".batchaiignore"  # in git's syntax
MAX_BYTES = 50 << 20
MAX_FILES = 5000
_ENVIRONMENT_FILE = "/pyvenv.cfg"  # in the folder of a virtual environment
_GIT_TIMEOUT_S = 10.0
_LARGEST = 5  # files and folders that the error lists


def read_script(path: Path, folder: Path, settings: Settings | None = None) -> ScriptFolder:
    """A script with the files of its folder, without the homes of backends that the settings name.

    Raises:
        UsageError: It does not exist, it is left out by an ignore file, or the folder is too large.
    """
    file = folder / path.expanduser()
    if not file.is_file():
        near = [entry.name for entry in file.parent.glob("*.py")] if file.parent.is_dir() else []
        hint = did_you_mean(file.name, near) or f"Looked in {folder}."
        raise UsageError(f"{path}: no such file", hint=hint)
    files = snapshot(file.parent, _homes(settings) if settings else ())
    files.setdefault(file.name, file.read_bytes())  # also if an ignore file matches it
    return ScriptFolder(file.parent, file.name, files)


def _homes(settings: Settings) -> list[Path]:
    """The folders that backends keep their state in."""
    homes = (getattr(section, "home", None) for section in settings.sections.values())
    return [Path(home).expanduser().resolve() for home in homes if home]


def snapshot(folder: Path, homes: Collection[Path] = ()) -> dict[str, bytes]:
    """Reads the files of a folder, by their path in it with `/`.

    The homes of backends are left out. In a git repository these are the files that git tracks or does not
    ignore. Caches, version control, virtual environments, links that leave the folder, and what
    `.batchaiignore` matches are left out.

    Raises:
        UsageError: The files exceed `MAX_BYTES` or `MAX_FILES`; the message lists the largest entries.
        OSError: A file cannot be read.
    """
    root = folder.resolve()
    ignored = pathspec.GitIgnoreSpec.from_lines([*EXCLUDED, *_lines(folder / IGNORE_FILE)])
    names = sorted({name for name in _names(root) if not ignored.match_file(text_of(name))})
    environments = [(root / name).parent for name in names if name.endswith(_ENVIRONMENT_FILE)]
    left_out = (*homes, *environments)
    names = [name for name in names if not any((root / name).is_relative_to(each) for each in left_out)]
    files = {name: root / name for name in names if _is_inside(root / name, root)}
    _check(folder, {text_of(name): path.stat().st_size for name, path in files.items()})
    return {text_of(name): path.read_bytes() for name, path in files.items()}


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _names(root: Path) -> Iterable[str]:
    """The paths of all files, as git lists them if the folder is in a repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        run = subprocess.run(command, cwd=root, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return _walk(root)
    if run.returncode:
        return _walk(root)
    return [os.fsdecode(name) for name in run.stdout.split(b"\0") if name]


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in EXCLUDED]
        yield from (Path(folder, name).relative_to(root).as_posix() for name in files)


def _is_inside(path: Path, root: Path) -> bool:
    """Whether it is a regular file whose content lies in the folder: git also lists deleted files."""
    return path.is_file() and path.resolve().is_relative_to(root)


def _check(folder: Path, sizes: Mapping[str, int]) -> None:
    total = sum(sizes.values())
    if total <= MAX_BYTES and len(sizes) <= MAX_FILES:
        return
    entries: dict[str, int] = {}
    for name, size in sizes.items():
        top, slash, _ = name.partition("/")
        entries[top + slash] = entries.get(top + slash, 0) + size
    largest = sorted(entries.items(), key=lambda item: -item[1])[:_LARGEST]
    listed = ", ".join(f"{name} ({size / (1 << 20):.1f} MiB)" for name, size in largest)
    text = (
        f"{folder} has {len(sizes)} files with {total / (1 << 20):.1f} MiB;"
        f" at most {MAX_FILES} files with {MAX_BYTES >> 20} MiB can be sent along. The largest: {listed}"
    )
    hint = f"List what the script does not need in {IGNORE_FILE}, and put data on a share: --mount."
    raise UsageError(text, hint=hint)
