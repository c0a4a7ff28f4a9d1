"""Arguments and results of backend methods, other than resources."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from batchai_magics.models.execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
    from batchai_magics.models.file_server import FileServerSpec
    from batchai_magics.models.ids import ResourceId
    from batchai_magics.models.job import JobSpec
    from batchai_magics.models.resources import ExperimentSpec, Resource, WorkspacePatch, WorkspaceSpec

BEFORE_BYTES = 64  # by which a reader knows that a file is still the one that it has read

# Texts: who only looks at what there is loads none of these.
Spec: TypeAlias = "WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec"
Patch: TypeAlias = "ClusterPatch | WorkspacePatch"


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
class WriteTime:
    """The bytes from `start` (an absolute offset) on were written at `time`, in seconds since 1970."""

    start: int
    time: float


@dataclass(frozen=True)
class RedactedSpan:
    """Bytes `start` to `end` of a file (absolute offsets) are the value of a secret of the job."""

    start: int
    end: int


@dataclass(frozen=True)
class Seal:
    """What a log was when its job had ended: so many bytes, and their digest (empty: nobody saw its end)."""

    size_bytes: int = 0
    sha256: str = ""
    lost_bytes: int = 0

    def fault(self, size_bytes: int, sha256: str) -> str:
        """What is wrong with a log that was read to its end; empty when it is what was written."""
        if not self.sha256:
            return "its last lines may be missing: what wrote it was killed"
        if self.lost_bytes:
            return f"its last {self.lost_bytes:,} bytes are missing: the disk did not take them"
        if size_bytes < self.size_bytes:
            return f"{self.size_bytes - size_bytes:,} of its {self.size_bytes:,} bytes are missing"
        if (size_bytes, sha256) != (self.size_bytes, self.sha256):
            return "it was changed after the job had ended"
        return ""


@dataclass(frozen=True)
class Chunk:
    """A piece of a file.

    `offset` is where `data` starts; `size` is how long the file is now; `is_complete` says that it will
    not grow any more. `spans` says which rank wrote which bytes of the piece, `times` when they were written
    (to a tenth of a second, each up to the next one), where that is known. `hidden` are the places where
    the job printed its secrets: `data` is what it wrote, `shown` is what people may see of it.
    A file that is not there (yet) is an empty chunk of size 0.

    `generation` tells the file from another one under its name; while it is the same, it only gets longer.
    `before` are the last bytes before `offset`. A `Bookmark` holds both against what a reader has.
    `seal` is what the whole of a complete log was written as, where that is known.
    """

    data: bytes
    offset: int
    size: int
    is_complete: bool
    spans: tuple[Span, ...] = ()
    times: tuple[WriteTime, ...] = ()
    hidden: tuple[RedactedSpan, ...] = ()
    generation: str = ""  # empty where it is not known
    before: bytes = b""
    seal: Seal | None = None

    @property
    def shown(self) -> Chunk:
        """The same for people: an asterisk stands for each byte of a secret."""
        if not self.hidden:
            return replace(self, before=b"") if self.before else self  # it may end in a secret
        data = bytearray(self.data)
        for place in self.hidden:
            first, last = max(0, place.start - self.offset), min(len(data), place.end - self.offset)
            data[first:last] = b"*" * (last - first)
        return replace(self, data=bytes(data), hidden=(), before=b"")

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Bookmark:
    """How far a reader has come in a file, and what it knows the file by when it comes back."""

    offset: int = 0
    generation: str = ""
    before: bytes = b""

    def is_in(self, chunk: Chunk) -> bool:
        """Whether a chunk is of the same file, not of one that was cut, replaced or written anew since."""
        if chunk.size < self.offset:
            return False
        if chunk.generation and not chunk.generation.startswith(self.generation):
            return False
        length = min(len(self.before), len(chunk.before)) if chunk.offset == self.offset else 0
        return self.before[len(self.before) - length :] == chunk.before[len(chunk.before) - length :]

    def after(self, chunk: Chunk) -> Bookmark:
        """The bookmark behind a chunk."""
        begun = self.before if chunk.offset == self.offset and chunk.offset else b""
        before = (begun + chunk.data[-BEFORE_BYTES:])[-BEFORE_BYTES:]
        return Bookmark(chunk.end, chunk.generation, before)


@dataclass(frozen=True)
class StatusSnapshot:
    """The status of jobs and clusters, by `id.key`; missing ones are left out.

    `state` identifies the snapshot to the backend, where it supports long polling.
    """

    states: Mapping[str, Resource]
    state: str = field(default="", compare=False)

    def of(self, id: ResourceId) -> Resource | None:
        """The resource, or None when it was not there."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class JobNeeds:
    """What a new job needs: resources, which are created where they are missing, and files on a share.

    The resources are in the order in which they are created; one that is there is left as it is. `share` is
    the share that the cluster mounts at the path of the job's scripts; `files` maps paths on it to content.
    """

    job: ResourceId
    resources: Sequence[tuple[ResourceId, Spec]] = ()
    share: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Page:
    """A part of a list: at most `size` resources after those that the page before has told."""

    size: int | None = None
    after: str = ""  # what `next` of the page before says; empty for the first one


class Listing(tuple["Resource", ...]):
    """Resources, oldest first; `next` is the page after these, None when there is none."""

    next: Page | None

    def __new__(cls, resources: Iterable[Resource] = (), next: Page | None = None) -> Listing:
        """The resources of one page."""
        made = super().__new__(cls, resources)
        made.next = next
        return made


@dataclass(frozen=True)
class StoredItem:
    """Part of the data that a backend stores on this machine, with its path and size."""

    name: str
    path: str
    file_count: int
    size_bytes: int


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
