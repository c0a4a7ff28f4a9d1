"""Views of a job outside of notebooks: its own page, and recordings."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

from batchai_magics.jobs import argument_checks
from batchai_magics.jobs.job_record import JobRecord
from batchai_magics.user_ports import PAGES, ServedPage

HTML_SUFFIXES = (".html", ".htm")


class JobPages(JobRecord):
    """The part of a job's handle that shows it in a page of its own."""

    def open(self, *, browser: bool = True) -> ServedPage:
        """Opens the live view as a page of its own, served by this process on 127.0.0.1.

        Args:
            browser: Whether to open it in the default browser.

        Returns:
            The page: `url` is its address, `close()` ends it.

        Raises:
            NotFoundError: The job was deleted.
        """
        argument_checks.check_flag("job.open", "browser", browser)
        page = PAGES.get().open_job(self)
        if browser:
            webbrowser.open(page.url)
        return page

    def record(self, to: str | Path = "") -> Path:
        """Records what the view shows, until the job has ended or an interrupt: states, log, metrics, usage.

        What looks like a secret is replaced by asterisks. A recording replays without the job, in
        `batchai open FILE` or, if `to` ends in `.html`, in any browser.

        Args:
            to: The file, by default `NAME.batchai`.

        Returns:
            The file, which is complete or does not exist.

        Raises:
            StorageError: The file cannot be written.
        """
        argument_checks.check_path("job.record", "to", to)
        return record_job(self, Path(to or f"{self.id.name}.batchai"))


def record_job(job: JobPages, target: Path, *, is_report: bool = False) -> Path:
    """Records a job to a file; a report has versions and settings in its header."""
    views = PAGES.get()
    extra = views.settings_report() if is_report else {}
    if target.suffix not in HTML_SUFFIXES:
        return views.record(job, target, extra=extra)
    with TemporaryDirectory() as folder:
        return views.export_html(views.record(job, Path(folder) / "recording", extra=extra), target)
