"""What watches over ranks in a fork of the program that has started them."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from batchai_magics.backends.node.ranks.leftovers import Guard, run_in_fork

pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="what is open is listed in /proc")
def test_a_fork_has_no_open_file_of_its_parent_even_beyond_the_limit(tmp_path):
    limits, report = resource.getrlimit(resource.RLIMIT_NOFILE), tmp_path / "open"
    with report.open("w") as file:
        beyond = fcntl.fcntl(file, fcntl.F_DUPFD, 600)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
        pid = run_in_fork(lambda: _list_open(report), signal.SIG_DFL)
        os.waitpid(pid, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.close(beyond)
    assert sorted(report.read_text().split()) == ["0", "1", "2", "3"]  # the last one is the listing's


@pytest.mark.skipif(sys.platform != "linux", reason="what is open is listed in /proc")
def test_a_fork_starts_where_its_parent_has_opened_all_files_that_it_may(tmp_path):
    limits, report, opened = resource.getrlimit(resource.RLIMIT_NOFILE), tmp_path / "open", list[int]()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        os.waitpid(run_in_fork(lambda: _list_open(report), signal.SIG_DFL), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in opened:
            os.close(descriptor)
    assert sorted(report.read_text().split()) == ["0", "1", "2", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="what is open is listed in /proc")
def test_a_guard_that_is_dismissed_leaves_no_process_and_no_open_file():
    guard = Guard("nobody has this mark")
    (pipe,) = {link for file, link in _open_files() if file == str(guard._writer)}
    guard.dismiss()
    assert pipe not in {link for _, link in _open_files()}
    with pytest.raises(ChildProcessError):
        os.waitpid(guard.pid, 0)


def _open_files() -> Iterator[tuple[str, str]]:
    """The descriptors of this process and what they lead to; other threads may close some meanwhile."""
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            yield file.name, str(file.readlink())


def _list_open(report: Path) -> None:
    names = [path.name for path in Path("/proc/self/fd").iterdir()]
    report.write_text(" ".join(names))
