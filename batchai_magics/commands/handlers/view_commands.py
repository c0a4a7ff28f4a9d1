"""`batchai open`, `record` and `bug-report`."""

from __future__ import annotations

import html
import time
import webbrowser
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_progress import Message, Stream, StreamParts
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job, record_job
from batchai_magics.user_ports import PAGES, ServedPage

SUFFIX = ".batchai"
POLL_S = 1.0


def open_page(context: Context, arguments: Namespace) -> Stream:
    """Serves the page of all jobs, of one job or of a recording until an interrupt."""
    is_read_only = arguments.read_only
    if not arguments.name:
        if arguments.html:
            raise UsageError("--html goes with a recording", hint="Name its file.")
        experiment = context.experiment(arguments)
        page = PAGES.get().open_jobs(context.backend, experiment, is_read_only=is_read_only)
        return _open(page, arguments, "Closed the page; the jobs are not affected.")
    path = Path(arguments.name)
    is_recording = path.suffix == SUFFIX or path.is_file()
    if arguments.html:
        if not is_recording:
            raise UsageError(
                "--html goes with a recording", hint=f"record the job first: batchai record {path}"
            )
        target = PAGES.get().export_html(path, Path(arguments.html))
        return Stream((part for part in [Message(f"Wrote {target}.", {"path": str(target)})]), "")
    if is_recording:
        page = PAGES.get().open_recording(path)
    else:
        page = PAGES.get().open_job(_job(context, arguments), is_read_only=is_read_only)
    return _open(page, arguments, "Closed the page; the job is not affected.")


def _open(page: ServedPage, arguments: Namespace, closing: str) -> Stream:
    is_shown = not arguments.no_browser
    return Stream(
        _serve_page(page, is_shown=is_shown),
        closing,
        in_notebook=partial(OpenedPage.open, page, is_shown=is_shown),
    )


def record(context: Context, arguments: Namespace) -> Stream:
    """Records a job until it has ended."""
    job = _job(context, arguments)
    return Stream(_record_job(job, Path(arguments.to or f"{job.name}{SUFFIX}"), is_report=False), "")


def bug_report(context: Context, arguments: Namespace) -> Stream:
    """Records a job with versions and settings."""
    job = _job(context, arguments)
    return Stream(_record_job(job, Path(arguments.to or f"{job.name}-report{SUFFIX}"), is_report=True), "")


def _job(context: Context, arguments: Namespace) -> Job:
    return Job(context.backend, resource_commands.show_job(context, arguments).id)


@dataclass(frozen=True)
class OpenedPage:
    """A page that this process serves until it ends, or until `close()`."""

    page: ServedPage
    is_open: bool

    @classmethod
    def open(cls, page: ServedPage, *, is_shown: bool) -> OpenedPage:
        """Opens the page in the default browser, if there is one and it is to be shown."""
        return cls(page, is_shown and webbrowser.open(page.url))

    @property
    def url(self) -> str:
        """Its address, with the token that gives access."""
        return self.page.url

    def close(self) -> None:
        """Ends the page."""
        self.page.close()

    def __repr__(self) -> str:
        return f"{'Opened' if self.is_open else 'Open'} {self.url}"

    def _repr_html_(self) -> str:
        address = html.escape(self.url)
        verb = "Opened" if self.is_open else "Open"
        return f'{verb} <a href="{address}" target="_blank" rel="noopener">{address}</a>'


def _serve_page(page: ServedPage, *, is_shown: bool) -> StreamParts:
    try:
        opened = OpenedPage.open(page, is_shown=is_shown)
        yield Message(f"{opened}\nCtrl-C closes the page.", {"url": page.url})
        while True:
            time.sleep(POLL_S)
    finally:
        page.close()


def _record_job(job: Job, target: Path, *, is_report: bool) -> StreamParts:
    if not job.is_done:
        yield Message(f"Recording {job.name} until it has ended. Ctrl-C stops it early.")
    path = record_job(job, target, is_report=is_report)
    yield Message(f"Recorded {job.name}: {path}", {"path": str(path)})
    if is_report:
        yield Message(
            "Secrets are masked, but it contains the log: review it before you attach it to an issue."
        )
