"""Why a job failed: the process, the location in the user's code, the exception and the last lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

MAX_BYTES = 2048  # of the JSON of an error
MAX_TEXT = 300  # characters of an exception, a reason or a line
FIRST_LINE = 2  # of the script in its cell; the magic line is line 1
MAX_LINES, MAX_HINTS = 12, 2

TRACEBACK = "Traceback (most recent call last):"
_START = re.compile(rf"^(?P<prefix>.*?)(?:Exception Group |Original )?{re.escape(TRACEBACK)}\s*$")
_IGNORED = re.compile(r"Exception ignored |Exception in thread ")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)')
_UNREADABLE = re.compile(r"(?:Syntax|Indentation|Tab)Error: ")
_LAST_ERROR, _MESSAGE_LINES = "Last error:", 5
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/|^<|(?:^|/)run_(?:cell|function|script|ranks)\.py$"
)
NOT_STARTED = (126, 127)  # exit codes of a shell that cannot start a command, and prints its name
_SHELL = re.compile(r"^(?:/\S*/)?\w*sh: (?:line )?\d+: ")
_ERROR_WORDS = re.compile(
    r"error|fatal|fail|exception|cannot|can't|no such|not found|denied|abort|unrecogni[sz]ed", re.IGNORECASE
)
_CELL = re.compile(r"In\[\d+\]")  # of a notebook, as `cell.definition_source` names it
_PLACE = re.compile(r'File "(?P<file>[^"/\\\n]+)", line (?P<line>\d+)')


class RaisedError(NamedTuple):
    """An exception as a traceback prints it, and where the user's code raised it."""

    exception: str
    file: str = ""
    line: int = 0


def is_library(file: str) -> bool:
    """Whether a file of Python code belongs to an installed package, to Python, or to a script's starter."""
    return _LIBRARY.search(file) is not None


def raised_in(lines: Sequence[str]) -> RaisedError | None:
    """The exception of the last traceback in these lines, and its innermost location outside of libraries.

    Exceptions that Python ignores or raises in another thread count only if there are no others. A prefix of
    all lines of a traceback, such as `[rank0]: `, is removed.
    """
    starts = [(index, match["prefix"]) for index, line in enumerate(lines) if (match := _START.match(line))]
    fatal = [start for start in starts if not (start[0] and _IGNORED.search(lines[start[0] - 1]))]
    for index, prefix in reversed(fatal or starts):
        if error := _raised([line.removeprefix(prefix) for line in lines[index + 1 :]]):
            return error
    return None if starts else _syntax_error(lines)


def _raised(lines: Sequence[str]) -> RaisedError | None:
    """The exception below the frames of a traceback."""
    frames: list[tuple[str, int]] = []
    for index, line in enumerate(lines):
        if match := _FRAME.match(line):
            frames.append((match["file"], int(match["line"])))
        elif frames and line[:1].strip():
            user_frames = [frame for frame in frames if not is_library(frame[0])] or frames
            return RaisedError(_message(lines[index:])[:MAX_TEXT], *user_frames[-1])
    return None


def _message(lines: Sequence[str]) -> str:
    """An exception in one line; the text after a colon, or NCCL's last error, is on a later line."""
    first, *other_lines = [line.strip() for line in lines[:_MESSAGE_LINES] if line.strip()]
    if _LAST_ERROR in other_lines[:-1]:
        return f"{first}: {other_lines[other_lines.index(_LAST_ERROR) + 1]}"
    return f"{first} {other_lines[0]}" if other_lines and first.endswith(":") else first


def _syntax_error(lines: Sequence[str]) -> RaisedError | None:
    """The error of a script that Python cannot read, which has no heading."""
    ends = [index for index, line in enumerate(lines) if _UNREADABLE.match(line)]
    return _raised(lines[max(0, ends[-1] - 4) : ends[-1] + 1]) if ends else None


class SourcePaths(NamedTuple):
    """Translates paths in a job's copy of the user's files into the user's own paths."""

    folder: str = ""  # the name of the folder with the copy that was sent; empty without one
    run: str = ""  # the name of the run's folder, in which working directories are
    script: str = ""  # the file name of a cell's script, whose lines are the cell's; else empty

    def with_user_paths(self, line: str) -> str:
        """The line with paths in the copy as the user's own."""
        if not any(name and name in line for name in (self.folder, self.run)):
            return line
        return re.sub(self.copies, "", line)

    @property
    def copies(self) -> str:
        """A regular expression (Python, JavaScript) for the prefix of the user's own paths; maybe empty."""
        folders = [re.escape(self.folder)] * bool(self.folder)
        folders += [rf"{re.escape(self.run)}/workdir/[^/\"'\n]+"] * bool(self.run)
        copy = f"(?:{'|'.join(folders)})/"
        quoted, bare = rf"(?<=[\"'])/[^\"'\n]*?{copy}", rf"(?<![^\s(=:,<])/(?!/)[^\s\"']*?{copy}"
        return f"{quoted}|{bare}" if folders else ""

    def bytes_with_user_paths(self, data: bytes) -> bytes:
        """The bytes of a log with paths in the copy as the user's own."""
        if not any(name and name.encode() in data for name in (self.folder, self.run)):
            return data
        text = data.decode("utf-8", errors="surrogateescape")
        return self.text_with_user_paths(text).encode("utf-8", errors="surrogateescape")

    def text_with_user_paths(self, text: str) -> str:
        """The text with paths in the copy as the user's own."""
        return "\n".join(map(self.with_user_paths, text.split("\n")))

    def with_cell_line(self, line: str) -> str:
        """The line with paths as the user's own; one that refers to the cell's script names the cell line."""
        line = self.with_user_paths(line)
        match = _PLACE.search(line) if self.script else None
        if match is None or match["file"] != self.script:
            return line
        return f"{line}  ← line {int(match['line']) + FIRST_LINE - 1} of the cell"

    def location(self, raised: RaisedError) -> str:
        """Where an exception was raised: `cell line 11`, `train.py:3`."""
        file = self.with_user_paths(f'"{raised.file}"').strip('"')
        if _CELL.fullmatch(file):
            return f"cell {file}, line {raised.line}"
        if file == self.script:
            return f"cell line {raised.line + FIRST_LINE - 1}"
        return f"{file}:{raised.line}"


NO_PATHS = SourcePaths()


def traceback_sign(raised: RaisedError, paths: SourcePaths) -> str:
    """The sentence for a job that continues although an exception was printed."""
    return f"stderr has a traceback, and the job goes on: {paths.location(raised)}: {raised.exception}"


class LastOutput(NamedTuple):
    """The last lines of a log, without secrets and control characters."""

    file: str
    lines: tuple[str, ...] = ()

    @property
    def last_line(self) -> str:
        """The last line with text; empty without any."""
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "")


class JobError(NamedTuple):
    """Why a job failed; its JSON has at most `MAX_BYTES`."""

    job: str
    reason: str  # what ended it, in one line: an exception, a signal, the service's message
    seconds: float | None = None  # how long it ran; None if it did not start
    rank: int | None = None  # the process that failed first; None if none did
    node: str = ""  # the short name of its node, or of the one whose preparation failed
    exit_code: int | None = None  # its exit code, or the job's; None without one
    place: str = ""  # where in the cell or script: `cell line 11`, `train.py:3`; empty if unknown
    exception: str = ""  # the exception as Python prints it; empty if there was none
    log: str = ""  # the file that `lines` are from
    lines: tuple[str, ...] = ()  # the last lines of that process
    hints: tuple[str, ...] = ()  # what may help

    @property
    def sentence(self) -> str:
        """The failure in one line: `boom failed after 12 s: rank 2, cell line 11: KeyError: 'labels'`."""
        after = "" if self.seconds is None else f" after {elapsed_text(self.seconds)}"
        return f"{self.job} failed{after}: {self.cause}"

    @property
    def cause(self) -> str:
        """The failure without job and time: `rank 2, cell line 11: KeyError: 'labels'`."""
        rank = "" if self.rank is None else f"rank {self.rank}"
        where = ", ".join(filter(None, (rank, self.place)))
        return f"{where}: {self.reason}" if where else self.reason

    def to_data(self) -> dict[str, Any]:
        """The error as JSON, without unknown fields."""
        fields = {
            "message": self.sentence,
            "rank": self.rank,
            "node": self.node,
            "exit_code": self.exit_code,
            "place": self.place,
            "exception": self.exception,
            "log": self.log,
            "lines": list(self.lines),
            "hints": list(self.hints),
        }
        return {name: value for name, value in fields.items() if value not in (None, "", [])}

    def bounded(self) -> JobError:
        """The error with as many last lines as there is room for."""
        error = self._replace(
            reason=cut(self.reason),
            exception=cut(self.exception),
            place=cut(self.place),
            lines=tuple(map(cut, self.lines)),
            hints=tuple(map(cut, self.hints[:MAX_HINTS])),
        )
        while error.lines:
            text = json.dumps(error.to_data(), ensure_ascii=False)
            if len(text.encode(errors="replace")) <= MAX_BYTES:
                break
            error = error._replace(lines=error.lines[1:])
        return error

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {line}" for line in self.lines), *self.hints])

    def __repr__(self) -> str:
        return f"<JobError: {self.sentence}>"


class FailedProcess(NamedTuple):
    """The process that failed first: its rank, its node, its exit code and what that means, if known."""

    rank: int
    node: str
    exit_code: int
    meaning: str = ""


def error_of_process(
    process: FailedProcess, outputs: Sequence[LastOutput], paths: SourcePaths = NO_PATHS
) -> JobError:
    """Why a process failed, from its last output on stderr, then on stdout; without the job's name."""
    raised = [(output, exception) for output in outputs if (exception := raised_in(output.lines))]
    output = (
        raised[0][0] if raised else next((candidate for candidate in outputs if candidate.last_line), None)
    )
    error = JobError(
        job="",
        reason=_exit_reason(process, output),
        rank=process.rank,
        node=process.node,
        exit_code=process.exit_code,
        log=output.file if output else "",
        lines=_shown_lines(output, paths),
    )
    if not raised:
        return error
    text = paths.with_user_paths(raised[0][1].exception)
    return error._replace(reason=text, exception=text, place=paths.location(raised[0][1]))


def _exit_reason(process: FailedProcess, output: LastOutput | None) -> str:
    """Why a process without an exception failed: its exit code, and its last line if that is an error."""
    text, last = f"exit code {process.exit_code}", output.last_line if output else ""
    line = _SHELL.sub("", last) if _ERROR_WORDS.search(last) else ""
    if process.meaning and not (line and process.exit_code in NOT_STARTED):
        return f"{text}: {process.meaning}"
    return f"{text}: {line}" if line else text


def error_of_preparation(node: str, exit_code: int | None, output: LastOutput | None, step: str) -> JobError:
    """Why a `step`, a setup task or preparation, failed on a node; without the job's name."""
    last = output.last_line if output else ""
    place = f"{step} on {node}" if node else step
    reason = last or ("no exit code" if exit_code is None else f"exit code {exit_code}")
    error = JobError("", reason, node=node, exit_code=exit_code, place=place)
    return error._replace(log=output.file if output else "", lines=_shown_lines(output, NO_PATHS))


def _shown_lines(output: LastOutput | None, paths: SourcePaths) -> tuple[str, ...]:
    lines = [paths.with_cell_line(line) for line in (output.lines if output else ())]
    return tuple(lines[-MAX_LINES:])


def cut(text: str) -> str:
    """The text with at most `MAX_TEXT` characters."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 2]} …"


def elapsed_text(seconds: float) -> str:
    """A duration of one or two units, as cards count it: `12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(0, int(seconds))
    for size, unit, smaller, small in ((3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + f" {rest} {small}" * bool(rest)
    return f"{whole} s"
