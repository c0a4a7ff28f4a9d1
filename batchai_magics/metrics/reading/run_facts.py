"""Lines that tell facts of a run: its attempts, its fits, and the parameters in the table of programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial

from batchai_magics.metrics.grammar.headings import fit_heading, fit_of_heading
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes
from batchai_magics.metrics.grammar.program_lines import SampleExpression
from batchai_magics.metrics.measurement import ATTEMPT, FIT, Fact
from batchai_magics.metrics.programs import PROGRAM_FACTS, ProgramFact
from batchai_magics.metrics.reading.joined_lines import split_joined
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, rank_of
from batchai_magics.metrics.timestamps import DIGITS_TO_ZERO

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


def may_tell_facts(line: bytes) -> bool:
    """Whether a line with other digits may tell facts."""
    return any(literal in line for literal in FACT_LITERALS) or fit_heading(line) is not None


def facts_of(line: bytes, rank: int | None, offset: int, *, is_whole: bool) -> Iterator[Fact]:
    """The facts on a line.

    Args:
        line: The line, with its prefixes.
        rank: The rank of its process; if None, that of a label on the line.
        offset: The offset of its end.
        is_whole: It has its beginning and its end; else its last fact may be cut.
    """
    if len(line) > _MOST_BYTES:
        return
    parts = [line] if _is_one_line(_form_of(line)) else split_joined(line)
    is_labelled = rank is None
    for number, part in enumerate(parts, 1):
        label = rank_of(PREFIX.match(part)) if is_labelled else None
        rank = rank if label is None else label
        read = _reader_of(_form_of(part), is_whole=is_whole or number < len(parts))
        for key, value in read(part) if read else ():
            yield Fact(key, value, rank, offset)


def _form_of(line: bytes) -> bytes:
    """What lines have in common that tell the same facts: all but the values of their digits."""
    return line.translate(DIGITS_TO_ZERO)


@lru_cache(_MOST_FORMS)
def _is_one_line(form: bytes) -> bool:
    """Whether no line of this form is several that processes wrote without a newline between."""
    return split_joined(form) == [form]


@lru_cache(_MOST_FORMS)
def _reader_of(form: bytes, *, is_whole: bool) -> Callable[[bytes], Iterator[tuple[str, str]]] | None:
    """What reads the keys and values of the facts on lines of this form; None if they tell none."""
    prefixes = read_prefixes(form)
    begins = [begin for begin in (prefixes.begin, prefixes.name_begin) if begin is not None]
    for row, sample, expression in _EXPRESSIONS:
        for begin in begins if is_whole or row.has_fixed_width else ():
            if expression.match(form, begin):
                return partial(_facts_at, sample, expression, begin)
    return _fit_on if is_whole and fit_heading(form) else None


def _facts_at(
    sample: SampleExpression, expression: re.Pattern[bytes], begin: int, line: bytes
) -> Iterator[tuple[str, str]]:
    """The parameters that an expression finds on a line from where its message begins."""
    if match := expression.match(line, begin):
        texts = {name: match[group].decode("utf-8", "replace") for name, group in sample.texts}
        yield from _parameters(texts)


def _fit_on(line: bytes) -> Iterator[tuple[str, str]]:
    """The fit that begins below a heading."""
    if fit := fit_of_heading(line):
        yield FIT, fit


def _parameters(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The parameters in the texts of a line: those that a program names, or each under its name."""
    named = _named_values(texts)
    if named is None:
        yield from ((name, text.strip()) for name, text in texts.items() if name != "*")
        return
    for name, value in named:
        key, text = _NAMES.get(name.lower()), str(value).strip()
        if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
            yield key, text


def _named_values(texts: Mapping[str, str]) -> Iterable[tuple[str, object]] | None:
    """The names and values in an object's `data`, or the one pair of a line; None without any."""
    if "json" in texts:
        try:
            data = json.loads(texts["json"])["data"]
        except (ValueError, KeyError, RecursionError):
            return ()
        return data.items() if isinstance(data, dict) else ()
    return [(texts["name"], texts["value"])] if "name" in texts else None
