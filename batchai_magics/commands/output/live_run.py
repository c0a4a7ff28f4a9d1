"""Live views on a terminal: a run's log above its state, nodes, progress and metrics; a list of jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.commands.output.shell_output import STATE_STYLES, fitted_table, job_text, read_overview
from batchai_magics.commands.output.terminal_text import TerminalText
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import visible, visible_lines
from batchai_magics.follow import (
    ConnectionLost,
    ConnectionRestored,
    Event,
    LogBytes,
    Standstill,
    StateChanged,
    events,
)
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.job_overview import JobOverview
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.log_lines import line_bounds, visible_text, whole_lines_end
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import NO_PATHS, SourcePaths

RANK_STYLES = ("cyan", "magenta", "green", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_green")
_MAX_METRICS = 3
_METRICS_INTERVAL_S, _MAX_METRICS_SHARE = 1.0, 0.05  # between two summaries; of the time, for them
_BAR_WIDTH = 30
_FRAMES_PER_S = 4


def watch_run(job: Job, console: Console) -> JobResource:
    """Shows a job until it has ended, then its outcome; returns the job. An interrupt keeps the log."""
    view, files = RunView(paths_of(job.show())), [FileRef(job.id, name) for name in (OUT, ERR)]
    batches = events(job.backend, job.id, files=files, patterns=job.patterns, stalled_s=stalled_s())
    with Live(get_renderable=lambda: view, console=console, refresh_per_second=_FRAMES_PER_S, transient=True):
        for batch in batches:
            lines = view.feed(batch)
            if lines:
                console.print(Text("\n").join(lines), soft_wrap=True)
    console.print(job_text(read_overview(job)), soft_wrap=True)
    assert view.model.job is not None, "a followed job has a state"
    return view.model.job


def watch_table(tables: Iterable[Table], console: Console) -> None:
    """Shows each table in place of the previous one, of a table that is too long its first rows."""
    with Live(console=console, auto_refresh=False) as live:
        for table in tables:
            count = max(1, console.height - 2)
            top = Table(table.titles, table.rows[:count])
            live.update(fitted_table(top, console.width), refresh=True)


def print_new_states(tables: Iterable[Table], stream: TextIO) -> None:
    """Prints a line for each job whose state is new, the newest job last: its name and state."""
    known: dict[str, str] = {}
    for table in tables:
        for row in reversed(table.texts):
            texts = dict(zip(table.titles, row, strict=True))
            name, state = texts["Name"], texts["State"]
            if known.get(name) != state:
                print(f"{name}  {state}", file=stream, flush=True)
            known[name] = state


class RunView:
    """The present state of a job as lines below its log, which has the user's paths by `paths`."""

    def __init__(self, paths: SourcePaths = NO_PATHS) -> None:
        self.model = JobModel(preferences=metric_preferences())
        self._lines = LogLines(paths)
        self._metrics, self._metrics_due_at = "", 0.0

    def feed(self, events: Sequence[Event]) -> list[Text]:
        """Takes in the events of a poll; returns the lines of the log that they complete."""
        lines = [line for event in events for line in self._take(event)]
        self.model.poll_ended()
        self._find_metrics()
        return lines

    def _take(self, event: Event) -> Iterable[Text]:
        self.model.take(event)
        if isinstance(event, LogBytes):
            return self._lines.feed(event.file.path, event.chunk)
        if isinstance(event, StateChanged):
            settings = event.job.spec.settings
            count = getattr(settings, "process_count", None) or getattr(
                settings, "batchai_process_count", None
            )
            self._lines.has_ranks = event.job.spec.node_count > 1 or (count or 1) > 1
            return self._lines.finish() if event.job.state.is_final else ()
        if isinstance(event, Standstill | ConnectionLost | ConnectionRestored):
            return [Text(visible_lines(event.sentence), "yellow")]
        return ()

    def __rich__(self) -> RenderableType:
        """State and nodes, the progress bar, the metrics."""
        job, counts = self.model.job, self.model.counts
        if job is None:
            return Text("Submitted …", "dim")
        overview = JobOverview(job, datetime.now(timezone.utc), counts=counts)
        running = counts and counts.running_node_count
        nodes = f"{running} of {job.spec.node_count} running" if running else ""
        facts = " · ".join(filter(None, (overview.elapsed, overview.title, nodes, self.model.wait_reason)))
        state = (job.word, STATE_STYLES.get(job.word, ""))
        rows: list[RenderableType] = [Text.assemble((job.id.name, "bold"), "  ", state, "  ", visible(facts))]
        if progress := self.model.progress:
            grid = RichTable.grid(padding=(0, 1))
            bar = ProgressBar(total=100, completed=progress.percent, width=_BAR_WIDTH)
            grid.add_row(bar, Text(visible(progress.sentence(time.time()))))
            rows.append(grid)
        if self._metrics:
            rows.append(Text(visible(self._metrics), "bold"))
        return Group(*rows)

    def _find_metrics(self) -> None:
        """Finds the metrics, the headline first, at most once a second and for a small share of the time."""
        start = time.monotonic()
        if start < self._metrics_due_at or not self.model.numbers:
            return
        metrics = RunMetrics(self.model.numbers.table, self.model.preferences).summaries
        texts = [f"{metric.label} {metric.value_text}" for metric in metrics if not metric.is_timer]
        self._metrics = " · ".join(texts[:_MAX_METRICS])
        cost_s = time.monotonic() - start
        self._metrics_due_at = start + max(_METRICS_INTERVAL_S, cost_s / _MAX_METRICS_SHARE)


class LogLines:
    """Splits logs into lines for a terminal, each after the number of its rank if there are several."""

    def __init__(self, paths: SourcePaths = NO_PATHS) -> None:
        self.has_ranks = False
        self._paths = paths
        self._partial_lines: dict[tuple[str, int | None], bytes] = {}

    def feed(self, file: str, chunk: Chunk) -> Iterator[Text]:
        """The lines that a chunk completes."""
        pieces: list[tuple[int | None, bytes]] = [
            (span.rank, chunk.data[max(0, span.start - chunk.offset) : span.end - chunk.offset])
            for span in chunk.spans
        ]
        for rank, data in pieces or [(None, chunk.data)]:
            data = self._partial_lines.pop((file, rank), b"") + data
            end = whole_lines_end(data)
            self._partial_lines[file, rank] = data[end:]
            for first, last in line_bounds(data[:end]):
                yield self._line(file, rank, data[first:last])

    def finish(self) -> Iterator[Text]:
        """The last lines, which lack a newline."""
        for (file, rank), data in self._partial_lines.items():
            if visible_text(data):
                yield self._line(file, rank, data)
        self._partial_lines.clear()

    def _line(self, file: str, rank: int | None, line: bytes) -> Text:
        filter = TerminalText()
        safe = filter.feed(visible_text(self._paths.bytes_with_user_paths(line))) + filter.finish()
        text = Text.from_ansi(safe.decode("utf-8", errors="replace"), style="dim" if file == ERR else "")
        if rank is None or not self.has_ranks:
            return text
        return Text.assemble((f"{rank:>2} │ ", RANK_STYLES[rank % len(RANK_STYLES)]), text)
