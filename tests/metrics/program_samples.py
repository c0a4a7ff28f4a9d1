"""Sample logs of training programs (`programs/NAME.log`) and the numbers in them (`programs/NAME.csv`).

A row of numbers is epoch, step, rank, phase, metric and value; what a program does not print is None.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from batchai_magics.metrics import Parser
from batchai_magics.metrics.grammar.metric_names import split_phase
from batchai_magics.metrics.measurement import Measurement, Record

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.csv"))
DECOYS = PROGRAMS / "decoys.txt"
# Lines that look like metrics and are none. The second half stands behind the place where a print is: what is
# glued to such a line may be taken for its number.
NEAR_MISSES, PRINTED = (
    part.splitlines() for part in (PROGRAMS / "near_misses.txt").read_text(encoding="utf-8").split("\n\n")
)

Row = tuple[float | None, int | None, int | None, str, str, str]


def expected_rows(name: str) -> Counter[Row]:
    """The rows of the program's csv file, with how often each stands in it."""
    with (PROGRAMS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return Counter(
            (
                float(row["epoch"]) if row["epoch"] else None,
                int(row["step"]) if row["step"] else None,
                int(row["rank"]) if row["rank"] else None,
                row["phase"],
                plain(row["metric"]),
                repr(float(row["value"])),
            )
            for row in csv.DictReader(file)
        )


def read(data: bytes) -> list[Record]:
    """The records that the product's reader finds in a log."""
    parser = Parser()
    return [*parser.feed(data), *parser.finish()]


def read_rows(data: bytes) -> Counter[Row]:
    """The rows that the product's reader finds in a log."""
    return Counter(record_row(record) for record in read(data) if isinstance(record, Measurement))


def read_rows_in_chunks(chunks: Iterable[bytes]) -> Counter[Row]:
    """The rows that the product's reader finds in a log that grows by these chunks."""
    parser = Parser()
    records = [*chain.from_iterable(map(parser.feed, chunks)), *parser.finish()]
    return Counter(record_row(record) for record in records if isinstance(record, Measurement))


def record_row(record: Measurement) -> Row:
    """The record as a row; NaN is written out, since it does not equal itself."""
    name = split_phase(record.name)[1]
    epoch = None if record.epoch is None else float(record.epoch)
    return epoch, record.step, record.rank, record.phase, plain(name), repr(float(record.value))


def plain(metric: str) -> str:
    """A metric's name in lower case, its blanks as underscores."""
    metric = re.sub(r"\((ms|s|gib|iter/s)\)$", "", metric.lower())
    return re.sub("/s(ec)?$", "_per_sec", metric.replace(" ", "_"))


def differences(name: str) -> tuple[list[Row], list[Row]]:
    """The rows that were not read, and those that were read and do not stand in the log."""
    expected, read_ones = expected_rows(name), read_rows((PROGRAMS / f"{name}.log").read_bytes())
    return [*(expected - read_ones).elements()], [*(read_ones - expected).elements()]
