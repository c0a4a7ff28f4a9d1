"""What goes into a backend and comes out of it, beside the resources."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass

from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import STDOUTERR, JobSpec
from batchai_magics.models.resources import ExperimentSpec, Resource, WorkspaceSpec

Spec = WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec


@dataclass(frozen=True)
class FileRef:
    """A file in one of a job's output directories (`stdouterr` holds its logs)."""

    job: ResourceId
    path: str
    directory_id: str = STDOUTERR


@dataclass(frozen=True)
class Span:
    """Bytes `start` to `end` of a file (absolute offsets) were written by process `rank`."""

    start: int
    end: int
    rank: int


@dataclass(frozen=True)
class Written:
    """The bytes from `start` (an absolute offset) on were written at `time`, in seconds since 1970."""

    start: int
    time: float


@dataclass(frozen=True)
class Chunk:
    """A piece of a file.

    `offset` is where `data` starts; `size` is how long the file is now; `is_complete` says that it will
    not grow any more. `spans` says which rank wrote which bytes of the piece, `times` when they were written
    (to a tenth of a second, each up to the next one), where that is known.
    A file that is not there (yet) is an empty chunk of size 0.
    """

    data: bytes
    offset: int
    size: int
    is_complete: bool
    spans: tuple[Span, ...] = ()
    times: tuple[Written, ...] = ()

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Look:
    """Jobs and clusters as they stand, by `id.key`; what is not there is left out."""

    states: Mapping[str, Resource]

    def of(self, id: ResourceId) -> Resource | None:
        """The resource, or None when it was not there."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class Page:
    """A part of a list: at most `size` resources after those that the page before has told."""

    size: int | None = None
    after: str = ""  # what `next` of the page before says; empty for the first one


class Listing(tuple[Resource, ...]):
    """Resources, oldest first; `next` is the page after these, None when there is none."""

    next: Page | None

    def __new__(cls, resources: Iterable[Resource] = (), next: Page | None = None) -> Listing:
        """The resources of one page."""
        made = super().__new__(cls, resources)
        made.next = next
        return made


@dataclass(frozen=True)
class CommandBytes:
    """Bytes that a command on a node has written, to its stdout or its stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class CommandEnd:
    """The end of a command on a node; 128 and the signal's number when a signal ended it."""

    exit_code: int


CommandOutput = Generator[CommandBytes | CommandEnd, None, None]
