"""What all our actors are: an object of the programs of a home, which are sent where the home is not seen.

Ray sends this class as code, since its nodes import the programs from the home: the standard library alone.
"""

from __future__ import annotations

import importlib
import shutil
import socket
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COPY_MARK = "copied-home"  # the file in the folder of a home that only a copy of it has


class ActorTarget:
    """An object of `target`, a module with a class, imported from a folder of programs."""

    def __init__(self, target: str, programs: str, *arguments: object) -> None:
        self._class, self._arguments, self._programs = target, arguments, Path(programs)
        self._home = self._programs.parents[1]
        self._target: Any = None
        if self._programs.is_dir():
            self._load()

    def _load(self) -> None:
        module, _, name = self._class.rpartition(".")
        sys.path.insert(0, str(self._programs))
        self._target = getattr(importlib.import_module(module), name)(*self._arguments)

    def home(self) -> str:
        """Where the programs are: "seen" if the home is here, "copied" in a copy of it; else empty."""
        if not self._target:
            return ""
        return "copied" if (self._home / COPY_MARK).exists() else "seen"

    def install(self, files: Mapping[str, bytes]) -> str:
        """Installs programs in a copy of the home; returns why that cannot be, empty once it is done."""
        part = self._programs.with_name(uuid.uuid4().hex)
        try:
            self._home.mkdir(0o700, parents=True, exist_ok=True)
            if not (self._home / COPY_MARK).exists() and any(self._home.iterdir()):
                return f"has another folder at {self._home}"
            (self._home / COPY_MARK).touch()
            for path, data in files.items():
                (part / path).parent.mkdir(0o700, parents=True, exist_ok=True)
                (part / path).write_bytes(data)
            part.rename(self._programs)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            if not self._programs.is_dir():  # else another actor was faster
                return f"does not see {self._home}, and cannot make a copy there: {error.strerror}"
        if not self._target:
            self._load()
        return ""

    def host(self) -> str:
        """The name of this machine."""
        return socket.gethostname()

    def call(self, method: str, *arguments: object) -> object:
        """Calls a method of the object; NotADirectoryError if there are no programs."""
        if not self._target:
            raise NotADirectoryError(f"{socket.gethostname()} does not see {self._home}")
        return getattr(self._target, method)(*arguments)
