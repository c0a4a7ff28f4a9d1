"""Every error of the package; each says what happened, to what, and what to do next.

BatchAIError
├── UsageError            the line or the cell was written wrongly; nothing was done
│   ├── SpecError         a job or cluster description has problems, all listed with their paths
│   └── ScriptError       the cell's script is no valid Python; names the cell's line
├── ServiceError          the backend said no; has the service's code where there is one
│   ├── NotFoundError     JobNotFound, ClusterNotFound, WorkspaceNotFound, …
│   ├── ConflictError     a different thing already exists under that name
│   ├── CapabilityError   this backend cannot do what the description asks for
│   ├── UnreachableError  nobody answers, or too late; it may be over in a moment
│   └── StorageError      the disk or the share refused (full, read-only, not allowed)
│       └── FileChangedError  the file was cut or replaced while it was read
└── JobFailedError        the job ended, not well; carries its exit code
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

INTERRUPTED = 130
LONGEST_QUOTE = 60

# What steers a terminal or the direction of its text, ends a line, or cannot be written at all.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSEEN_WITHIN_LINES = re.compile(_UNSEEN.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))

DISK_FULL = "DiskFull"  # the code of an error that says so
_FULL = (errno.ENOSPC, errno.EDQUOT)


class BatchAIError(Exception):
    """The root: a message, a hint on what to do next, and an exit code for the shell."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return visible_lines(f"{self.message}\n{self.hint}" if self.hint else self.message)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: our lines only; the cell still fails."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(BatchAIError):
    """The line or the cell was written wrongly; nothing was done."""

    exit_code = 2


class Problem(NamedTuple):
    """One thing wrong in a description: where (a wire path), what, and how to mend it."""

    path: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message}" + (f" ({self.fix})" if self.fix else "")


class SpecError(UsageError):
    """A job or cluster description, `what`, has problems; `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem], *, what: str) -> None:
        self.problems, self.what = tuple(problems), what
        count = "one problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{what} has {count}:\n{lines}", hint="Nothing was written or submitted.")


class ScriptError(UsageError):
    """The cell's script is no valid Python; `line` counts from the magic line, which is line 1."""

    def __init__(self, message: str, *, line: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line


class ServiceError(BatchAIError):
    """The backend refused; `code` is the service's error code (`JobNotFound`, …) or empty."""

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code

    def __str__(self) -> str:
        text = super().__str__()
        return f"({self.code}) {text}" if self.code else text


class NotFoundError(ServiceError):
    """The named resource does not exist."""

    exit_code = 3


class ConflictError(ServiceError):
    """Something different already exists under that name, or its state forbids the request."""


class CapabilityError(ServiceError):
    """This backend cannot do what the description asks for; the message names the field."""


class UnreachableError(ServiceError):
    """Nobody answers at a service's address, or too late; it may be over in a moment."""


class StorageError(ServiceError):
    """The disk or the share refused: full, read-only, or a path outside of it."""


class FileChangedError(StorageError):
    """A file was cut or replaced while it was read: what was read is of two files."""


class JobFailedError(BatchAIError):
    """A job that was waited for did not succeed; `exit_code` is the job's own (255 if none)."""

    def __init__(self, message: str, *, exit_code: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 255 if exit_code is None else exit_code


def join_path(prefix: str, part: str | int) -> str:
    """Where `part` of a description or an answer is, inside `prefix`: `a.b`, `a[0]`."""
    if isinstance(part, int):
        return f"{prefix}[{part}]"
    return f"{prefix}.{part}" if prefix else part


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A guess for a misspelt word, as `did you mean "x"?`, or an empty string when none is near."""
    import difflib  # only for who has made a mistake

    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f'did you mean "{by_lower[near[0]]}"?' if near else ""


def quoted(value: object) -> str:
    """A value as a message repeats it: as Python writes it, and none too long."""
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


@contextlib.contextmanager
def naming_files() -> Iterator[None]:
    """What the system says of a file that somebody named becomes an error of ours."""
    try:
        yield
    except OSError as error:
        if error.filename is None:  # about no file: a pipe that was closed
            raise
        raise StorageError(f"{quoted(str(error.filename))}: {error.strerror or error}") from error
    except RuntimeError as error:  # of Path.expanduser
        if "home directory" not in str(error):
            raise
        raise UsageError("a path begins with ~ and the name of nobody who has a home here") from error


def visible(text: str) -> str:
    r"""A name as one line of plain text: `\x1b`, `\n` or `\u202e` for what a terminal obeys, not shows."""
    return _UNSEEN.sub(_written_out, text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines."""
    return _UNSEEN_WITHIN_LINES.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def refusal(message: str, *, hint: str = "") -> UsageError:
    """An error for a line that is well-formed but cannot be carried out; exit code 1 as in `az`."""
    error = UsageError(message, hint=hint)
    error.exit_code = 1
    return error


def interrupted(message: str) -> BatchAIError:
    """What an interrupt comes to: how things stand and how to go on; exit code 130."""
    error = BatchAIError(message)
    error.exit_code = INTERRUPTED
    return error


def is_of_a_full_disk(error: Exception) -> bool:
    """Whether there was no room, as the system says it or, by its code, a store."""
    return getattr(error, "errno", None) in _FULL or getattr(error, "code", "") == DISK_FULL
