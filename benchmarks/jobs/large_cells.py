"""What a long script and many uploaded files cost a cell, in processor time, until its job is submitted."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchai_magics import cell
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.jobs.start import working_in
from benchmarks.row import Row, table

TRIES = 3
FUNCTIONS = 5000
FUNCTION = "def f{0}(x):\n    y = x * {0} + math.sin(x)\n    return [y, {0}]\n"
FOLDERS, FILES_OF_EACH, FILE_BYTES = 12, 100, 4 << 10
"""Each try writes all files three times, and all are removed at the end: more files take minutes."""


class Cells:
    """A home whose cluster has no node: what is submitted waits."""

    def __init__(self, folder: Path) -> None:
        self._settings = Settings(cluster_nodes=0)
        self._backend = LocalBackend(LocalSettings(home=folder))
        self._count = 0

    def submit(self, options: str = "", body: str = "print()") -> None:
        """Submits a job with a name and a script of its own."""
        self._count += 1
        line, script = f"job{self._count} {options}", f"{body}\n# {self._count}"
        submit(self._backend, cell.parse(line, script, settings=self._settings), self._settings)


def rows() -> Iterator[Row]:
    """A long cell, and many files against a copy by the standard library."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, working_in(name):
        folder = Path(name)
        cells = Cells(folder / "home")
        cells.submit()  # imports
        body = "import math\n" + "\n".join(map(FUNCTION.format, range(FUNCTIONS)))
        submitted, compiled = least_ms(
            lambda: cells.submit(body=body), lambda: compile(body, "cell", "exec", dont_inherit=True)
        )
        yield Row(f"a cell of {body.count(chr(10)) + 1:,} lines: CPU", submitted, "compile", compiled, "ms")
        for what, last in (("reads", "print(result)"), ("sets", "result = 1")):
            script = f"{body}\n{last}"
            (submitted,) = least_ms(lambda script=script: cells.submit(body=script))
            yield Row(f"the same, which {what} result: CPU", submitted, "compile", compiled, "ms")
        yield from uploads(cells, folder)


def uploads(cells: Cells, folder: Path) -> Iterator[Row]:
    """The same files again and again, once with new contents and once unchanged."""
    source = folder / "source"
    files = [
        source / f"{parent}" / f"{number}.bin" for parent in range(FOLDERS) for number in range(FILES_OF_EACH)
    ]

    def change() -> None:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(FILE_BYTES))

    def copy() -> None:
        shutil.copytree(source, folder / f"copy{len(list(folder.glob('copy*')))}")

    change()
    actions = (
        lambda: cells.submit("--upload source"),
        lambda: cells.submit("--upload source"),
        copy,
    )
    changed, same, copied = least_ms(*actions, before_each=change)
    what = f"--upload of {len(files):,} files"
    yield Row(f"{what}, changed: CPU", changed, "shutil.copytree", copied, "ms")
    yield Row(f"{what}, unchanged, for another job: CPU", same, "shutil.copytree", copied, "ms")


def least_ms(*actions: Callable[[], object], before_each: Callable[[], None] = lambda: None) -> list[float]:
    """The least CPU time of each action in ms, of some tries in turns."""
    tries = []
    for _ in range(TRIES):
        before_each()
        tries.append([cpu_ms(action) for action in actions])
    return [min(times) for times in zip(*tries, strict=True)]


def cpu_ms(action: Callable[[], object]) -> float:
    """The CPU time of this process for an action."""
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


if __name__ == "__main__":
    print(table(rows()))
