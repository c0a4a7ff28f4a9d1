"""A machine at the other end of the user's own `ssh`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, cast

from batchai_magics.backends.base import CommandBytes
from batchai_magics.backends.machines.machine import CommandLine, CompletedCommand
from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.machines.ssh_path import path_class
from batchai_magics.backends.machines.stat_cache import StatCache
from batchai_magics.backends.service import private_files

SLACK_S = 15.0  # what an answer may take beyond the command's own limit


class SshMachine:
    """The machine that a channel leads to. Everything may raise UnreachableError."""

    def __init__(self, channel: SshChannel) -> None:
        self._channel, self._snapshots = channel, StatCache(channel)

    @property
    def name(self) -> str:
        """The host, as `ssh` is given it."""
        return self._channel.host

    @property
    def user(self) -> int:
        """The number of the user there."""
        return int(self._hello["user"])

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of a login shell there."""
        environ: dict[str, str] = self._hello["environ"]
        return environ

    @property
    def python(self) -> str:
        """The Python that was found there."""
        return str(self._hello["python"])

    @property
    def path_prefix(self) -> str:
        """Nothing: it was found on PATH."""
        return ""

    @cached_property
    def _hello(self) -> Mapping[str, Any]:
        hello: Mapping[str, Any] = self._channel.request("hello").head["value"]
        return hello

    @cached_property
    def _paths(self) -> type[Any]:
        return path_class(self._channel, self._snapshots, self.user)

    def resolve(self, path: PurePath) -> Path:
        """An absolute path there; `~`, and what is relative, is in the user's folder."""
        words = path.as_posix()
        below = words.removeprefix("~").lstrip("/") if words.startswith(("~/", "~")) else words
        return cast("Path", self._paths(str(self._hello["home"]), below))

    def has_program(self, program: str) -> bool:
        """Whether there is a program of that name."""
        return bool(self._channel.request("has", program=program).head["value"])

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command to its end; TimeoutError when that takes too long."""
        told = {
            **self._told(line),
            "timeout_s": timeout_s,
            "answer": str(result_folder) if result_folder else None,
        }
        ask = self._channel.request_once if result_folder else self._channel.request
        frame = ask("run", wait_s=timeout_s + SLACK_S, **told)
        if result_folder:
            private_files.remove_folder(result_folder)
        code, size = frame.head["value"]
        return CompletedCommand(code, frame.data[:size], frame.data[size:])

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; gives what it writes as it comes, and at last its exit code."""
        parts = self._channel.stream("start", tick_s=tick_s, **self._told(line))
        with contextlib.closing(parts):
            while True:
                try:
                    frame = next(parts)
                except StopIteration as end:
                    return int(end.value)
                yield CommandBytes(frame.data, frame.head["error"]) if frame else CommandBytes(b"")

    def prefetched(
        self, folders: Collection[Path], files: Collection[Path] = (), *, listed: Collection[Path] = ()
    ) -> contextlib.AbstractContextManager[None]:
        """Within it, this thread is answered from what lay in these folders when it began."""
        return self._snapshots.prefetched([*map(str, folders)], [*map(str, files)], [*map(str, listed)])

    def close(self) -> None:
        """Ends the connection; the next question makes another."""
        self._channel.close()

    def _told(self, line: CommandLine) -> dict[str, Any]:
        """A command as it is told: values that the host has itself are not sent there."""
        environ = self.environ
        own = [name for name, text in line.env.items() if environ.get(name) == text]
        more = {name: text for name, text in line.env.items() if environ.get(name) != text}
        return {"words": list(line.arguments), "own": own, "more": more, "folder": line.folder}
