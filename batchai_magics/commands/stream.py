"""What a command tells while it goes on: messages, bytes of a log, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A line about what happens."""

    text: str


@dataclass(frozen=True)
class Logged:
    """Bytes of a job's file."""

    data: bytes


@dataclass(frozen=True)
class Ended:
    """The end: the exit code of the job, and in one line what became of it."""

    exit_code: int
    text: str = ""


@dataclass(frozen=True)
class Stream:
    """A command that goes on; `way_back` is the command that takes it up again after an interruption."""

    parts: Iterator[Said | Logged | Ended]
    way_back: str

    @property
    def farewell(self) -> str:
        """What to say to somebody who stops watching."""
        return f"Stopped watching; the job is left as it is. To come back: {self.way_back}"
