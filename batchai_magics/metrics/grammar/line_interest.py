"""Selects lines that may matter: one search over many lines for what all lines with a training number have.

Other lines are not parsed, so that prose costs little; a selected line may still have no number.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from batchai_magics.metrics.grammar import plain_lines
from batchai_magics.metrics.grammar.headings import FIT_EXPRESSION
from batchai_magics.metrics.grammar.metric_names import MEASURE_PARTS, MEASURE_WORDS
from batchai_magics.metrics.grammar.program_lines import program_literals
from batchai_magics.metrics.grammar.table_columns import program_openings

_POSITIONS = (
    "epoch", "step", "iter", "batch", "update", "tick", "t_env", "episode", "rollout", "generation", "%|",
    "/s", "=loss",
)  # fmt: skip
_WORDS = ("mean", "memory", "result", "round")
_SEPARATED = r"(?:[^a-z0-9]|^)(?:{})(?:[^a-z]|$)"
_BRACE = r"(?:^|[^\w'\"({\[=])\{[ \t]*$"
_COUNTED_ALONE = r"[0-9]/ *[0-9]+: [0-9]+\."
_RULES = ("---", "===", r"\*\*\*", "___", "###", "~~~", "\xe2[\x94\x95]", _BRACE)

_NUMBER = r"""(?:',|['"\[(])?[ \t]*[-+]?(?:\.?[0-9]|n/?a|inf)"""
_SIGN = "(?:[:=]|\xef\xbc[\x9a\x9d]|\xe4\xb8\xba|\xe7\x82\xba)"  # or one of East Asia
_BEHIND_NAME = (
    rf"""[\w./@%()'"\]\[*#+-]*(?:[^\n=:]*{_SIGN}[ \t]*|[ ](?:is|was|-)[ ]|[ \t]*(?:\([^\n)]*\))?[ \t]*)"""
)
_FIELDS = r"(?:train|eval)[ ]+(?:\|[ ]+)?[a-z]+:[ ]*[0-9]"
_COUNTED = (
    r"(?:epochs?|steps?|iterations?|iters?|itrs?|batch|batches|updates?|episodes?"
    r"|rollouts?|rounds?|generation|tick|(?:^|[^a-z])(?:it|ep))"
    r"'?(?:\([a-z]*\))?'?[ \t:=#_'\[(,]*[0-9]",
    r"\[[ \t]*[0-9][0-9,]*(?:[/,][ \t]*[0-9][0-9,]*[^\n\]]{0,12})?[ \t]*\]",
    r"[0-9][ \t]+\|[ \t]+[a-z]",
    r"[0-9]\|[0-9]+\|",
    r"[0-9]:[ \t]+(?:[a-z0-9]*[g-z_]|[a-f][a-z0-9]*[ \t]*[:=]|[0-9.-]+,)",  # no dump in hexadecimal digits
    r"[0-9]/[ \t]*(?:[0-9]+|unknown)(?:[ \t,)\]]|$)",
    _COUNTED_ALONE,
    r"[0-9][ \t]+\[[a-z][\w ]*:",
    r"[0-9]epoch",
    r"[0-9]%\|",
    _FIELDS,
    r"[a-z]:[ ]+[-0-9.]+\t[a-z]",
    r"""["_](?:step|iteration|iter|epoch)":""",
)
_TABLES = (
    r"(?:^|[|,;\t\]:>}]|[ ]{2})[ \t]*(?:epochs?|ep|e|total_timesteps|timesteps|global_step|steps?|#"
    r"|training_iteration|iteration|iter|it|update|round|batch|gen|generation)"
    r"[ \t]*(?:$|[|,;\t:]|[ ]{2})",
    r"(?:[a-z][\w./@-]*[ ]{2,}){4,}[a-z][\w./@-]*[ ]*\\?[ \t]*$",
    *program_openings(),
    r"\{'[^'\n]{1,80}': [^}\n]*,$",
    _BRACE,
    r"step \(% done\)",
    r"(?:loss|acc|accuracy|f1|auc|score|error)[ \t]*\|[ \t]*[a-z][^\n0-9]*$",
    r"(?:metrics?|split|set|phase|dataset|mode|stage|subset)(?:[ \t]*\||[ ]{2})[ \t]*[a-z][^\n]*$",
    r"[-=][-=+|:. \t]{7,}$",
    r"^[ \t]*(?:---|===|\*\*\*|___|~~~|###)[-=*_~#]*[ \t]*$",
    "\xe2[\x94\x95]",
)
_DECORATED_PHASE = r"(?:^|\W)[-=>#*]+[ \t]*(?:running )?(?:eval|valid|test)"
_MEMBER = (  # of a block
    r"""[ \t]{2,}(?:(?:[|>*+-]+(?:[ ][>*-]+)?|\xe2\x80\xa2)[ ])?"?[a-z]"""
    r"""(?:[^\n=:]*[:=]|[^\n \t]*[ \t])[ \t]*['"\[(]?[-+]?\.?[0-9]"""
)
_PHASE_HEADING = (
    r"(?:train(?:ing)?|performance)[ _](?:results?|metrics|stats|summary):[ \t]*$"
    r"|^[ \t]*train(?:ing)?:[ \t]*$|[\"'](?:train|val|valid|eval|test)[a-z]*[\"']: \{$|^[ \t]+\},?$"
    r"|(?:valid|val|validation|test|evaluation|eval)(?: set)?"
    r"(?:[ _](?:results?|error|metrics|stats|summary))?:[ \t]*$"
    r"|(?:validation|validating|eval|evaluation|evaluating|test|testing)"
    r"(?: at step [0-9]+| begins?| starts?| started)?[ ]?\.{2,3}[ \t]*$"
    r"|evaluat(?:e|ing|ion)[ ]?:[ ]?(?:val|valid|validation|dev|test)"
    r"|(?:evaluating|evaluation|validating|testing) on (?:the )?(?:val|valid|validation|dev|eval|test)"
)


_DUMP = re.compile(rb"[0-9a-f]{6,16}:?[ ]+(?:[0-9a-f]{2,8}[ ]+){4}")


def _compiled(parts: Sequence[str]) -> Any:
    """An expression for any of these, in any case; RE2 is imported on first use to keep imports fast."""
    import re2

    options = re2.Options()
    options.encoding = options.Encoding.LATIN1
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = 64 << 20
    return re2.compile(b"(?m)" + "|".join(parts).encode("latin-1"), options)


def _foreign(words: Sequence[str]) -> str:
    """An expression for words of other languages in their usual cases: RE2 knows the cases of ASCII only."""
    cases = dict.fromkeys(case for word in words for case in (word, word.capitalize(), word.upper()))
    return "|".join(case.encode().decode("latin-1") for case in cases)


@cache
def _expression() -> Any:
    """An expression that every line of the grammar matches: a word that it knows."""
    import re2

    words = _SEPARATED.format("|".join((*MEASURE_WORDS, *_WORDS)))
    texts = map(re2.escape, (*MEASURE_PARTS, *_POSITIONS))
    foreign = _foreign((*plain_lines.NAMES, *plain_lines.COUNTERS))
    literals = (re2.escape(text.decode("latin-1")) for text in program_literals())
    headings = (_DECORATED_PHASE, _PHASE_HEADING, FIT_EXPRESSION)
    return _compiled([*texts, words, foreign, _COUNTED_ALONE, _FIELDS, *_RULES, *literals, *headings])


@cache
def _line_expression(literals: tuple[bytes, ...]) -> Any:
    """An expression for lines with a number of training, lines of tables, and these literals."""
    import re2

    parts = "|".join(re2.escape(part) for part in MEASURE_PARTS)
    words = _SEPARATED.format("|".join(MEASURE_WORDS))
    foreign = _foreign(plain_lines.NAMES)
    counted = f"(?:{_foreign(plain_lines.COUNTERS)}){_SIGN}?[ \t:=#_'\\[(]*[0-9]"
    named = f"(?:{parts}|{words}|{foreign})(?:[a-z]*[ ](?:train|val|valid|test))?{_BEHIND_NAME}{_NUMBER}"
    texts = [re2.escape(text.decode("latin-1")) for text in (*literals, *program_literals())]
    headings = (_PHASE_HEADING, _DECORATED_PHASE, FIT_EXPRESSION)
    return _compiled([named, counted, *_COUNTED, *_TABLES, _MEMBER, *headings, *texts])


def may_matter(text: bytes) -> bool:
    """Whether a line may be a step line, a heading or a bar."""
    return _expression().search(text) is not None


def has_interest(text: bytes, literals: tuple[bytes, ...]) -> bool:
    """Whether any line of a text may matter to the grammar, or has one of these literals."""
    return _line_expression(literals).search(text) is not None


def interest_in(lines: Sequence[bytes], rows: Sequence[int], literals: tuple[bytes, ...]) -> Iterator[int]:
    """Those of `rows` whose lines may matter to the grammar, or have one of these literals."""
    candidates, at, index = [lines[row] for row in rows], 0, 0
    expression, text = _line_expression(literals), b"\n".join(candidates)
    ends = [*accumulate([len(line) + 1 for line in candidates])]
    while match := expression.search(text, at):
        index = bisect_left(ends, match.end(), index)
        dump = _DUMP.match(candidates[index])  # words of hexadecimal digits, some of which look like `acc`
        if dump is None or not dump[0].translate(None, b"0123456789: "):
            yield rows[index]
        at = ends[index]
        if at > len(text):
            return
