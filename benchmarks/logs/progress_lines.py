"""What it costs to tell how far a job is, and to read its two logs as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.jobs.job_model import read_progress
from batchai_magics.jobs.merged_log import MergedLog
from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.progress_reader import ProgressReader
from batchai_magics.metrics.runs.log_records import records_in
from benchmarks.row import Row, table

RANKS = 8
PER_S = 50  # redraws of each rank's bar
LOOKS_PER_S = 10
SECONDS = 30
TRIES = 5
STEP = b"1200\timages/sec: 143.2 +/- 1.0 (jitter = 2.0)\t2.517\n"
DENSE_BYTES = 8 << 20
PIECE_BYTES = 1 << 20


def rows() -> Iterator[Row]:
    """Processor time of a second of a job whose ranks all draw bars, and of a log without any."""
    bars, dense = list(_bars()), list(_dense())
    numbers = _cost_s(_read_numbers, bars) / SECONDS
    for name, read in (("how far it is", _read_progress), ("two logs as one", _merge)):
        cost = _cost_s(read, bars) / SECONDS
        yield Row(
            f"{RANKS} bars drawn {PER_S} times a second: {name}",
            1e3 * cost,
            "their numbers read",
            1e3 * numbers,
            "ms/s",
        )
    whole = _cost_s(_read_numbers, dense)
    for name, read in (("how far it is", _read_progress), ("two logs as one", _merge)):
        cost = 1e3 * _cost_s(read, dense)
        yield Row(f"8 MiB of step lines: {name}", cost, "their numbers read", 1e3 * whole, "ms")


def _bars() -> Iterator[Chunk]:
    """What each look at a job brings whose ranks redraw a bar of tqdm's each."""
    size = 0
    redraws = PER_S // LOOKS_PER_S
    for look in range(SECONDS * LOOKS_PER_S):
        data, spans = b"", []
        for redraw in range(redraws):
            done = look * redraws + redraw
            for rank in range(RANKS):
                line = b"\rtrain:  45%%|####5     | %d/100000 [10:00<12:00, 50.00it/s, loss=0.512]" % done
                spans.append(Span(size + len(data), size + len(data) + len(line), rank))
                data += line
        size += len(data)
        start = size - len(data)
        yield Chunk(data, start, size, False, tuple(spans), (WriteTime(start, 0.1 * look),))


def _dense() -> Iterator[Chunk]:
    """A log of step lines in the pieces in which it is read."""
    log = (STEP * (DENSE_BYTES // len(STEP) + 1))[:DENSE_BYTES]
    for start in range(0, len(log), PIECE_BYTES):
        data = log[start : start + PIECE_BYTES]
        times = tuple(WriteTime(start + at, 1e-4 * (start + at)) for at in range(0, len(data), 1 << 12))
        yield Chunk(data, start, len(log), False, (Span(start, start + len(data), 0),), times)


def _read_numbers(chunks: list[Chunk]) -> None:
    parser = Parser()
    for chunk in chunks:
        for _ in records_in(chunk, parser):
            pass


def _read_progress(chunks: list[Chunk]) -> None:
    reader = ProgressReader()
    for chunk in chunks:
        read_progress(reader, "stderr.txt", chunk, now=0.0)


def _merge(chunks: list[Chunk]) -> None:
    merged = MergedLog()
    for chunk in chunks:
        merged.add("stderr.txt", chunk)
        merged.advance()


def _cost_s(read: Callable[[list[Chunk]], None], chunks: list[Chunk]) -> float:
    """The least processor time of a few tries: what else the machine does only adds to it."""
    costs = []
    for _ in range(TRIES):
        began = time.process_time()
        read(chunks)
        costs.append(time.process_time() - began)
    return min(costs)


if __name__ == "__main__":
    print(table(rows()))
