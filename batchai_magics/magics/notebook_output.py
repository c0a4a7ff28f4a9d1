"""Notebook output while a command runs, and interrupt handling."""

from __future__ import annotations

import codecs
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    Message,
    Stream,
    StreamParts,
)
from batchai_magics.commands.output.terminal_text import TerminalText
from batchai_magics.errors import BatchAIError, JobFailedError, interrupt_error, visible_lines
from batchai_magics.models.job_execution import ERR, OUT

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


_GRACE_S = 3.0  # a second interrupt within this time cancels the job


def print_stream(stream: Stream) -> None:
    """Print the output of a running command. An interrupt stops following, not the job.

    A command on a node, however, ends with the interrupt.

    Raises:
        JobFailedError: The followed job failed.
    """
    try:
        failed = _print_parts(stream.parts)
    except KeyboardInterrupt:
        raise interrupt_error(stream.interrupt_message.replace("batchai ", "%batchai ", 1)) from None
    if failed:
        raise JobFailedError(failed.text, exit_code=failed.exit_code)


def wait_for_job(job: Job, show: Callable[[Job], None], *, prints_log: bool) -> None:
    """Show a job and block until it has ended.

    Raises:
        JobFailedError: The job failed.
    """
    parts = watch_job(job.backend, job.id, logs=(OUT, ERR) if prints_log else ())
    try:
        show(job)
        failed = _print_parts(
            parts if prints_log else (part for part in parts if isinstance(part, CommandExit))
        )
    except KeyboardInterrupt:
        raise _detach_error(job) from None
    if failed:
        hint = "" if prints_log else f"Its log: %batchai logs {job.name}"
        raise JobFailedError(failed.text, exit_code=failed.exit_code, hint=hint)


def _print_parts(parts: StreamParts) -> CommandExit | None:
    """Print all parts; return the failed ending, if any."""
    failed: CommandExit | None = None
    texts = {False: _NotebookText(), True: _NotebookText()}
    with closing(parts):
        for part in parts:
            if isinstance(part, CommandExit):
                failed = failed or (part if part.exit_code else None)
            elif isinstance(part, Message):
                print(visible_lines(part.text))
            else:
                target = sys.stderr if part.is_error else sys.stdout
                target.write(texts[part.is_error].feed(part.data))
    return failed


class _NotebookText:
    """Decodes one byte stream for notebook output: keeps colours, drops other terminal controls."""

    def __init__(self) -> None:
        self._terminal = TerminalText()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(self._terminal.feed(data))


def _detach_error(job: Job) -> BatchAIError:
    """The error after an interrupted wait: detached, or cancelled by a second interrupt."""
    back = f"%batchai job show -n {job.name}"
    try:
        print(f"Detached: {job.name} keeps running. Interrupt again within {_GRACE_S:.0f} s to cancel it.")
        threading.Event().wait(_GRACE_S)
    except KeyboardInterrupt:
        job.cancel()
        return interrupt_error(f"Cancelling {job.name}. To see it: {back}")
    return interrupt_error(f"Stopped waiting; {job.name} is not affected. To see it again: {back}")
