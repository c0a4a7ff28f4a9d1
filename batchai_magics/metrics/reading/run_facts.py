"""Lines that tell facts of a run: its attempts, its fits, and the parameters in the table of programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from batchai_magics.metrics.grammar.headings import fit_heading, fit_of_heading
from batchai_magics.metrics.grammar.program_lines import SampleExpression
from batchai_magics.metrics.measurement import ATTEMPT, FIT, TOTAL, Fact
from batchai_magics.metrics.programs import PROGRAM_FACTS, ProgramFact
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, rank_of

_BEGINNINGS = (
    rb"(?:Iter|Step) #\d",  # Horovod
    rb"(?:Img/sec per|Total img/sec on|Number of|Running warmup|Running benchmark|Batch size: ) ?",
    rb"Finished (?:Epoch|Evaluation )\[",  # CNTK
    rb"(?:(?<!\]) )?Evaluation Minibatch\[",  # a blank behind a label is of the label
    rb"(?<!Evaluation)(?:(?<!\]) )?Minibatch\[",
    rb"(?:Train )?Epoch:? \d",  # Keras, PyTorch
    rb"Test (?:loss|accuracy|set): ",
    rb":::ML(?:L|Pv0\.5\.0) ",
    rb"DLLL? (?:\{|20)",
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWEF] ",  # TensorFlow's own messages in between
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} ",
    rb"(?:INFO|WARNING|ERROR):\w",
)
_COUNTER = rb"\d{1,18}/(?:\d{1,18}|Unknown) (?:\[|- |[\x80-\xff])"  # Keras
_BEHIND_NUMBER = rb"(?:(?<=\d\.\d{4})|(?<=\de[+-]\d\d)|(?<=/step))"
_SEAM = re.compile(
    rb"(?<=[\w.;%)\]}])(?=(?:\[\d{1,6}\] )?(?:" + rb"|".join(_BEGINNINGS) + rb"))"
    rb"|" + _BEHIND_NUMBER + rb"(?=(?:\[\d{1,6}\] )?" + _COUNTER + rb")"
    rb"|(?<=\})(?=\{\")"
)
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
    TOTAL: TOTAL,
    "batchai_attempt": ATTEMPT,
}
_COUNTS = (_BATCH_SIZE, _PER_DEVICE, _GLOBAL, _DEVICE_COUNT)
_COUNT = re.compile(r"\d{1,18}")
_MOST_BYTES = 16 * 1024  # of a line with facts
_LEVEL = rb"(?:DEBUG|INFO|WARNING)"
_LOGGER_PREFIX = re.compile(
    rb"(?:[IW](?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] +"  # glog and absl
    rb"|" + _LEVEL + rb":[\w.]*: ?"  # Python logging
    rb"|(?:- )?(?:[\w.]+ - )?" + _LEVEL + rb" - )?"
)
_ATTEMPT = ProgramFact(
    program="batchai",
    sample="[batchai] attempt <batchai_attempt:2> begins on <*:node2: Slurm took its nodes for another job>",
    literals=(b"[batchai] attempt ",),
    words={"batchai_attempt": r"\d{1,18}", "*": r"[^\r\n]{1,4096}"},
)
_ROWS = (_ATTEMPT, *PROGRAM_FACTS)
_SAMPLES = [SampleExpression(row.sample, row.words) for row in _ROWS]
_EXPRESSIONS = [(each, re.compile(rb"(?:%b)[ \t]*\Z" % each.source.encode())) for each in _SAMPLES]
FACT_LITERALS = tuple(dict.fromkeys(literal for row in _ROWS for literal in row.literals))
"""A line with facts has one of these, or is the heading of a fit."""


def may_tell_facts(line: bytes) -> bool:
    """Whether a line with other digits may tell facts."""
    return any(literal in line for literal in FACT_LITERALS) or fit_heading(line) is not None


def facts_of(line: bytes, rank: int | None, offset: int) -> Iterator[Fact]:
    """The facts on a line.

    Args:
        line: The line, with its prefixes.
        rank: The rank of its process; if None, that of a label on the line.
        offset: The offset of its end.
    """
    is_labelled = rank is None
    for part in split_joined(line) if len(line) <= _MOST_BYTES else ():
        label = rank_of(PREFIX.match(part)) if is_labelled else None
        rank = rank if label is None else label
        for key, value in _key_values(part):
            yield Fact(key, value, rank, offset)


def _key_values(line: bytes) -> Iterator[tuple[str, str]]:
    """The keys and values of the facts on a line."""
    prefix = PREFIX.match(line)
    logger = _LOGGER_PREFIX.match(line, prefix.end() if prefix else 0)
    begin = logger.end() if logger else 0
    for row, expression in _EXPRESSIONS:
        if found := expression.match(line, begin):
            texts = {name: found[group].decode("utf-8", "replace") for name, group in row.texts}
            for name, value in _named_values(texts):
                key, text = _NAMES.get(name.lower()), str(value).strip()
                if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
                    yield key, text
            return
    if fit := fit_of_heading(line):
        yield FIT, fit


def _named_values(texts: Mapping[str, str]) -> Iterable[tuple[str, object]]:
    """The parameters in the texts of a line: those in an object's `data`, a name and a value, or each."""
    if "json" in texts:
        try:
            data = json.loads(texts["json"])["data"]
        except (ValueError, KeyError, RecursionError):
            return ()
        return data.items() if isinstance(data, dict) else ()
    return [(texts["name"], texts["value"])] if "name" in texts else texts.items()


def split_joined(text: bytes) -> list[bytes]:
    """Split lines that were joined without a newline."""
    return _SEAM.split(text)
