"""What a backend asks of a machine: commands, and the folders there as paths."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from batchai_magics.backends.base import CommandBytes


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Line:
    """A command: its words, its environment, and the folder that it runs in (empty: any)."""

    words: Sequence[str]
    env: Mapping[str, str]
    folder: str = ""


class Machine(Protocol):
    """A machine. Where it is elsewhere, everything may raise UnreachableError."""

    @property
    def name(self) -> str:
        """What people call it: `this machine`, or the host that `ssh` is given."""

    @property
    def user(self) -> int:
        """The number of the user that commands run as."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that a command has there by itself."""

    @property
    def python(self) -> str:
        """The Python of this package, or the one that was found there."""

    @property
    def first_on_path(self) -> str:
        """The folder that has to come first on PATH for `python` to be that one; empty where it is so."""

    def folder(self, path: PurePath) -> Path:
        """An absolute path there; `~` is the user's folder."""

    def has(self, program: str) -> bool:
        """Whether there is a program of that name."""

    def run(self, line: Line, *, timeout_s: float, answer: Path | None = None) -> Done:
        """Runs a command to its end; TimeoutError when that takes too long.

        With a folder for its answer, which is not there, it runs once, however often a connection breaks
        meanwhile: what it wrote is kept there until it is here. Without, it may run again.
        """

    def started(self, line: Line, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; gives what it writes as it comes, and at last its exit code.

        Its standard input is open as long as somebody reads: it ends when the generator is closed. With
        `tick_s` no bytes at all are given whenever nothing came for so long.
        """

    def together(
        self, folders: Collection[Path], files: Collection[Path] = (), *, listed: Collection[Path] = ()
    ) -> AbstractContextManager[None]:
        """Within it, this thread may be answered from what was in these folders, and at these paths.

        Of what is in folders that are `listed` no bytes are wanted.
        """

    def close(self) -> None:
        """Lets go of what is held open."""
