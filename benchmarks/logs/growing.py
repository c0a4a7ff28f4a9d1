"""What following a growing log costs: each update reads what is new, at the start and at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

from batchai_magics.metrics import Parser

UPDATE_BYTES = (512, 4096, 65_536)
_SAMPLE_MB = 4
_REPEATS = 5
_HEADER_BYTES = 2 << 20  # near a header, lines are read one by one


@dataclass
class Cost:
    """Updates that were measured together."""

    updates: int
    records: int
    seconds: float

    def __str__(self) -> str:
        per_update, per_record = (1e6 * self.seconds / max(1, n) for n in (self.updates, self.records))
        return f"{per_update:>9,.1f} {per_record:>9.2f}"


def show_live(log: bytes, size_mb: int) -> None:
    """Print the cost at the start and at the end of a log of this size, which repeats the given one."""
    print(f"\nfollowing a log of {size_mb} MB, µs of processor time per update and per record")
    print(f"{'bytes':>7} {'at the start':>19} {'at the end':>19}")
    for update_bytes in UPDATE_BYTES:
        parser = Parser()
        parser.feed(log[:_HEADER_BYTES])
        sample = log[_HEADER_BYTES : _HEADER_BYTES + (_SAMPLE_MB << 20)]
        first = _follow(parser, sample, update_bytes)
        for _ in range(size_mb * 1_000_000 // len(log)):
            for start in range(_HEADER_BYTES, len(log), 1 << 20):
                parser.feed(log[start : start + (1 << 20)])
        print(f"{update_bytes:>7} {first!s} {_follow(parser, sample, update_bytes)!s}")


def show_shape(name: str, log: bytes) -> None:
    """Print the cost of updates of 4 and 64 KiB from a log that has begun."""
    costs = []
    for update_bytes in UPDATE_BYTES[1:]:
        parser = Parser()
        parser.feed(log[:_HEADER_BYTES])
        costs.append(_follow(parser, log[_HEADER_BYTES : 2 * _HEADER_BYTES], update_bytes))
    print(f"{name:20} {costs[0]!s} {costs[1]!s}", flush=True)


def _follow(parser: Parser, text: bytes, update_bytes: int) -> Cost:
    """The least cost of a few rounds: what else the machine does only adds to it."""
    updates = [text[start : start + update_bytes] for start in range(0, len(text), update_bytes)]
    costs = []
    for _ in range(_REPEATS):
        begin = time.process_time()
        records = sum(len(parser.feed(update)) for update in updates)
        costs.append(Cost(len(updates), records, time.process_time() - begin))
    return min(costs, key=lambda cost: cost.seconds)
