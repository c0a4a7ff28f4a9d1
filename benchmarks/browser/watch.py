"""A notebook page under observation while lines come: what it goes through, and what it costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser

from benchmarks.browser.profile import LongTask, Profile
from benchmarks.browser.ways import KERNEL, SETUP, STAMPS, Stream, Way
from tests.widgets import lab as jupyter

LIMIT_S = 30.0  # after the start of a stream: what a page does not show by then is given up
CALM_S = 1.5  # without a long task before a stream begins: JupyterLab has opened the notebook
LOCKED_S = 1.0  # without a word from the page
QUIET_S = 8.0  # without a new line after the cell has ended: what is missing is lost
ANSWER_S = 20.0  # for a page that is locked up
PAGING_S = 120.0
SAMPLE_US = 1000  # between two samples of the page's stack
MB = 1e6


@dataclass
class Seen:
    """What one way to see a stream came to. NaN where the page did not answer any more."""

    written_at: list[float] = field(default_factory=list)
    shown: list[tuple[float, int]] = field(default_factory=list)  # when, up to which line
    ended_at: float = 0.0
    long_tasks: list[LongTask] = field(default_factory=list)
    view_ms: list[float] = field(default_factory=list)  # for how long code of a view ran in each
    messages: int = 0
    received_mb: float = 0.0
    kernel_mb: float = 0.0  # from the first line on
    cpu_s: float = nan  # of the page's main thread
    heap_mb: float = nan
    readable: float = nan  # lines
    notebook_mb: float = nan

    @property
    def newest(self) -> int:
        """The last line that the page showed, -1 before the first."""
        return self.shown[-1][1] if self.shown else -1

    @property
    def first_ms(self) -> float:
        """The delay of the first line."""
        return (self.shown[0][0] - self.written_at[0]) * 1000 if self.shown else nan

    def delay_ms(self, share: float) -> tuple[float, bool]:
        """The delay that this share of the lines stays below, and whether it is only known to be longer.

        A line's delay ends when the page shows it or a later one.
        """
        delays, first = [], 0
        for when, number in self.shown:
            delays += [(when - at, False) for at in self.written_at[first : number + 1]]
            first = number + 1
        delays += [(self.ended_at - at, True) for at in self.written_at[first:]]
        shortest = sorted(delays)[: max(1, round(share * len(delays)))]
        return shortest[-1][0] * 1000, any(is_lost for _, is_lost in shortest)


class Watch:
    """A page that tells what it goes through (page.js), and the kernel behind it."""

    def __init__(self, browser: Browser, server: jupyter.Server) -> None:
        self.page = browser.new_page(viewport={"width": 1300, "height": 1000})
        self.page.expose_function("tell", self._take)
        self.page.add_init_script(path=Path(__file__).with_name("page.js"))
        self.lab = jupyter.Lab(self.page, server)
        self.seen = Seen()
        self._devtools = self.page.context.new_cdp_session(self.page)
        self._devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._devtools.send("Profiler.enable")
        self._devtools.send("Profiler.setSamplingInterval", {"interval": SAMPLE_US})
        self._told: dict[str, Any] = {"messages": 0, "bytes": 0, "isDone": False}
        self._told_at = self._busy_at = self._long_task_at = time.monotonic()

    def watch(self, way: Way, stream: Stream) -> Seen:
        """Runs the way's cell in a notebook of its own, until all is shown or given up."""
        stamps = self.lab.root / STAMPS
        stamps.unlink(missing_ok=True)
        self.lab.open(way.file, SETUP, way.cell(stream, str(stamps)))
        self.lab.run(0)
        kernel = psutil.Process(int((self.lab.root / KERNEL).read_text()))
        self._devtools.send("Profiler.start")  # a long task itself
        self._long_task_at = time.monotonic()
        self._until(lambda: time.monotonic() - self._long_task_at > CALM_S)
        self.seen, before = Seen(), {**self._told, **self._costs()}
        self.lab.run(1, wait=False)
        self._until(lambda: bool(self.seen.shown))
        memory = kernel.memory_info().rss
        self._until(lambda: self.seen.newest >= stream.lines - 1 or self._is_quiet())
        self.seen.ended_at = time.time()
        self.seen.kernel_mb = (kernel.memory_info().rss - memory) / MB
        self.seen.messages = self._told["messages"] - before["messages"]
        self.seen.received_mb = (self._told["bytes"] - before["bytes"]) / MB
        self.seen.written_at = [float(line) for line in stamps.read_text().split()]
        seen, self.seen = self.seen, Seen()  # what comes now is of the looking
        if self.answers():
            profile = Profile(self._devtools.send("Profiler.stop")["profile"])
            navigation_s = self._metrics()["NavigationStart"]
            samples = [profile.view_samples(task, navigation_s) for task in seen.long_tasks]
            seen.view_ms = [count * SAMPLE_US / 1000 for count in samples]
            self._look(seen, way, stream, before)
        return seen

    def answers(self) -> bool:
        """Whether the page says something within some time."""
        asked_at = time.monotonic()
        return self._until(lambda: self._told_at >= asked_at, ANSWER_S)

    def close(self) -> None:
        """Ends the kernel and the page, whatever they do."""
        self.lab.shut_down()
        self.page.close()

    def _take(self, news: dict[str, Any]) -> None:
        now = time.monotonic()
        if news["lines"] or not news["isDone"] or now - self._told_at > LOCKED_S:
            self._busy_at = now
        if news["longTasks"]:
            self._long_task_at = now
        self._told, self._told_at = news, now
        self.seen.shown += [(when, number) for when, number in news["lines"]]
        self.seen.long_tasks += [LongTask(start, duration) for start, duration in news["longTasks"]]

    def _until(self, is_so: Callable[[], bool], max_age_s: float = LIMIT_S) -> bool:
        """Hears what the page tells until something is so; whether it came to be."""
        deadline = time.monotonic() + max_age_s
        while not is_so() and time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
        return is_so()

    def _is_quiet(self) -> bool:
        """Whether the cell has ended, and the page has answered for long and shown nothing new."""
        now = time.monotonic()
        return now - self._told_at < LOCKED_S and now - self._busy_at > QUIET_S

    def _look(self, seen: Seen, way: Way, stream: Stream, before: dict[str, float]) -> None:
        """What can only be asked of a page that answers."""
        costs = self._costs()
        seen.cpu_s = costs["cpu_s"] - before["cpu_s"]
        seen.heap_mb = costs["heap_mb"] - before["heap_mb"]
        if way.is_live:
            page_through = "([count, s]) => linesByPaging(count, s)"
            seen.readable = self.page.evaluate(page_through, [stream.lines, PAGING_S])
        else:
            seen.readable = self.page.evaluate("() => linesInOutputs()")
        self._until(lambda: not way.is_live or "widget-view" not in json.dumps(self.lab.save()))
        self.lab.save()
        seen.notebook_mb = self.lab.path.stat().st_size / MB

    def _costs(self) -> dict[str, float]:
        self._devtools.send("HeapProfiler.collectGarbage")
        metrics = self._metrics()
        return {"cpu_s": metrics["TaskDuration"], "heap_mb": metrics["JSHeapUsedSize"] / MB}

    def _metrics(self) -> dict[str, float]:
        return {m["name"]: m["value"] for m in self._devtools.send("Performance.getMetrics")["metrics"]}
