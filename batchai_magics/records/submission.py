"""The record of a submission: code, arguments, variables, git state and environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from batchai_magics.untrusted_files import parse_json

VERSION = 1
MAX_TEXT = 512 << 10  # characters of the code
MAX_DIFF = 256 << 10  # characters of the uncommitted diff


class Code(NamedTuple):
    """The submitted code: a `cell`, a `file`, or the `description` of a job; `is_cut` if too long."""

    kind: str
    name: str
    text: str
    is_cut: bool = False


class Variable(NamedTuple):
    """A notebook variable that went with the job: its value if short, else its shape and digest."""

    type: str
    value: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    size_bytes: int = 0  # as it was sent
    digest: str = ""  # of the bytes sent


class GitState(NamedTuple):
    """The working tree that the job was submitted from; `problem` explains what is unknown."""

    commit: str = ""
    branch: str = ""
    remote: str = ""  # without credentials
    diff: str = ""  # against the commit
    is_diff_cut: bool = False
    untracked: tuple[str, ...] = ()
    problem: str = ""


class Submission(NamedTuple):
    """The record of a submission, without secrets."""

    code: Code
    submitted: float  # seconds since 1970
    line: str = ""  # the options, as they were written
    arguments: str = ""  # of the script
    variables: Mapping[str, Variable] = {}
    uploads: Mapping[str, str] = {}
    git: GitState | None = None  # None: not in a git repository
    environment: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()  # names only
    image: str = ""
    python: str = ""  # of the submitter
    package: str = ""  # version of batchai_magics there
    resubmitted: str = ""  # the run whose submission this repeats
    remedies: Mapping[str, str] = {}  # name or module that the script may lack (`module x`) → hint

    def to_text(self) -> str:
        """The text of the file `submission.json`."""
        data = self._asdict()
        data["code"] = self.code._asdict()
        data["variables"] = {name: variable._asdict() for name, variable in self.variables.items()}
        data["git"] = self.git._asdict() if self.git else None
        return json.dumps({"version": VERSION, **data}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str | bytes) -> Submission:
        """Reads the text of `to_text`; unknown fields of a newer version are ignored.

        Raises:
            ValueError: It is something else.
        """
        try:
            data = parse_json(text)
            nested = {
                "code": made(Code, data["code"]),
                "variables": {name: made(Variable, body) for name, body in data["variables"].items()},
                "git": made(GitState, data["git"]) if data.get("git") else None,
            }
            submission: Submission = made(cls, {**data, **nested})
            return submission
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the record of a submission: {error}") from None


def made(kind: Any, data: Mapping[str, Any]) -> Any:
    """A named tuple of this type from its known fields; lists become tuples."""
    known = {name: value for name, value in data.items() if name in kind._fields}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


def upload_name(path: str) -> str:
    """The path of an uploaded file beside the script, without the folder of the submission."""
    parts = path.split("/", 4)  # scripts/EXPERIMENT/JOB/DIGEST/…
    return parts[4] if parts[0] == "scripts" and len(parts) == 5 else path


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The first `limit` characters, and whether there were more."""
    return text[:limit], len(text) > limit


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or table, the length of a collection; empty for anything else."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, Sequence) and all(isinstance(size, int) for size in shape):
        return tuple(shape)
    return (len(value),) if isinstance(value, (list, tuple, dict, set, frozenset, bytes, str)) else ()
