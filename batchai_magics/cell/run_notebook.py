"""Runs a notebook in a kernel of its own, as `run_notebook.py NOTEBOOK [--secrets A,B] [NAME=VALUE …]`.

A program for the ranks, uploaded beside the notebook; it needs nbclient and ipykernel in their Python, and
nothing of this package. What cells print becomes the output of the rank, each cell below its number. After
every cell the executed notebook is saved as an artifact, so that a run that is killed keeps what it has done.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

try:
    import ipykernel  # noqa: F401 the kernel needs it
    import nbformat.v4
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
except ModuleNotFoundError as missing:
    print(f"{sys.executable} has no {missing.name}, which notebooks need:", file=sys.stderr)
    print("add --with ipykernel --with nbclient", file=sys.stderr)
    sys.exit(1)

if TYPE_CHECKING:
    from nbformat import NotebookNode

_FORMAT: Any = nbformat  # whose functions have no types
_PARAMETERS, _INJECTED = "parameters", "injected-parameters"  # tags of cells, as papermill's
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK", "AZ_BATCHAI_TASK_INDEX", "SLURM_PROCID")
_MIN_SECRET = 4  # characters of a value that is hidden: shorter ones occur in any text
_MASK = "***"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"^(?:Cell )?In ?\[\d+\], line (\d+)", re.MULTILINE)
_OF_SYNTAX_ERROR = re.compile(r"^\s*(?:File|Cell In\[).*?line (\d+)", re.MULTILINE)


class _OwnKernel(KernelSpecManager):
    """Knows one kernel, that of this Python; what a notebook says of its kernel is of another machine."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Its command line."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python", language="python")


class _Client(NotebookClient):
    """Executes a notebook, and prints what its cells do as they do it."""

    def output(self, outs: Any, msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        """Keeps an output, and prints it."""
        content = msg["content"]
        if msg["msg_type"] == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            stream.write(content["text"])
            stream.flush()
        elif text := content.get("data", {}).get("text/plain", ""):
            print(text, flush=True)
        return super().output(outs, msg, display_id, cell_index)


def main() -> None:
    """Runs the notebook; exits with 1 if a cell fails, and with the code of a cell that exits."""
    name, *words = sys.argv[1:]
    names = words.pop(0).partition("=")[2] if words and words[0].startswith("--secrets=") else ""
    secrets = [value for name in names.split(",") if len(value := os.environ.get(name, "")) >= _MIN_SECRET]
    notebook = _FORMAT.reads(Path(name).read_text(encoding="utf-8"), as_version=4)
    if parameters := dict(map(_parameter, words)):
        _inject(notebook.cells, parameters)
    copy = _Copy(name, notebook, secrets)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    numbers = {cell.id: number for number, cell in enumerate(codes, 1)}

    def announce(cell: NotebookNode, **_: object) -> None:
        if cell.id in numbers:
            print(f"cell {numbers[cell.id]}/{len(codes)}", flush=True)

    with tempfile.TemporaryDirectory(prefix="k") as folder:  # no port: sockets in the job's own folder
        kernel = AsyncKernelManager(
            kernel_spec_manager=_OwnKernel(), transport="ipc", connection_file=f"{folder}/k.json"
        )
        client = _Client(
            notebook,
            km=kernel,
            timeout=None,
            resources={"metadata": {"path": str(Path.cwd())}},
            on_cell_execute=announce,
            on_cell_executed=copy.save,
            on_cell_error=copy.save,
        )
        try:
            # MPI's process manager talks to a rank by an open file, which the kernel inherits.
            client.execute(cleanup_kc=True, close_fds=False)
        except CellExecutionError as error:
            sys.exit(_report(error, name, notebook.cells, numbers))
        except DeadKernelError:
            print("The kernel of the notebook died.", file=sys.stderr)
            sys.exit(1)
        finally:
            copy.save()


def _parameter(word: str) -> tuple[str, Any]:
    """The name and value of `lr=0.1`: JSON, a Python constant, or the text itself."""
    name, _, text = word.partition("=")
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return name, text


def _inject(cells: list[NotebookNode], parameters: Mapping[str, Any]) -> None:
    """Adds a cell with the parameters behind the one that is tagged `parameters`, or first."""
    source = "# Parameters\n" + "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    cell = _FORMAT.v4.new_code_cell(source, metadata={"tags": [_INJECTED]})
    tagged = [i for i, each in enumerate(cells) if _PARAMETERS in each.metadata.get("tags", ())]
    cells.insert(tagged[0] + 1 if tagged else 0, cell)


class _Copy:
    """The executed notebook as an artifact; that of rank 0 has the notebook's name."""

    def __init__(self, name: str, notebook: NotebookNode, secrets: Sequence[str]) -> None:
        rank = next((os.environ[each] for each in _RANKS if os.environ.get(each)), "0")
        path = PurePosixPath(name)
        self._name = path.name if rank == "0" else f"{path.stem}.rank{rank}{path.suffix}"
        self._notebook, self._secrets = notebook, secrets

    def save(self, **_: object) -> None:
        """Saves it as it is now, without the values of secrets; a failure is told and ends nothing."""
        text = _FORMAT.writes(self._notebook)
        for secret in self._secrets:
            text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], _MASK)
        try:
            from batchai_magics import save

            with tempfile.TemporaryDirectory(prefix="k") as folder:
                file = Path(folder, self._name)
                file.write_text(text, encoding="utf-8")
                save(file, self._name)
        except OSError as error:
            print(f"batchai: the executed notebook could not be saved: {error}", file=sys.stderr)


def _report(
    error: CellExecutionError, name: str, cells: Sequence[NotebookNode], numbers: Mapping[str, int]
) -> int:
    """Prints an error as Python does, with its cell and line; returns the exit code."""
    failed = next(
        cell for cell in cells if any(each.output_type == "error" for each in cell.get("outputs", ()))
    )
    if error.ename == "SystemExit":
        return int(error.evalue) if error.evalue.isdecimal() else int(error.evalue not in ("", "None"))
    (output,) = [each for each in failed.outputs if each.output_type == "error"]
    traceback = _COLOURS.sub("", "\n".join(output.traceback))
    lines = [int(line) for line in _LINE.findall(traceback) or _OF_SYNTAX_ERROR.findall(traceback)[:1]]
    place = f'  File "{name} cell {numbers.get(failed.id, 0)}", line {lines[-1] if lines else 1}, in <module>'
    source = failed.source.splitlines()
    shown = source[lines[-1] - 1].strip() if lines and lines[-1] <= len(source) else ""
    print("Traceback (most recent call last):", place, sep="\n", file=sys.stderr)
    print(*([f"    {shown}"] if shown else []), f"{error.ename}: {error.evalue}", sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
