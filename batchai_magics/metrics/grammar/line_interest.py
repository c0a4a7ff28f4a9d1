"""Which lines may matter to the grammar: a search for the words that it knows, so that prose costs little."""

from __future__ import annotations

from functools import cache
from typing import Any

from batchai_magics.metrics.grammar.metric_names import MEASURE_PARTS, MEASURE_WORDS

_POSITIONS = ("epoch", "step", "iter", "batch", "update", "%|", "/s", "=loss")
_WORDS = ("mean", "memory", "result")
_SEPARATED = r"(?:[^a-z]|^)(?:{})(?:[^a-z]|$)"


@cache
def _expression() -> Any:
    """Compiled on first use to keep imports fast."""
    import re2

    options = re2.Options()
    options.encoding = options.Encoding.LATIN1
    options.case_sensitive = False
    options.log_errors = False
    options.one_line = False
    parts = [re2.escape(part) for part in (*MEASURE_PARTS, *_POSITIONS)]
    words = _SEPARATED.format("|".join((*MEASURE_WORDS, *_WORDS)))
    rule = r"---|===|\*\*\*|___|###|~~~"
    any_of = "|".join([*parts, words, rule, "\xe2[\x94\x95]"])
    return re2.compile(any_of.encode("latin-1"), options)


def may_matter(text: bytes) -> bool:
    """Whether a line may be a step line, a heading or a bar."""
    return _expression().search(text) is not None
