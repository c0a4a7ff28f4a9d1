"""Lines that tell facts of a run: its attempts, its fits, and the parameters in the table of programs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, repeat

from batchai_magics.metrics.grammar.headings import fit_heading, fit_of_heading
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes
from batchai_magics.metrics.grammar.program_lines import SampleExpression
from batchai_magics.metrics.measurement import ATTEMPT, FIT, Fact, make_fact
from batchai_magics.metrics.programs import PROGRAM_FACTS, ProgramFact
from batchai_magics.metrics.reading.joined_lines import split_joined
from batchai_magics.metrics.reading.line_splitter import Lines
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, printed_at, rank_of
from batchai_magics.metrics.timestamps import DIGITS_TO_ZERO, MIN_TIMESTAMP_BYTES, WriteClock

_MODEL, _DATASET, _DEVICE_COUNT = "model", "dataset", "device_count"
_BATCH_SIZE, _PER_DEVICE, _GLOBAL = "batch_size", "batch_size_per_device", "batch_size_global"
_NAMES = {
    "model": _MODEL,
    "model_name": _MODEL,
    "arch": _MODEL,
    "dataset": _DATASET,
    "dataset_name": _DATASET,
    "batch_size": _BATCH_SIZE,
    "train_batch_size": _BATCH_SIZE,
    "batch_size_per_gpu": _PER_DEVICE,
    "batch_size_per_pu": _PER_DEVICE,
    "global_batch_size": _GLOBAL,
    "num_gpus": _DEVICE_COUNT,
    "n_gpus": _DEVICE_COUNT,
    "world_size": _DEVICE_COUNT,
    "device_count": _DEVICE_COUNT,
}
"""Parameters by the names that programs give them."""

_COUNTS = (_BATCH_SIZE, _PER_DEVICE, _GLOBAL, _DEVICE_COUNT)
_COUNT = re.compile(r"\d{1,18}")
_MOST_BYTES = 16 * 1024  # of a line with facts
_MOST_FORMS = 1024  # that are remembered
_ATTEMPT = ProgramFact(
    program="batchai",
    sample="[batchai] attempt <attempt:2> begins on <*:node2: Slurm took its nodes for another job>",
    literals=(b"[batchai] attempt ",),
    words={ATTEMPT: r"\d{1,18}", "*": r"[^\r\n]{1,4096}"},
)
_ROWS = (_ATTEMPT, *PROGRAM_FACTS)
_SAMPLES = [SampleExpression(row.sample, row.words) for row in _ROWS]
_EXPRESSIONS = [
    (row, sample, re.compile(rb"(?:%b)[ \t]*\Z" % sample.source.encode()))
    for row, sample in zip(_ROWS, _SAMPLES, strict=True)
]
FACT_LITERALS = tuple(dict.fromkeys(literal for row in _ROWS for literal in row.literals))
"""A line with facts has one of these, or is the heading of a fit."""

_Parameter = tuple[str, str]  # a key and its value
_FactReader = Callable[[Sequence[bytes]], Iterable[Iterable[_Parameter]]]
"""Reads the parameters on each of some lines."""


def may_tell_facts(line: bytes) -> bool:
    """Whether a line with other digits may tell facts."""
    return any(literal in line for literal in FACT_LITERALS) or fit_heading(line) is not None


def facts_of(lines: Lines, rows: Iterable[int], clock: WriteClock | None) -> list[tuple[int, Fact]]:
    """The facts on these lines, each with its row; `clock` tells when the lines were written."""
    by_form, facts = defaultdict[tuple[bytes, bool], list[int]](list), list[tuple[int, Fact]]()
    cut = {row for row in (0, len(lines.texts) - 1) if not lines.is_whole(row)}
    for row in rows:
        by_form[lines.texts[row].translate(DIGITS_TO_ZERO), row not in cut].append(row)
    for (form, is_whole), form_rows in by_form.items():
        if len(form) > _MOST_BYTES:
            continue
        if not _is_one_line(form):
            for row in form_rows:
                facts += _facts_of_joined(lines, row, clock, is_whole=is_whole)
        elif read := _reader_of(form, is_whole=is_whole):
            facts += _facts_by(read, lines, form_rows, clock)
    return facts


def _facts_by(
    read: _FactReader, lines: Lines, rows: Sequence[int], clock: WriteClock | None
) -> list[tuple[int, Fact]]:
    """The facts on lines of one form, in the order of the rows."""
    texts, ends = [lines.texts[row] for row in rows], [lines.ends[row] for row in rows]
    prefix, ranks = PREFIX.match(texts[0]), [lines.rank_at(row) for row in rows]
    if rank_of(prefix) is not None:
        labels = map(rank_of, map(PREFIX.match, texts))
        ranks = [label if rank is None else rank for rank, label in zip(ranks, labels, strict=True)]
    times: Iterable[float | None] = repeat(None)
    if clock or lines.stamps or (prefix and prefix.end() >= MIN_TIMESTAMP_BYTES):
        times = [printed_at(lines, row, clock) for row in rows]
    return [
        (row, make_fact((key, value, rank, end, seconds)))
        for row, parameters, rank, end, seconds in zip(rows, read(texts), ranks, ends, times, strict=False)
        for key, value in parameters
    ]


def _facts_of_joined(
    lines: Lines, row: int, clock: WriteClock | None, *, is_whole: bool
) -> Iterator[tuple[int, Fact]]:
    """The facts on a line that is several, which processes wrote without a newline between."""
    parts, rank = split_joined(lines.texts[row]), lines.rank_at(row)
    is_labelled, seconds = rank is None, printed_at(lines, row, clock)
    for number, part in enumerate(parts, 1):
        label = rank_of(PREFIX.match(part)) if is_labelled else None
        rank = rank if label is None else label
        read = _reader_of(part.translate(DIGITS_TO_ZERO), is_whole=is_whole or number < len(parts))
        for key, value in chain.from_iterable(read([part])) if read else ():
            yield row, Fact(key, value, rank, lines.ends[row], seconds)


@lru_cache(_MOST_FORMS)
def _is_one_line(form: bytes) -> bool:
    """Whether no line of this form is several that processes wrote without a newline between."""
    return split_joined(form) == [form]


@lru_cache(_MOST_FORMS)
def _reader_of(form: bytes, *, is_whole: bool) -> _FactReader | None:
    """What reads the keys and values of the facts on lines of this form; None if they tell none."""
    prefixes = read_prefixes(form)
    begins = [begin for begin in (prefixes.begin, prefixes.name_begin) if begin is not None]
    for row, sample, expression in _EXPRESSIONS:
        for begin in begins if is_whole or row.has_fixed_width else ():
            if match := expression.match(form, begin):
                texts = [(name, slice(*match.span(group))) for name, group in sample.texts if name != "*"]
                is_plain = not {"json", "name"}.intersection(dict(texts))
                return partial(_texts_on if is_plain else _named_on, texts)
    return _fits_on if is_whole and fit_heading(form) else None


def _texts_on(texts: Sequence[tuple[str, slice]], lines: Sequence[bytes]) -> Iterable[Iterable[_Parameter]]:
    """The texts in these slices of lines of one form, each under its name."""
    columns = [[line[part].decode("utf-8", "replace").strip() for line in lines] for _, part in texts]
    pairs = (zip(repeat(name), column) for (name, _), column in zip(texts, columns, strict=True))
    return zip(*pairs, strict=True)


def _named_on(texts: Sequence[tuple[str, slice]], lines: Sequence[bytes]) -> Iterator[Iterable[_Parameter]]:
    """The parameters whose names and values are in these slices of lines of one form."""
    for line in lines:
        named = _named_values({name: line[part].decode("utf-8", "replace") for name, part in texts})
        keys = [(_NAMES.get(name.lower()), str(value).strip()) for name, value in named]
        yield [
            (key, text)
            for key, text in keys
            if key and text and (key not in _COUNTS or _COUNT.fullmatch(text))
        ]


def _fits_on(lines: Sequence[bytes]) -> Iterator[Iterable[_Parameter]]:
    """The fits that begin below headings."""
    for fit in map(fit_of_heading, lines):
        yield [(FIT, fit)] if fit else []


def _named_values(texts: Mapping[str, str]) -> Iterable[tuple[str, object]]:
    """The names and values in an object's `data`, or the one pair of a line."""
    if "json" not in texts:
        return [(texts["name"], texts["value"])]
    try:
        data = json.loads(texts["json"])["data"]
    except (ValueError, KeyError, RecursionError):
        return ()
    return data.items() if isinstance(data, dict) else ()
