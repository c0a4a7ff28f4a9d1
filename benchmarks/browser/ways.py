"""A stream of lines that carry their number and time, and the ways to see it beneath a cell."""

from __future__ import annotations

import re
from dataclasses import dataclass

STAMPS = "stamps.txt"  # beside the notebook: when each line was written, in order
KERNEL = "kernel.pid"
SETUP = f"""\
import collections, os, pathlib, time
import ipywidgets
from IPython.display import HTML, display
pathlib.Path("{KERNEL}").write_text(str(os.getpid()))
%load_ext batchai_magics"""
STREAM = """\
import time
stamps = open({stamps!r}, "w")
due = time.monotonic()
for tick in range({ticks}):
    lines = [
        f"{{number:06}}@{{time.time():.3f}} " + "x" * 97
        for number in range(tick * {lines_a_tick}, (tick + 1) * {lines_a_tick})
    ]
{show}
    print(*(line[7:21] for line in lines), sep="\\n", file=stamps, flush=True)
    due += {tick_s}
    time.sleep(max(0, due - time.monotonic()))
{end}"""
PRINT = """\
    for line in lines:
        print(line)"""
APPEND = """\
    output.append_stdout("\\n".join(lines) + "\\n")"""
# A thousand lines are those of 0.1 s: each of them is shown once.
REFRESH = """\
    last.extend(lines)
    if time.monotonic() >= refresh_at:
        handle.update(HTML("<pre>" + "\\n".join(last) + "</pre>"))
        refresh_at = time.monotonic() + 0.09"""
LAST = """\
handle.update(HTML("<pre>" + "\\n".join(last) + "</pre>"))"""


@dataclass(frozen=True)
class Stream:
    """So many ticks, each with so many lines of 120 bytes."""

    ticks: int
    tick_s: float
    lines_a_tick: int

    @property
    def lines(self) -> int:
        """How many there are."""
        return self.ticks * self.lines_a_tick

    @property
    def seconds(self) -> float:
        """How long they take to write."""
        return self.ticks * self.tick_s


@dataclass(frozen=True)
class Way:
    """What a cell begins with, what it does with the lines of a tick, and what at the end."""

    name: str
    begin: str
    show: str
    end: str = ""
    is_live: bool = False  # a log to page through, which is a card when the notebook is saved

    @property
    def file(self) -> str:
        """The name of its notebook."""
        return re.sub(r"\W+", "-", self.name)

    def cell(self, stream: Stream, stamps: str) -> str:
        """The cell's text. It writes the time of each line to the file `stamps`."""
        how = {"ticks": stream.ticks, "tick_s": stream.tick_s, "lines_a_tick": stream.lines_a_tick}
        return self.begin + STREAM.format(**how, show=self.show, end=self.end, stamps=stamps)


OURS = Way("the live view of a job", "%%batchai_job stream --toolkit custom --new\n", PRINT, is_live=True)
PRINTED = Way("print", "", PRINT)
APPENDED = Way("Output.append_stdout", "output = ipywidgets.Output()\ndisplay(output)\n", APPEND)
REFRESHED = Way(
    "HTML, refreshed",
    "last = collections.deque(maxlen=1000)\nhandle = display(HTML(''), display_id=True)\nrefresh_at = 0\n",
    REFRESH,
    LAST,
)
RIVALS = (PRINTED, APPENDED, REFRESHED)
