"""A job's log files, read back from the backend; and which of their lines name lines of the cell.

What people see of them comes from `shown`, which hides the secrets; `chunks` are what the job wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from batchai_magics.backends.base import Backend, Bookmark, Chunk, FileRef
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.errors import FileChangedError
from batchai_magics.metrics import Parser, Record
from batchai_magics.models.resources import JobResource

T = TypeVar("T")
PIECE_BYTES = 1 << 20
TRIES = 3  # of reading a file that becomes another one meanwhile
TAIL_BYTES = 1 << 16
FIRST_LINE = 2  # of the script in its cell; the magic line is line 1

_SCRIPT = re.compile(r"\$(?:\{AZ_BATCHAI_INPUT_SCRIPT\}|AZ_BATCHAI_INPUT_SCRIPT)/([\w.-]+\.py)\b")
_RUN = re.compile(r"-\d+$")
_PLACE = re.compile(r'File "(?P<folder>[^"\n]*[/\\])?(?P<file>[^"/\\\n]+)", line (?P<line>\d+)')


def tail_of(backend: Backend, file: FileRef, lines: int | None) -> str:
    """The text of a log, or its last `lines` lines; broken UTF-8 is shown as replacement signs."""
    if lines is None:
        return steadily(lambda: _whole(backend, file))
    data = steadily(lambda: _end_of(backend, file, lines))
    kept = data.splitlines(keepends=True)[-lines:] if lines > 0 else []
    return b"".join(kept).decode("utf-8", errors="replace")


def _whole(backend: Backend, file: FileRef) -> str:
    """All of a log; one that lacks something says so in a line of its own."""
    pieces: list[bytes] = []
    fault = yield_all(chunks(backend, file), lambda chunk: pieces.append(chunk.shown.data))
    text = b"".join(pieces).decode("utf-8", errors="replace")
    return f"{text}{_note(file, fault)}" if fault else text


def yield_all(pieces: Generator[Chunk, None, str], take: Callable[[Chunk], object]) -> str:
    """Gives all chunks to `take`; what is wrong with the file, as `chunks` tells it."""
    while True:
        try:
            take(next(pieces))
        except StopIteration as end:
            return str(end.value)


def _note(file: FileRef, fault: str) -> str:
    return f"\n[{file.path} is not complete: {fault}]\n"


def _end_of(backend: Backend, file: FileRef, lines: int) -> bytes:
    """The end of a file that holds so many lines, or all of it."""
    first = backend.read(file, 0, 1)
    data, start = b"", first.size
    mark = Bookmark(start, first.generation)
    while start > 0 and data.count(b"\n") <= lines:
        begin = max(0, start - TAIL_BYTES)
        chunk = backend.read(file, begin, start - begin)
        _check(chunk, mark, file)
        data, start = chunk.shown.data + data, begin
    return data


def last_lines(backend: Backend, file: FileRef, count: int, *, rank: int | None = None) -> tuple[str, ...]:
    """The last lines of a log, of one rank if the backend knows who wrote what."""
    size = shown(backend, file, 0, 1).size
    begin = max(0, size - TAIL_BYTES)
    chunk = shown(backend, file, begin, TAIL_BYTES)
    data = chunk.data
    if rank is not None and chunk.spans:
        parts = [data[s.start - begin : s.end - begin] for s in chunk.spans if s.rank == rank]
        data = b"".join(parts)
    return tuple(data.decode("utf-8", errors="replace").splitlines()[-count:])


def shown(backend: Backend, file: FileRef, offset: int, limit: int) -> Chunk:
    """At most `limit` bytes of a file, its secrets hidden; offsets are those of the file."""
    return backend.read(file, offset, limit).shown


def chunks(backend: Backend, file: FileRef) -> Generator[Chunk, None, str]:
    """The whole of a file as it is now, piece by piece, as the job wrote it; at last what is wrong with it.

    Nothing is, as far as is known, when that is empty: a finished log is then what was written, to the byte.
    Raises FileChangedError when it becomes another file meanwhile.
    """
    mark, digest = Bookmark(), hashlib.sha256()
    while (chunk := backend.read(file, mark.offset, PIECE_BYTES)).data:
        _check(chunk, mark, file)
        digest.update(chunk.data)
        yield chunk
        mark = mark.after(chunk)
    _check(chunk, mark, file)
    return chunk.seal.fault(mark.offset, digest.hexdigest()) if chunk.seal else ""


def _check(chunk: Chunk, mark: Bookmark, file: FileRef) -> None:
    if not mark.is_in(chunk):
        text = f"{file.path} was cut or replaced while it was read"
        raise FileChangedError(text, code="FileChanged", hint="Read it again.")


def steadily(read: Callable[[], T]) -> T:
    """What `read` makes of a file's chunks; it is read again when it became another one meanwhile."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(FileChangedError):
            return read()
    return read()


def records_of(backend: Backend, file: FileRef, patterns: Mapping[str, str]) -> Iterator[Record]:
    """Every record of a log, in file order, with the ranks that the backend knows."""
    parser = Parser(patterns)
    for chunk in chunks(backend, file):
        yield from records_in(chunk.shown, parser)
    yield from parser.finish()


def script_name(job: JobResource) -> str:
    """The file name of the script that was the cell's body; empty for a job without one."""
    found = _SCRIPT.findall(job.spec.settings.model_dump_json())
    own = (f"{job.id.name}.py", f"{_RUN.sub('', job.id.name)}.py")
    return next((name for name in found if name in own), "")


def with_cell_lines(lines: Sequence[str], script: str) -> list[str]:
    """The lines of a log; one that names a line of the script says which line of the cell it is.

    The folder that the script lay in tells nobody anything, and is left out.
    """
    return [_with_cell_line(line, script) for line in lines]


def _with_cell_line(line: str, script: str) -> str:
    place = _PLACE.search(line) if script else None
    if place is None or place["file"] != script:
        return line
    short = line.replace(place["folder"] or "", "", 1)
    return f"{short}  ← line {int(place['line']) + FIRST_LINE - 1} of the cell"
