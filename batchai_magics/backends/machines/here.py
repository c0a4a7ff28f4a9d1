"""This very machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Generator, Mapping
from pathlib import Path, PurePath

from batchai_magics.backends.base import CommandBytes
from batchai_magics.backends.folders.command_output import output_of
from batchai_magics.backends.machines.machine import Done, Line

ENDING_S = 10.0  # what a command gets to end when nobody reads it any more


class Here:
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
    def first_on_path(self) -> str:
        """The folder of the Python of this process."""
        return str(Path(sys.executable).parent)

    def folder(self, path: PurePath) -> Path:
        """An absolute path."""
        return Path(path).expanduser().absolute()

    def has(self, program: str) -> bool:
        """Whether there is a program of that name."""
        return shutil.which(program) is not None

    def run(self, line: Line, *, timeout_s: float, answer: Path | None = None) -> Done:
        """Runs a command to its end; TimeoutError when that takes too long."""
        program = shutil.which(line.words[0])
        if program is None:
            raise FileNotFoundError(line.words[0])
        try:
            done = subprocess.run(
                [program, *line.words[1:]],
                env=line.env,
                cwd=line.folder or None,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return Done(done.returncode, done.stdout, done.stderr)

    def started(self, line: Line, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; gives what it writes as it comes, and at last its exit code."""
        child = subprocess.Popen(
            line.words,
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

    def together(
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
