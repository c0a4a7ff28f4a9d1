"""What a command tells while it goes on: messages, bytes of a log, and how it ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A line about what happens."""

    text: str


@dataclass(frozen=True)
class Logged:
    """Bytes of a job's file, or of what a command wrote; `is_error` says that it was to its stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class Ended:
    """The end: the exit code of the job, and in one line what became of it."""

    exit_code: int
    text: str = ""


Parts = Generator[Said | Logged | Ended, None, None]


@dataclass(frozen=True)
class Stream:
    """A command that goes on; `farewell` is what to say to somebody who stops it.

    Whoever reads `parts` closes it, also when interrupted: that is what ends a command on a node.
    """

    parts: Parts
    farewell: str


def watching(parts: Parts, way_back: str) -> Stream:
    """A look at a job, which does not mind being watched; the command `way_back` takes it up again."""
    return Stream(parts, f"Stopped watching; the job is left as it is. To come back: {way_back}")
