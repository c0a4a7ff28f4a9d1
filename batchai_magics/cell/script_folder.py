"""A script with the files of its project, and what of the project is not sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from batchai_magics.cell.cell_uploads import left_out_notes


@dataclass(frozen=True)
class ScriptFolder:
    """A script and the files of its project, by their path in it.

    Attributes:
        folder: The project.
        name: The path of the script in it.
        files: The files that are sent.
        left_out: The paths that stay behind, with the reason.
        warnings: Messages about how the files were chosen.
    """

    folder: Path
    name: str
    files: Mapping[str, bytes] = field(repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def notes(self, uploaded: Collection[str]) -> Iterator[str]:
        """The warnings, and what stays behind and is not uploaded by name."""
        yield from self.warnings
        named = {
            parent.as_posix()
            for path in uploaded
            for parent in (PurePosixPath(path), *PurePosixPath(path).parents)
        }
        yield from left_out_notes(
            {path: reason for path, reason in self.left_out.items() if path not in named}
        )
