"""Gives a log's bytes to a reader of progress, with what the backend knows of who wrote them, and when."""

from __future__ import annotations

from batchai_magics.backends.base import Chunk
from batchai_magics.metrics.progress.progress_reader import BAR_BYTES, MAX_LINES, ProgressReader


def read_progress(reader: ProgressReader, file: str, chunk: Chunk, *, now: float) -> bool:
    """Takes the newest bytes of a log; whether they told anything. `now` is their time by default."""
    at = chunk.times[-1].time if chunk.times else now
    if len(chunk.spans) <= 1:
        return reader.feed(chunk.data, at=at, stream=file, rank=chunk.spans[0].rank if chunk.spans else None)
    return _read_ranks(reader, file, chunk, at)


def _read_ranks(reader: ProgressReader, file: str, chunk: Chunk, at: float) -> bool:
    """Takes what the ranks wrote last that count, one after the other, in the order of writing."""
    newest: list[tuple[int, bytes]] = []
    size = 0
    for span in reversed(chunk.spans):
        if not reader.wants(span.rank):
            continue
        data = chunk.data[max(0, span.start - chunk.offset) : span.end - chunk.offset]
        newest.append((span.rank, data))
        size += len(data)
        if size >= BAR_BYTES or len(newest) >= MAX_LINES:
            break
    told = [reader.feed(data, at=at, stream=f"{file}#{rank}", rank=rank) for rank, data in reversed(newest)]
    return any(told)
