"""100,000 lines in 10 s, watched live: what reaches the page, and what the kernel keeps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from batchai_magics import widgets
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.row import Row, table
from benchmarks.views.counting import page

LINES = 100_000
SCRIPT = f"""
import time

for tick in range(100):
    due = time.monotonic() + 0.1
    for line in range({LINES} // 100):
        print(f"{{tick:3}} {{line:4}} " + "x" * 110)
    time.sleep(max(0, due - time.monotonic()))
"""


def rows() -> Iterator[Row]:
    """Messages, bytes and memory, each against the log as it is."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        settings = Settings(sections={"local": LocalSettings(home=Path(home))})
        request = parse("log --toolkit custom", SCRIPT, settings=settings)
        job = submit(open_backend(settings), request, settings).job
        widgets.show(job, ui="widget")
        page.say_ready()
        sent, memory, began = (page.messages, page.size_bytes), rss_bytes(), time.monotonic()
        job.wait()
        widgets.freeze_ended(job)
        seconds = time.monotonic() - began
        size = sum(file.size_bytes for file in job.files() if file.name == "stdout.txt")
        grown = rss_bytes() - memory
        widgets.close_all()
    what = f"{LINES:,} log lines in {seconds:.0f} s"
    yield Row(f"{what}: messages", page.messages - sent[0], "a message a line", LINES, "")
    yield Row(f"{what}: sent", (page.size_bytes - sent[1]) / 1e6, "the log's size", size / 1e6, "MB")
    yield Row(f"{what}: kernel memory", grown / 1e6, "the log's size", size / 1e6, "MB")


def rss_bytes() -> int:
    """The memory of this process."""
    return psutil.Process().memory_info().rss


if __name__ == "__main__":
    print(table(rows()))
