"""What a notebook says while a command goes on, and when somebody interrupts it."""

from __future__ import annotations

import codecs
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from batchai_magics.commands.handlers.waiting import waiting
from batchai_magics.commands.output.stream import Ended, Logged, Parts, Said, Stream
from batchai_magics.commands.output.terminal import TerminalText
from batchai_magics.errors import BatchAIError, JobFailedError, interrupt_error, visible_lines
from batchai_magics.models.execution import ERR, OUT

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

_GRACE_S = 3.0  # between the interrupt that detaches and the one that ends the job


def tell(notes: Iterable[str]) -> None:
    """Says what people should know beside a result."""
    for note in notes:
        print(visible_lines(note))  # not to stderr, which a notebook shows as an error


def follow(stream: Stream) -> None:
    """Prints what a command tells while it goes on; an interrupt stops the watching, not the job.

    A command on a node ends then.
    """
    try:
        failed = _printed(stream.parts)
    except KeyboardInterrupt:
        raise interrupt_error(stream.farewell.replace("batchai ", "%batchai ", 1)) from None
    if failed:
        raise JobFailedError(failed.text, exit_code=failed.exit_code)


def wait(job: Job, show: Callable[[Job], None], *, is_told: bool) -> None:
    """Shows a job, and prints what it does and its log if `is_told`, until it has ended."""
    parts = waiting(job.backend, job.id, logs=(OUT, ERR) if is_told else ())
    try:
        show(job)
        failed = _printed(parts if is_told else (part for part in parts if isinstance(part, Ended)))
    except KeyboardInterrupt:
        raise _detached(job) from None
    if failed:
        hint = "" if is_told else f"What it wrote: %batchai job file stream -j {job.name} -f {ERR}"
        raise JobFailedError(failed.text, exit_code=failed.exit_code, hint=hint)


def _printed(parts: Parts) -> Ended | None:
    """Prints what is told, to the end; how it failed, if it did."""
    failed: Ended | None = None
    texts = {False: _Text(), True: _Text()}
    with closing(parts):
        for part in parts:
            if isinstance(part, Ended):
                failed = failed or (part if part.exit_code else None)
            else:
                _print(part, texts)
    return failed


class _Text:
    """One stream of bytes as the text that an output shows: colours stay, nothing steers what shows it."""

    def __init__(self) -> None:
        self._terminal = TerminalText()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(self._terminal.feed(data))


def _print(part: Said | Logged, texts: Mapping[bool, _Text]) -> None:
    if isinstance(part, Said):
        print(visible_lines(part.text))
        return
    target = sys.stderr if part.is_error else sys.stdout
    target.write(texts[part.is_error].feed(part.data))


def _detached(job: Job) -> BatchAIError:
    """What an interrupted wait comes to: detached, or the job ended when a second interrupt follows."""
    back = f"%batchai job show -n {job.name}"
    try:
        print(f"Detached: {job.name} runs on. Interrupt again within {_GRACE_S:.0f} s to end it.")
        threading.Event().wait(_GRACE_S)
    except KeyboardInterrupt:
        job.cancel()
        return interrupt_error(f"{job.name} was told to end. To see it: {back}")
    return interrupt_error(f"Stopped waiting; {job.name} is left as it is. To come back: {back}")
