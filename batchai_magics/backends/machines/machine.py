"""A machine that a backend runs commands on: the protocol, and this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from batchai_magics.backends.base import CommandBytes
from batchai_magics.backends.folders.command_output import output_of


class CompletedCommand(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class CommandLine:
    """A command: its words, its environment, and the folder that it runs in (empty: any)."""

    arguments: Sequence[str]
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
    def path_prefix(self) -> str:
        """The folder that has to come first on PATH for `python` to be that one; empty where it is so."""

    def resolve(self, path: PurePath) -> Path:
        """An absolute path there; `~` is the user's folder."""

    def has_program(self, program: str) -> bool:
        """Whether there is a program of that name."""

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command to its end; TimeoutError when that takes too long.

        With a folder for its answer, which is not there, it runs once, however often a connection breaks
        meanwhile: what it wrote is kept there until it is here. Without, it may run again.
        """

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; gives what it writes as it comes, and at last its exit code.

        Its standard input is open as long as somebody reads: it ends when the generator is closed. With
        `tick_s` no bytes at all are given whenever nothing came for so long.
        """

    def prefetched(
        self, folders: Collection[Path], files: Collection[Path] = (), *, listed: Collection[Path] = ()
    ) -> AbstractContextManager[None]:
        """Within it, this thread may be answered from what was in these folders, and at these paths.

        Of what is in folders that are `listed` no bytes are wanted.
        """

    def close(self) -> None:
        """Lets go of what is held open."""


ENDING_S = 10.0  # what a command gets to end when nobody reads it any more


class LocalMachine:
    """The machine that this process runs on."""

    name = "this machine"

    @property
    def user(self) -> int:
        """The number of the user of this process."""
        return os.getuid()

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of this process."""
        return os.environ

    @property
    def python(self) -> str:
        """The Python of this process."""
        return sys.executable

    @property
    def path_prefix(self) -> str:
        """The folder of the Python of this process."""
        return str(Path(sys.executable).parent)

    def resolve(self, path: PurePath) -> Path:
        """An absolute path."""
        return Path(path).expanduser().absolute()

    def has_program(self, program: str) -> bool:
        """Whether there is a program of that name."""
        return shutil.which(program) is not None

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command to its end; TimeoutError when that takes too long."""
        program = shutil.which(line.arguments[0])
        if program is None:
            raise FileNotFoundError(line.arguments[0])
        try:
            done = subprocess.run(
                [program, *line.arguments[1:]],
                env=line.env,
                cwd=line.folder or None,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return CompletedCommand(done.returncode, done.stdout, done.stderr)

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; gives what it writes as it comes, and at last its exit code."""
        child = subprocess.Popen(
            line.arguments,
            cwd=line.folder or None,
            env=line.env,
            stdin=subprocess.PIPE,  # as long as it is open, somebody wants the command
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the keyboard is for us; we end the command
        )
        with child:
            try:
                yield from output_of(child.stdout, child.stderr, tick_s)
                return child.wait()
            finally:
                _end(child)

    def prefetched(
        self, folders: Collection[Path], files: Collection[Path] = (), *, listed: Collection[Path] = ()
    ) -> contextlib.AbstractContextManager[None]:
        """Nothing: files are near."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Nothing is held open."""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends what still runs: the node hears that nobody reads any more."""
    if child.poll() is not None:
        return
    assert child.stdin
    child.stdin.close()
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
