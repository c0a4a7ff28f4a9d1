"""Paths that people give for places below a folder or a share."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from batchai_magics.errors import UsageError


def relative(path: str, option: str, *, place: str = "output directory") -> str:
    """The path without needless parts, empty for the place itself; refused if it leads out of it."""
    pure = PurePosixPath(path.replace("\\", "/"))
    is_out = pure.is_absolute() or ".." in pure.parts or PureWindowsPath(path).drive or "\0" in path
    if is_out:
        hint = f"Give a path below the {place}, without '..' and not beginning with '/'."
        raise UsageError(f"{option}: {path} leads out of the {place}", hint=hint)
    return "" if str(pure) == "." else str(pure)
