"""What it costs a rank to seek its secrets in what it prints."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.node.ranks.output_streams import LogWriter, ProcessStream, search_patterns
from batchai_magics.backends.node.ranks.rank import READ_SIZE
from batchai_magics.launch.plan import LogPaths
from benchmarks.row import Row, table

LINE = b"1200\timages/sec: 143.2 +/- 1.0 (jitter = 2.0)\t2.517\n"
SIZE_BYTES = 64 << 20
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
TRIES = 5


def rows() -> Iterator[Row]:
    """How much a rank passes on in a second."""
    with tempfile.TemporaryDirectory() as folder:
        without = max(_megabytes_per_s(Path(folder), ()) for _ in range(TRIES))
        for count in (1, 5):
            sought = search_patterns(f"{TOKEN}{number}" for number in range(count))
            ours = max(_megabytes_per_s(Path(folder), sought) for _ in range(TRIES))
            name = f"output of a rank with {count} secret{'s' * (count > 1)}"
            yield Row(name, ours, "without a secret", without, "MB/s")


def _megabytes_per_s(folder: Path, sought: tuple[bytes, ...]) -> float:
    log = LogPaths(str(folder / "out"), str(folder / "spans"), hidden=str(folder / "hidden"))
    out = ProcessStream(LogWriter(log, sought), 0)
    piece = (LINE * (READ_SIZE // len(LINE) + 1))[:READ_SIZE]
    began = time.perf_counter()
    for _ in range(SIZE_BYTES // READ_SIZE):
        out.feed(piece)
    out.finish()
    seconds = time.perf_counter() - began
    (folder / "out").unlink()
    return SIZE_BYTES / 1e6 / seconds


if __name__ == "__main__":
    print(table(rows()))
