"""A script with the files of its project, and what of the project is not sent."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from batchai_magics.cell import notebook_script
from batchai_magics.cell.cell_uploads import left_out_notes

MODULE_PROGRAM = ".batchai/run_module.py"  # in a folder of its own: the project may have such a name
RUN_MODULE = Path(__file__).with_name("run_module.py")


@dataclass(frozen=True)
class ScriptFolder:
    """A script or a notebook, and the files of its project, by their path in it.

    Attributes:
        folder: The project.
        name: The path of the script in it.
        files: The files that are sent.
        left_out: The paths that stay behind, with the reason.
        warnings: Messages about how the files were chosen.
        module: The module that the script is, if it is started as `python -m` does.
        rank_option: The option with which each process is told its local rank; empty: none.
    """

    folder: Path
    name: str
    files: Mapping[str, bytes] = field(repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    module: str = ""
    rank_option: str = ""

    @property
    def started(self) -> str:
        """The file that Python starts: the script, or the program that runs the module or the notebook."""
        if self.is_notebook:
            return notebook_script.PROGRAM
        return MODULE_PROGRAM if self.module else self.name

    @property
    def is_notebook(self) -> bool:
        """Whether it is a notebook."""
        return self.name.endswith(notebook_script.SUFFIX)

    @property
    def code(self) -> str:
        """Its text, of a notebook the code; empty for a module that is installed."""
        data = self.files.get(self.name, b"")
        return notebook_script.code_of(data) if self.is_notebook else data.decode(errors="replace")

    @property
    def program(self) -> dict[str, bytes]:
        """The files of the program that runs a module or a notebook, by their names; empty for a script."""
        if self.is_notebook:
            return {name: file.read_bytes() for name, file in notebook_script.PROGRAM_FILES.items()}
        return {MODULE_PROGRAM: RUN_MODULE.read_bytes()} if self.module else {}

    def command_line_args(self, args: Sequence[str], secrets: Collection[str] = ()) -> str:
        """The words behind the file that Python starts, for a shell.

        Args:
            args: The arguments of the script, or the parameters of the notebook as `NAME=VALUE`.
            secrets: The names of the variables whose values an executed notebook must not keep.
        """
        if self.is_notebook:
            hidden = [f"--secrets={','.join(secrets)}"] if secrets else []
            words = map(notebook_script.checked_parameter, args)
            return shlex.join([self.name, *hidden, *words])
        rank = f"{self.rank_option}=$LOCAL_RANK" if self.rank_option else ""
        return " ".join(
            filter(None, (shlex.quote(self.module) if self.module else "", rank, shlex.join(args)))
        )

    def notes(self, uploaded: Collection[str], args: Sequence[str] = ()) -> Iterator[str]:
        """The warnings, also about the arguments, and what stays behind and is not uploaded by name."""
        yield from self.warnings
        if self.is_notebook:
            yield from notebook_script.overwritten_notes(self.files[self.name], args)
        named = {
            parent.as_posix()
            for path in uploaded
            for parent in (PurePosixPath(path), *PurePosixPath(path).parents)
        }
        yield from left_out_notes(
            {path: reason for path, reason in self.left_out.items() if path not in named}
        )
