"""A machine that a backend runs commands on: this one, and the interface for remote ones."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, NamedTuple

from batchai_magics.backends.base import CommandBytes

_READ_BYTES = 1 << 16


def output_of(out: IO[bytes] | None, err: IO[bytes] | None, tick_s: float) -> Iterator[CommandBytes]:
    """Yields output from a command's two pipes until both end; empty bytes after `tick_s` without output."""
    with selectors.DefaultSelector() as selector:
        for pipe, is_error in ((out, False), (err, True)):
            assert pipe, "both streams are pipes"
            selector.register(pipe, selectors.EVENT_READ, is_error)
        while selector.get_map():
            ready = selector.select(tick_s or None)
            if not ready:
                yield CommandBytes(b"")
            for key, _ in ready:
                data = os.read(key.fd, _READ_BYTES)
                if data:
                    yield CommandBytes(data, key.data)
                else:
                    selector.unregister(key.fileobj)


class CompletedCommand(NamedTuple):
    """The exit code and output of a command that has run."""

    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class CommandLine:
    """A command: its arguments, its environment, and its working directory (empty: any)."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    folder: str = ""


EXIT_TIMEOUT_S = 10.0  # from the end of standard input to SIGKILL


class Machine:
    """The machine that this process runs on; a class for a remote one overrides all methods.

    All methods of a remote machine may raise UnreachableError.
    """

    @property
    def name(self) -> str:
        """The name for messages: `this machine`, or the host that `ssh` is given."""
        return "this machine"

    @property
    def user(self) -> int:
        """The uid that commands run as."""
        return os.getuid()

    @property
    def environ(self) -> Mapping[str, str]:
        """The default environment of commands."""
        return os.environ

    @property
    def python(self) -> str:
        """The interpreter: of this process, or the one found on the remote machine."""
        return sys.executable

    @property
    def path_prefix(self) -> str:
        """The folder to put first on PATH so that `python` is found; empty if none is needed."""
        return str(Path(sys.executable).parent)

    def resolve(self, path: PurePath) -> Path:
        """An absolute path on the machine; `~` is the user's home directory."""
        return Path(path).expanduser().absolute()

    def has_program(self, program: str) -> bool:
        """Whether a program is on PATH."""
        return shutil.which(program) is not None

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command and waits for it.

        Args:
            line: The command.
            timeout_s: Seconds until the command is killed.
            result_folder: A folder that does not exist yet. With it the command runs exactly once, even if
                the connection is lost meanwhile: its result is saved there until it has been received.
                Without it, a command may run again after a lost connection.

        Raises:
            TimeoutError: The command took longer than `timeout_s`.
            FileNotFoundError: The program is not on PATH.
        """
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
        """Runs a command; yields its output as it arrives, and returns its exit code.

        Closing the generator closes the standard input of the command, which must then exit. With `tick_s`,
        yields empty output after that many seconds without any.
        """
        child = subprocess.Popen(
            line.arguments,
            cwd=line.folder or None,
            env=line.env,
            stdin=subprocess.PIPE,  # the command exits when it is closed
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process only, which then ends the command
        )
        with child:
            try:
                yield from output_of(child.stdout, child.stderr, tick_s)
                return child.wait()
            finally:
                assert child.stdin
                child.stdin.close()
                try:
                    child.wait(EXIT_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    child.kill()

    def close(self) -> None:
        """Closes connections; this machine has none."""
