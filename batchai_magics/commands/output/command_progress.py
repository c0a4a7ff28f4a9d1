"""What a running command reports: a stream of messages and log bytes, or an operation with a progress bar."""

from __future__ import annotations

import json
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import interrupt_error

if TYPE_CHECKING:
    from batchai_magics.models.resource_ids import ResourceId


@dataclass(frozen=True)
class Message:
    """A message line; `data` is what `-o json` adds to it, such as the path of a file."""

    text: str
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LogOutput:
    """Bytes of a job's file or of a command's output; `is_error` marks its stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class CommandExit:
    """The exit code of a job or command, and its outcome in one line."""

    exit_code: int
    text: str = ""


StreamParts = Generator[Message | LogOutput | CommandExit, None, None]


def json_lines(parts: StreamParts) -> StreamParts:
    """The same as one JSON object per line, for `-o json`: a message, a line of output, or the exit code."""
    pending: dict[bool, bytes] = defaultdict(bytes)  # an incomplete line of stdout or stderr
    try:
        for part in parts:
            if isinstance(part, LogOutput):
                *lines, pending[part.is_error] = (pending[part.is_error] + part.data).split(b"\n")
                yield from (_output_line(line, is_error=part.is_error) for line in lines)
            elif isinstance(part, Message):
                yield _json_line({"message": part.text, **part.data})
            else:
                yield from _incomplete_lines(pending)
                yield _json_line({"exitCode": part.exit_code, "outcome": part.text})
                yield part
        yield from _incomplete_lines(pending)
    finally:
        parts.close()


def _incomplete_lines(pending: dict[bool, bytes]) -> StreamParts:
    yield from (_output_line(line, is_error=is_error) for is_error, line in pending.items() if line)
    pending.clear()


def _output_line(line: bytes, *, is_error: bool) -> LogOutput:
    text = line.removesuffix(b"\r").decode(errors="replace")
    return _json_line({"line": text, **({"stderr": True} if is_error else {})})


def _json_line(data: Mapping[str, Any]) -> LogOutput:
    return LogOutput(f"{json.dumps(data, ensure_ascii=False)}\n".encode())


@dataclass(frozen=True)
class Stream:
    """The output of a long-running command; `interrupt_message` is printed when it is interrupted.

    The consumer must close `parts`, also on interrupt: that ends a command on a node. A notebook calls
    `in_notebook` instead, if there is one, and displays what it returns: the cell does not block.
    """

    parts: StreamParts
    interrupt_message: str
    in_notebook: Callable[[], Any] | None = None


def job_stream(parts: StreamParts, resume_command: str) -> Stream:
    """The stream of a job, which interrupting does not affect; `resume_command` is shown to resume it."""
    return Stream(parts, f"Stopped watching; the job keeps running. To resume: {resume_command}")


def resume_command(id: ResourceId, command: str) -> str:
    """The command line that resumes watching the job; it leaves out what a shell's settings choose anyway."""
    from batchai_magics.backends.base.backend_registry import load_settings  # slow

    settings = load_settings()  # without `%batchai use`, which a shell does not know
    scope = (
        ("-e", id.experiment, settings.experiment),
        ("-w", id.workspace, settings.workspace),
        ("-g", id.group, settings.resource_group),
    )
    options = (
        f" {flag} {shlex.quote(name)}" for flag, name, default in scope if name.lower() != default.lower()
    )
    return f"batchai {command} {id.name}{''.join(options)}"


BYTES = "B"


@dataclass(frozen=True)
class Operation:
    """The steps of a long operation; the generator returns the resulting value.

    Each step yields how much of `total` it did, in `unit`s. `resume_hint` is shown on interrupt.
    """

    title: str
    total: int
    unit: str
    steps: Generator[int, None, Any]
    resume_hint: str
    is_quiet: bool = False  # --no-progress


def run_operation(operation: Operation, *, is_shown: bool, delay_s: float = 0.5) -> Any:
    """Runs an operation and returns its value; Ctrl-C raises an error that says how to resume.

    One that is done within `delay_s` shows no bar.
    """
    try:
        return _run_with_bar(operation, is_shown=is_shown and not operation.is_quiet, delay_s=delay_s)
    except KeyboardInterrupt:
        operation.steps.close()
        raise interrupt_error(f"Stopped. {operation.resume_hint}") from None


def _run_with_bar(operation: Operation, *, is_shown: bool, delay_s: float) -> Any:
    from tqdm import tqdm

    bar = tqdm(
        total=operation.total,
        desc=operation.title,
        unit=operation.unit,
        unit_scale=operation.unit == BYTES,
        delay=delay_s,
        miniters=0,  # keep the elapsed time moving
        disable=not is_shown,
        file=sys.stderr,
    )
    with bar:
        while True:
            try:
                amount = next(operation.steps)
            except StopIteration as end:
                return end.value
            bar.update(amount)
