"""A job's log files, read back from the backend; and which of their lines name lines of the cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.follow import records_in
from batchai_magics.metrics import Parser, Record
from batchai_magics.models.resources import JobResource

PIECE_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
FIRST_LINE = 2  # of the script in its cell; the magic line is line 1

_SCRIPT = re.compile(r"\$(?:\{AZ_BATCHAI_INPUT_SCRIPT\}|AZ_BATCHAI_INPUT_SCRIPT)/([\w.-]+\.py)\b")
_RUN = re.compile(r"-\d+$")
_PLACE = re.compile(r'File "(?P<folder>[^"\n]*[/\\])?(?P<file>[^"/\\\n]+)", line (?P<line>\d+)')


def tail_of(backend: Backend, file: FileRef, lines: int | None) -> str:
    """The text of a log, or its last `lines` lines; broken UTF-8 is shown as replacement signs."""
    if lines is None:
        data = b"".join(chunk.data for chunk in chunks(backend, file))
        return data.decode("utf-8", errors="replace")
    data, start = b"", backend.read(file, 0, 1).size
    while start > 0 and data.count(b"\n") <= lines:
        begin = max(0, start - TAIL_BYTES)
        data = backend.read(file, begin, start - begin).data + data
        start = begin
    kept = data.splitlines(keepends=True)[-lines:] if lines > 0 else []
    return b"".join(kept).decode("utf-8", errors="replace")


def last_lines(backend: Backend, file: FileRef, count: int, *, rank: int | None = None) -> tuple[str, ...]:
    """The last lines of a log, of one rank if the backend knows who wrote what."""
    size = backend.read(file, 0, 1).size
    begin = max(0, size - TAIL_BYTES)
    chunk = backend.read(file, begin, TAIL_BYTES)
    data = chunk.data
    if rank is not None and chunk.spans:
        parts = [data[s.start - begin : s.end - begin] for s in chunk.spans if s.rank == rank]
        data = b"".join(parts)
    return tuple(data.decode("utf-8", errors="replace").splitlines()[-count:])


def chunks(backend: Backend, file: FileRef) -> Iterator[Chunk]:
    """The whole of a file as it is now, piece by piece."""
    offset = 0
    while (chunk := backend.read(file, offset, PIECE_BYTES)).data:
        yield chunk
        offset = chunk.end


def records_of(backend: Backend, file: FileRef, patterns: Mapping[str, str]) -> Iterator[Record]:
    """Every record of a log, in file order, with the ranks that the backend knows."""
    parser = Parser(patterns)
    for chunk in chunks(backend, file):
        yield from records_in(chunk, parser)
    yield from parser.finish()


def script_name(job: JobResource) -> str:
    """The file name of the script that was the cell's body; empty for a job without one."""
    found = _SCRIPT.search(job.spec.settings.model_dump_json())
    own = (f"{job.id.name}.py", f"{_RUN.sub('', job.id.name)}.py")
    return found[1] if found and found[1] in own else ""


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
