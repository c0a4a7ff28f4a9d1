"""What `%load_ext batchai_magics` adds to a bare IPython, in CPU time of a new process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.row import Row, table

RUNS = 7
SHELL = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.process_time()
{statement}
print(time.process_time(), time.process_time() - began)
"""


def rows() -> Iterator[Row]:
    """The whole process with and without the extension, and the extension beside a common import."""
    bare, _ = best("pass")
    loaded, extension = best("shell.run_line_magic('load_ext', 'batchai_magics')")
    _, pandas = best("import pandas")
    yield Row("CPU of IPython with %load_ext", loaded * 1000, "bare IPython", bare * 1000, "ms")
    yield Row("CPU of %load_ext alone", extension * 1000, "import pandas", pandas * 1000, "ms")


def best(statement: str) -> tuple[float, float]:
    """The least CPU time, in seconds, of the whole process and of the statement in it."""
    times = [
        tuple(
            map(
                float,
                subprocess.check_output([sys.executable, "-c", SHELL.format(statement=statement)]).split(),
            )
        )
        for _ in range(RUNS)
    ]
    whole, part = zip(*times, strict=True)
    return min(whole), min(part)


if __name__ == "__main__":
    print(table(rows()))
