"""Files to a local share and back, each in processor time against `cp` of the same files in the same run."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import PendingCommand, run
from batchai_magics.commands.output.command_progress import run_operation
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from benchmarks.row import Row, table

TRIES = 3
SMALL = (5000, 4 << 10)
LARGE = (1, 1 << 29)


def rows() -> Iterator[Row]:
    """Up and down, many small files and a large one."""
    for count, size in (SMALL, LARGE):
        what = f"{count:,} files of {size >> 10} kB" if count > 1 else f"a file of {size >> 20} MB"
        with tempfile.TemporaryDirectory() as folder:
            times = _times(Path(folder), count, size)
        yield Row(f"upload of {what}: CPU", times["up"], "cp -r", times["cp"], "s")
        yield Row(f"download of {what}: CPU", times["down"], "cp -r", times["cp"], "s")


def _times(folder: Path, count: int, size: int) -> dict[str, float]:
    """The best of some tries, taken in turns, in seconds of processor time."""
    source = folder / "source"
    for number in range(count):
        path = source / f"{number % 50:02}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(min(size, 1 << 20)) * max(1, size >> 20))
    tries = [_one_try(folder, source) for _ in range(TRIES)]
    return {name: min(times[name] for times in tries) for name in tries[0]}


def _one_try(folder: Path, source: Path) -> dict[str, float]:
    home, got, copied = folder / "home", folder / "got", folder / "copied"
    got.mkdir()
    with _Share(home) as share:
        turns: dict[str, Callable[[], object]] = {
            "up": lambda: share.do(f"storage file upload-batch -d data -s {source}"),
            "down": lambda: share.do(f"storage file download-batch -s data -d {got}"),
            "cp": lambda: subprocess.run(["cp", "-r", source, copied], check=True),
        }
        times = {name: _cpu_s(act) for name, act in turns.items()}
    for path in (home, got, copied):
        shutil.rmtree(path)
    return times


class _Share:
    """A local backend of its own, with a share named data; lines are carried out as magics do."""

    def __init__(self, home: Path) -> None:
        self._context = Context(Settings(sections={"local": LocalSettings(home=home)}))
        self._context.storage.make("data")

    def do(self, line: str) -> None:
        found = run(parse(shlex.split(line)), self._context)
        assert isinstance(found, PendingCommand)
        found.result(run_operation(found.operation, is_shown=False))

    def __enter__(self) -> _Share:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.backend.close()


def _cpu_s(act: Callable[[], object]) -> float:
    before, children = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    act()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    below = ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime
    return time.process_time() - before + below


if __name__ == "__main__":
    print(table(rows()))
