"""A machine that is reached with the user's own `ssh`."""

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

RESPONSE_SLACK_S = 15.0  # added to the timeout of a command while waiting for its result


class SshMachine:
    """The host of a channel. All methods may raise UnreachableError."""

    def __init__(self, channel: SshChannel) -> None:
        self._channel, self._cache = channel, StatCache(channel)

    @property
    def name(self) -> str:
        """The host, as passed to `ssh`."""
        return self._channel.host

    @property
    def user(self) -> int:
        """The uid of the user on the host."""
        return int(self._hello["user"])

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of a login shell on the host."""
        environ: dict[str, str] = self._hello["environ"]
        return environ

    @property
    def python(self) -> str:
        """The interpreter that runs the agent."""
        return str(self._hello["python"])

    @property
    def path_prefix(self) -> str:
        """Empty: the interpreter is on PATH."""
        return ""

    @cached_property
    def _hello(self) -> Mapping[str, Any]:
        hello: Mapping[str, Any] = self._channel.request("hello").head["value"]
        return hello

    @cached_property
    def _paths(self) -> type[Any]:
        return path_class(self._channel, self._cache, self.user)

    def resolve(self, path: PurePath) -> Path:
        """An absolute path on the host; `~` and relative paths are below the user's home directory."""
        text = path.as_posix()
        below = text.removeprefix("~").lstrip("/") if text.startswith(("~/", "~")) else text
        return cast("Path", self._paths(str(self._hello["home"]), below))

    def has_program(self, program: str) -> bool:
        """Whether a program is on PATH."""
        return bool(self._channel.request("has", program=program).head["value"])

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command and waits for it."""
        arguments = {
            **self._run_arguments(line),
            "timeout_s": timeout_s,
            "answer": str(result_folder) if result_folder else None,
        }
        request = self._channel.request_once if result_folder else self._channel.request
        response = request("run", wait_s=timeout_s + RESPONSE_SLACK_S, **arguments)
        if result_folder:
            private_files.remove_folder(result_folder)
        code, size = response.head["value"]
        return CompletedCommand(code, response.data[:size], response.data[size:])

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; yields its output as it arrives, and returns its exit code."""
        responses = self._channel.stream("start", tick_s=tick_s, **self._run_arguments(line))
        with contextlib.closing(responses):
            while True:
                try:
                    response = next(responses)
                except StopIteration as end:
                    return int(end.value)
                yield CommandBytes(response.data, response.head["error"]) if response else CommandBytes(b"")

    def prefetched(
        self, folders: Collection[Path], files: Collection[Path] = (), *, listed: Collection[Path] = ()
    ) -> contextlib.AbstractContextManager[None]:
        """A context in which this thread reads these paths from a cache filled on entry."""
        return self._cache.prefetched([*map(str, folders)], [*map(str, files)], [*map(str, listed)])

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        self._channel.close()

    def _run_arguments(self, line: CommandLine) -> dict[str, Any]:
        """The request of a command; variables that have the same value on the host are sent by name only."""
        environ = self.environ
        own = [name for name, text in line.env.items() if environ.get(name) == text]
        more = {name: text for name, text in line.env.items() if environ.get(name) != text}
        return {"words": list(line.arguments), "own": own, "more": more, "folder": line.folder}
