"""Two ports through which lower layers reach the user: open a page, ask something.

An upper layer registers who does it: the package for any Python process, `magics` for a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

Service = TypeVar("Service")


class Port(Generic[Service]):
    """A service of an upper layer, made when it is needed."""

    def __init__(self) -> None:
        self._make: Callable[[], Service] | None = None

    def register(self, make: Callable[[], Service]) -> None:
        """Sets who provides the service from now on."""
        self._make = make

    def get(self) -> Service:
        """The service."""
        assert self._make is not None, "the package registers each as it is imported"
        return self._make()


class ServedPage(Protocol):
    """A page that is served on this machine."""

    @property
    def url(self) -> str:
        """Its address, with the token that gives access."""

    def close(self) -> None:
        """Ends the server."""


class ViewPages(Protocol):
    """The live view of jobs outside of notebooks."""

    def open_job(self, job: Any, *, is_read_only: bool = False) -> ServedPage:
        """Serves a job's live view until it is closed; read-only, it cannot be cancelled or run again."""

    def open_jobs(self, backend: Any, home: Any, *, is_read_only: bool = False) -> ServedPage:
        """Serves all jobs of a backend until it is closed; those of the experiment `home` come by name."""

    def open_recording(self, path: Path) -> ServedPage:
        """Serves the replay of a recording until it is closed."""

    def record(self, job: Any, path: Path, *, extra: Mapping[str, Any]) -> Path:
        """Records a job until it has ended, or until an interrupt; `extra` is added to the header."""

    def export_html(self, recording: Path, target: Path) -> Path:
        """Writes a page that replays a recording, in one file without references."""

    def settings_report(self) -> Mapping[str, Any]:
        """Versions and settings, for the header of a bug report."""


PAGES: Port[ViewPages] = Port()
PROMPT: Port[Callable[[str], None] | None] = Port()
"""Shows the user a sentence that asks for something; None if nobody would read it."""
