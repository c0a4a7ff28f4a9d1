"""All errors of the package; each says what happened, to what, and what to do next.

BatchAIError
├── UsageError            the line or cell is invalid; nothing was done
│   ├── SpecError         a job or cluster description is invalid; lists all problems with their paths
│   └── ScriptError       the cell's script is not valid Python; has the cell's line
├── ServiceError          the backend rejected the request; has the service's error code, if any
│   ├── NotFoundError     JobNotFound, ClusterNotFound, WorkspaceNotFound, …
│   ├── ConflictError     a different resource already has this name
│   ├── CapabilityError   the backend cannot do what the description requires
│   ├── UnreachableError  the service does not respond in time; possibly transient
│   └── StorageError      the disk or share failed (full, read-only, permission denied)
│       └── FileChangedError  the file was truncated or replaced while it was read
└── JobFailedError        the job did not succeed; carries its exit code
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

INTERRUPTED = 130
_MAX_QUOTE = 60

# Terminal controls, bidirectional controls, line ends, and characters that cannot be encoded.
_UNSEEN = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_UNSEEN_WITHIN_LINES = _UNSEEN.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f")

DISK_FULL = "DiskFull"  # error code for a full disk
_FULL = (errno.ENOSPC, errno.EDQUOT)


class BatchAIError(Exception):
    """Base class: a message, a hint on what to do next, and an exit code for the shell."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return visible_lines(f"{self.message}\n{self.hint}" if self.hint else self.message)

    def _render_traceback_(self) -> list[str]:
        """Replaces IPython's traceback by our message; the cell still fails."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(BatchAIError):
    """The line or cell is invalid; nothing was done."""

    exit_code = 2


class Problem(NamedTuple):
    """One problem of a description: wire path, message, and how to fix it."""

    path: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        prefix = f"{self.path}: " if self.path else ""
        return f"{prefix}{self.message}" + (f" ({self.fix})" if self.fix else "")


class SpecError(UsageError):
    """A job or cluster description, named by `what`, is invalid; `problems` lists everything wrong."""

    def __init__(self, problems: Sequence[Problem], *, what: str) -> None:
        self.problems, self.what = tuple(problems), what
        count = "one problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{what} has {count}:\n{lines}", hint="Nothing was written or submitted.")


class ScriptError(UsageError):
    """The cell's script is not valid Python; `line` counts from the magic line, which is line 1."""

    def __init__(self, message: str, *, line: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line


class ServiceError(BatchAIError):
    """The backend rejected the request; `code` is the service's error code (`JobNotFound`, …) or empty."""

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
    """A different resource has this name, or the state of the resource forbids the request."""


class CapabilityError(ServiceError):
    """The backend cannot do what the description requires; the message names the field."""


class UnreachableError(ServiceError):
    """The service does not respond, or too late; possibly transient."""


class StorageError(ServiceError):
    """The disk or share failed: full, read-only, permission denied, or a path outside of it."""


class FileChangedError(StorageError):
    """A file was truncated or replaced while it was read, so the data mixes two files."""


class JobFailedError(BatchAIError):
    """A job did not succeed; `exit_code` is the job's (255 if it has none)."""

    def __init__(self, message: str, *, exit_code: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 255 if exit_code is None else exit_code


def join_path(prefix: str, part: str | int) -> str:
    """The path of `part` within `prefix`: `a.b`, `a[0]`."""
    if isinstance(part, int):
        return f"{prefix}[{part}]"
    return f"{prefix}.{part}" if prefix else part


def did_you_mean(word: str, choices: Iterable[str], *, likeness: float = 0.6) -> str:
    """A suggestion, `Did you mean "x"?`; empty if no choice is at least this similar to the word (0 to 1)."""
    import difflib  # slow to import, only needed for errors

    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=likeness)
    return f'Did you mean "{by_lower[near[0]]}"?' if near else ""


def quoted(value: object) -> str:
    """The repr of a value for a message, with limited length."""
    text = repr(value)
    return text if len(text) <= _MAX_QUOTE else f"{text[:_MAX_QUOTE]}…"


@contextlib.contextmanager
def translate_file_errors() -> Iterator[None]:
    """Turn OSErrors about files named by the user into errors of this package."""
    try:
        yield
    except OSError as error:
        if error.filename is None:  # not about a file, e.g. a broken pipe
            raise
        raise StorageError(f"{quoted(str(error.filename))}: {error.strerror or error}") from error
    except RuntimeError as error:  # from Path.expanduser
        if "home directory" not in str(error):
            raise
        raise UsageError("a path begins with ~ and the name of a user without a home directory") from error


def visible(text: str) -> str:
    r"""Escape control characters: a name as one line of text, with `\x1b`, `\n` or `\u202e` written out."""
    return text if text.isprintable() else re.sub(_UNSEEN, _escaped, text)  # long tables have many cells


def visible_lines(text: str) -> str:
    """The same for text of several lines, whose tabs and line ends stay."""
    return re.sub(_UNSEEN_WITHIN_LINES, _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def command_error(message: str, *, hint: str = "") -> UsageError:
    """An error for a valid line that cannot be executed; exit code 1 as in `az`."""
    error = UsageError(message, hint=hint)
    error.exit_code = 1
    return error


def interrupt_error(message: str) -> BatchAIError:
    """The error after an interrupt, exit code 130; the message says how to continue."""
    error = BatchAIError(message)
    error.exit_code = INTERRUPTED
    return error


class WaitInterrupted(KeyboardInterrupt):
    """An interrupt while waiting for a job; a notebook shows one line in place of the traceback."""

    def _render_traceback_(self) -> list[str]:
        """Replaces IPython's traceback by our message; the cell still fails."""
        return [visible_lines(str(self))]


def is_disk_full(error: Exception) -> bool:
    """Whether the disk is full, by errno or by error code."""
    return getattr(error, "errno", None) in _FULL or getattr(error, "code", "") == DISK_FULL
