"""Lines seen in a browser while they are written: the live view of a job, against what one does without it.

JupyterLab runs on this machine with a kernel for each way, and headless Chromium looks at it: 100,000 lines
of 120 bytes in 10 s, then 20 lines a second for 15 s. Each line carries the time at which it was written; its
delay ends when it, or a later one, is in the page. A line that never comes has at least the delay for which
it was waited. All but the delays is of the fast stream. Takes 6 minutes or more.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.browser.watch import Seen, Watch
from benchmarks.browser.ways import OURS, RIVALS, Stream, Way
from benchmarks.row import Row, table
from tests.widgets import lab as jupyter

FAST = Stream(ticks=100, tick_s=0.1, lines_a_tick=1000)
SLOW = Stream(ticks=300, tick_s=0.05, lines_a_tick=1)


def rows() -> Iterator[Row]:
    """Each measure against each rival; nothing where there is no Chromium."""
    chromium = next((path for path in jupyter.CHROMIUM if Path(path).exists()), None)
    if chromium is None:
        print("The browser is not measured: no Chromium.", file=sys.stderr)
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as browser,
    ):
        for stream in (FAST, SLOW):
            ours = seen(browser, server, OURS, stream)
            for rival in RIVALS:
                yield from against(stream, ours, rival.name, seen(browser, server, rival, stream))


def seen(browser: Browser, server: jupyter.Server, way: Way, stream: Stream) -> Seen:
    """What one way comes to, in a page and a kernel of its own."""
    watch = Watch(browser, server)
    try:
        return watch.watch(way, stream)
    finally:
        watch.close()


def against(stream: Stream, ours: Seen, name: str, theirs: Seen) -> Iterator[Row]:
    """The rows of one rival."""
    what = f"{stream.lines:,} lines in {stream.seconds:.0f} s"
    yield Row(f"{what}: first line -> page", ours.first_ms, name, theirs.first_ms, "ms")
    for share, title in ((0.5, "median"), (0.95, "p95")):
        (mine, _), (other, is_at_least) = ours.delay_ms(share), theirs.delay_ms(share)
        yield Row(f"{what}: line -> page, {title}", mine, name, other, "ms", is_at_least=is_at_least)
    if stream is SLOW:
        return
    for (title, unit, mine), (_, _, other) in zip(measures(ours), measures(theirs), strict=True):
        yield Row(f"{what}: {title}", mine, name, other, unit)


def measures(seen: Seen) -> list[tuple[str, str, float]]:
    """What else is measured: its name, unit and value."""
    tasks_ms = [task.duration_ms for task in seen.long_tasks]
    return [
        ("lines that can be read", "", seen.readable),
        ("long tasks", "", len(tasks_ms)),
        ("long tasks with code of the view", "", sum(ms > 0 for ms in seen.view_ms)),
        ("code of the view in a long task, longest", "ms", max(seen.view_ms, default=0)),
        ("long tasks, total", "ms", sum(tasks_ms)),
        ("long tasks, longest", "ms", max(tasks_ms, default=0)),
        ("CPU of the page's main thread", "s", seen.cpu_s),
        ("JS heap", "MB", seen.heap_mb),
        ("messages", "", seen.messages),
        ("received", "MB", seen.received_mb),
        ("kernel memory", "MB", seen.kernel_mb),
        ("saved notebook", "MB", seen.notebook_mb),
    ]


if __name__ == "__main__":
    print(table(rows()))
