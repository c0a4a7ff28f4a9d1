"""Runs a notebook in a kernel of its own, as `run_notebook.py NOTEBOOK [--secrets A,B] [NAME=VALUE …]`.

A program for the ranks, uploaded beside the notebook with a copy of `secret_masking.py`; it needs nbclient
and ipykernel in their Python. What cells print becomes the output of the rank, each cell below its number.
After every cell the executed notebook is saved as an artifact, so that a run that is killed keeps what it has
done.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

# jsonschema, which nbformat imports, would build a grammar of IRIs from this for seconds; it works without.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: it cannot be imported
try:
    import ipykernel  # noqa: F401 the kernel needs it
    import nbformat.v4
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from secret_masking import SecretMask  # type: ignore[import-not-found]  # uploaded beside this program
except ModuleNotFoundError as missing:
    print(f"{sys.executable} has no {missing.name}, which notebooks need:", file=sys.stderr)
    print("add --with ipykernel --with nbclient", file=sys.stderr)
    sys.exit(1)

if TYPE_CHECKING:
    from nbformat import NotebookNode

_FORMAT: Any = nbformat  # whose functions have no types
_PARAMETERS, _INJECTED = "parameters", "injected-parameters"  # tags of cells, as papermill's
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK", "AZ_BATCHAI_TASK_INDEX", "SLURM_PROCID")
_KEPT = ("output_type", "name", "metadata", "execution_count")  # of an output: no texts of the user's
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"^(?:Cell )?In ?\[\d+\], line (\d+)", re.MULTILINE)
_OF_SYNTAX_ERROR = re.compile(r"^\s*(?:File|Cell In\[).*?line (\d+)", re.MULTILINE)


class _OwnKernel(KernelSpecManager):
    """Knows one kernel, this Python; the one that a notebook names belongs to another machine."""

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
    secrets = [os.environ.get(name, "") for name in names.split(",")]
    notebook = _FORMAT.reads(Path(name).read_text(encoding="utf-8"), as_version=4)
    if parameters := dict(map(_parameter, words)):
        _inject(notebook.cells, parameters)
    executed = _Copy(name, notebook, secrets)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    codes = [cell for cell in codes if _INJECTED not in cell.metadata.get("tags", ())]
    numbers = {cell.id: number for number, cell in enumerate(codes, 1)}
    failed = list[Any]()

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
            on_cell_executed=executed.save,
            on_cell_error=lambda cell, **_: failed.append(cell),
        )
        try:
            # MPI's process manager talks to a rank by an open file, which the kernel inherits.
            client.execute(cleanup_kc=True, close_fds=False)
        except CellExecutionError as error:
            sys.exit(_report(error, name, failed[-1], numbers.get(failed[-1].id, 0)))
        except DeadKernelError:
            print("The kernel of the notebook died.", file=sys.stderr)
            sys.exit(1)
        finally:
            executed.save()


def _parameter(word: str) -> tuple[str, Any]:
    """The name and value of `lr=0.1`: JSON, a Python constant, or the text itself."""
    name, _, text = word.partition("=")
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return name, text


def _inject(cells: list[NotebookNode], parameters: Mapping[str, Any]) -> None:
    """Adds a cell with the parameters behind the one that is tagged `parameters`, or first."""
    source = "# Parameters\n" + "\n".join(f"{name} = {_code(value)}" for name, value in parameters.items())
    cell = _FORMAT.v4.new_code_cell(source, metadata={"tags": [_INJECTED]})
    tagged = [i for i, other in enumerate(cells) if _PARAMETERS in other.metadata.get("tags", ())]
    cells.insert(tagged[0] + 1 if tagged else 0, cell)


def _code(value: Any) -> str:
    """A value as Python writes it; numbers that are not finite have no literal."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_code(key)}: {_code(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(_code, value)) + "]" if isinstance(value, list) else repr(value)


class _Copy:
    """The executed notebook as an artifact; rank 0's has the notebook's name."""

    def __init__(self, name: str, notebook: NotebookNode, secrets: Sequence[str]) -> None:
        rank = next((os.environ[variable] for variable in _RANKS if os.environ.get(variable)), "0")
        path = PurePosixPath(name)
        self._name = path.name if rank == "0" else f"{path.stem}.rank{rank}{path.suffix}"
        self._notebook = notebook
        self._mask = SecretMask(part for secret in secrets for part in (secret, *secret.splitlines()))

    def save(self, **_: object) -> None:
        """Saves it as it is now, without the values of secrets; a failure is printed, and the run goes on."""
        notebook = copy.deepcopy(self._notebook)
        for cell in notebook.cells:
            if cell.get("outputs"):
                cell.outputs = self._masked(_joined(cell.outputs))
        text = _FORMAT.writes(notebook)
        try:
            from batchai_magics import save

            with tempfile.TemporaryDirectory(prefix="k") as folder:
                file = Path(folder, self._name)
                file.write_text(text, encoding="utf-8")
                save(file, self._name)
        except OSError as error:
            print(f"batchai: the executed notebook could not be saved: {error}", file=sys.stderr)

    def _masked(self, value: Any) -> Any:
        """Outputs with asterisks for secrets in their texts, as in logs."""
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, dict):
            masked = {key: item if key in _KEPT else self._masked(item) for key, item in value.items()}
            return _FORMAT.from_dict(masked)
        return [self._masked(item) for item in value] if isinstance(value, list) else value


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """The outputs, with texts that follow each other on one stream as one: a secret may come in pieces."""
    joined: list[Any] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == "stream" == last.output_type and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _report(error: CellExecutionError, name: str, cell: NotebookNode, number: int) -> int:
    """Prints an error as Python does, with its cell and line; returns the exit code."""
    if error.ename == "SystemExit":  # the code of `sys.exit(value)`, as a process has it
        if re.fullmatch(r"-?\d+", error.evalue):
            return int(error.evalue) & 255
        if error.evalue in ("", "None"):
            return 0
        print(error.evalue, file=sys.stderr)
        return 1
    outputs = [output for output in cell.get("outputs", ()) if output.output_type == "error"]
    traceback = _COLOURS.sub("", "\n".join(outputs[-1].traceback if outputs else ()))
    lines = [int(line) for line in _LINE.findall(traceback) or _OF_SYNTAX_ERROR.findall(traceback)[:1]]
    line, source = lines[-1] if lines else 1, cell.source.splitlines()
    shown = [f"    {source[line - 1].strip()}"] if line <= len(source) else []
    location = f'  File "{name} cell {number}", line {line}, in <module>'
    message = f"{error.ename}: {error.evalue}"
    print("Traceback (most recent call last):", location, *shown, message, sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
