"""The grammar of a step line: prefixes, one or more positions, named numbers, in any order."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import NamedTuple

from batchai_magics.metrics.grammar.headings import phase_heading
from batchai_magics.metrics.grammar.json_objects import message_span, object_reading
from batchai_magics.metrics.grammar.line_tokens import DIGIT, scan_line
from batchai_magics.metrics.grammar.metric_names import (
    R_SQUARED,
    TRAIN,
    VALIDATION,
    is_measure,
    is_rate,
    is_timer,
    phase_of_word,
    split_phase,
)
from batchai_magics.metrics.grammar.parsed_line import (
    BRANCH,
    LineKind,
    LineScan,
    NamedNumber,
    ParsedLine,
    Span,
)
from batchai_magics.metrics.grammar.position_grammar import Position, is_count
from batchai_magics.metrics.grammar.prefix_grammar import Prefixes, read_prefixes, row_begin, trained_end
from batchai_magics.metrics.grammar.program_lines import read_program_line

_MAX_LINE_BYTES = 32 * 1024
_LONG_LINE_BYTES = 8 * 1024  # longer ones must be full of pairs
_BYTES_OF_PAIR = 64
_MAX_STRAY_WORDS = 6
_REFUSED = re.compile(
    rb"(?:(?<![\d.])(?<!step )(?<!Step )\d+[ \t]+|total )images/sec: |^Step \d+/\d+ : [A-Z]+ |://"
    rb"|\w\([a-z_]\w*=(?!\d{1,6}\)[ ]?[:=])"  # a call, but no `NDCG(k=20): 0.5`
    rb'|[ ]is \w*\(\w+: |^\s*\[?\{"|^\s*"|"\w+":| - PARAMETER |Traceback|\w(?:Error|Exception): |Best Iter\('
    rb"|\) at [\w./+-]*\.[A-Za-z]\w*:\d+\s*\Z"  # a frame of gdb's
)
_OPENING = re.compile(rb"""[ \t]*(?:[a-z]+:|[Tt]rain(?:ing)?:|["'][a-z]+["']: \{|\},?)""")
_JSON_NAME = re.compile(
    rb"(?i)[\w ]{0,30}(?:(?:stats|metrics?|logs?|results?)_{0,2}:|(?:train|valid|eval|test)\w* \|)"
    rb"[ \t]*(?=\{\")"
)
_DICT_NAME = re.compile(
    rb"(?i)(?P<phase>train|valid|validation|val|eval|test)[ _](?:metrics?|results?|stats|loss(?:es)?):"
    rb"[ \t]*(?=\{')"
)
_DECORATIONS = b" \t>#|*=~-"
_QUOTED_NUMBER = re.compile(rb'": ?"\d+\.\d+"')
_AVERAGED = re.compile(rb"(?i)averaged? stats:|(?:test|valid|val|validation|eval|evaluation):[ \t]+[A-Za-z]")
_EVALUATED = re.compile(rb"Eval(?:uation)?:[ ]")
_COUNTED_RATE = re.compile(r"(?:it|iters?|steps?|batch|batches|tok|toks|tokens?|words)/s(?:ec(?:ond)?)?")
_TWIG = re.compile(rb"(?:\xe2\x94\x82|[ ]|)[ ]{3}(?:\xe2\x94\x82|[ ])[ ]{3}\xe2\x94[\x9c\x94]" + BRANCH)
_BRANCHES = re.compile(rb"(?:\xe2\x94\x82|[ ]|)[ ]{3}\xe2\x94[\x9c\x94]" + BRANCH)
_RULE = re.compile(rb"[ \t]*([-=*_~#])\1{2,199}[ \t]*")
_LINE = rb"(?:\xe2\x94[\x80\x81]|\xe2\x95\x90){3,}"
_RULED = re.compile(rb"[ \t]*" + _LINE + rb"[ ][^\n%|\[]{1,80}[ ]" + _LINE + rb"[ \t]*")  # a heading
_BULLET = re.compile(
    rb"(?:[ \t]{2,}|(?<=\]:[ ])[ \t]+)(?:[|>*+-]+(?:[ ][>*-]+)?|\xe2\x80\xa2)[ ]|[ \t]*>{2,3}[ ]"
)  # `     | > loss: 0.5`, ` >>> loss: 0.5`
_ALONE = re.compile(
    rb"(?i:(?:global[ ])?step|iter(?:ation)?|epoch|episode|round|update|generation)"
    rb"[ \t]*[:=][ \t]*\d{1,18}(?:[ ]?/[ ]?\d{1,18})?"
)
_BETWEEN_RULES = re.compile(rb"[ \t]*([-=*#])\1{2,99}[ ]?[A-Za-z][^\n]{1,40}[ ]?\1{3,100}[ \t]*")
_MOST_COUNTS = 2
_WRAPPED_INDENT = 20  # blanks
_COUNTED = (  # by numbers beside a position
    r"(?:images?|imgs?|samples?|examples?|instances|batches|iterations?|iters|steps|timesteps|updates|frames"
    r"|tokens|sequences|sentences|words|documents|videos|clients|episodes|trajectories|rollouts)"
)
_AVERAGE_NAME = re.compile(r"av|ema_|epoch_")
_COUNT_NAME = re.compile(r"(?:(?:num|n|nb|number_of|total|train|val|test)_?){0,3}" + _COUNTED)
_SETTING = re.compile(
    rb"(?i)\b(?:batch[_ -]?size|workers|world_size|seed|depth|num_(?!(?:(?:train|val|test)_)?"
    + _COUNTED.encode()
    + rb")\w+)'?[ \t]*[:= \t]"
)
_EPOCH_BEGINS = re.compile(rb"(?i)(?:(?:start(?:ing)?|begin(?:ning)?)[ ])?epoch")
_MOST_COMMENT_WORDS = 3
_HAS_DIGIT = re.compile(r"\d")
_ENVIRONMENT = re.compile(rb"(?:[A-Z][A-Z0-9_]*=[^\s=]*(?:[ ;]+|\Z))+")
_RATE_SET = re.compile(rb"(?i)[ \t]*[-=]>[ \t]*(?:lr|learning[ _-]rate)")  # at a position
_REWARD = re.compile(r"reward|return|score")
_EPISODE = re.compile(rb"(?i)\bep\.?[ :=#]*\Z")
_JSON_MEMBER = re.compile(rb'[ \t]{2,4}"[^"\n]{1,80}": [^\s"\[{]{1,40}')  # of an object over several lines
# A line that states results and nothing else, as a script prints at its end: `Test accuracy: 93.1%`. Names
# are those of well-known measures, and numbers are fractions or percentages, as few settings are. A loss
# needs a word such as `final` or `test`, since training prints it all the time.
_OF = (
    rb"(?:test|testing|validation|valid|val|eval|evaluation|dev|train|training|final|overall|average|averaged"
    rb"|avg|mean|median|macro|micro|weighted|balanced|model|top[ -]?\d{1,2}|cross[ -]validation|cv|root"
    rb"|squared|absolute|adjusted|percentage|log|roc|pr|word|character|pixel|class|hold-?out)"
)
_MEASURE = (
    rb"(?:" + R_SQUARED.encode() + rb"|r2"
    rb"|accuracy|[am]?acc|f(?:b(?:eta)?)?[_-]?[12]|precision|recall|auc|auroc|auprc|rmse|rmsle|mae|mse|mape"
    rb"|bleu(?:-\d)?|rouge(?:-?[12l])?|chrf|meteor|perplexity|ppl|map(?:50|75|@\d?\.\d{1,2}(?::0?\.\d{1,2})?|@\d{1,3})?|m?ap50|(?:m|fw|mean)iou|(?-i:IoU|IOU)"
    rb"|dice|fid|wer|cer|ndcg(?:@\d{1,3})?|mrr|logloss|silhouette|acc@\d{1,2}|pass@\d{1,3})"
)
_BEHIND_OTHERS = rb"(?:loss|error|iou|score|entropy|mr|hits@\d{1,3})"
_DATA = rb"(?:test|testing|validation|valid|val|dev|train|training|hold-?out|held-out|unseen)"
_ON = (
    rb"(?:[ ](?:on|for|of|over)[ ](?:the[ ])?(?:model|network|classifier|"
    + _DATA
    + rb"(?:[ ](?:set|split|data|dataset|images|samples|examples))?)){0,2}"
)
_NAME = (
    rb"(?!train(?:ing)?[ _/-]loss)(?:the[ ])?"
    rb"(?:(?:" + _OF + rb"[ _/-]){0,4}" + _MEASURE + rb"(?:[ _-](?:score|macro|micro|weighted|avg|mean))?"
    rb"|(?:" + _OF + rb"[ _/-]){1,4}" + _BEHIND_OTHERS + rb"|score(?!=))" + _ON
)
_SPREAD = rb"(?:[ ]?\(?(?:\+/?-|\xc2\xb1)[ ]?\d{1,9}(?:\.\d{1,20})?%?\)?)?"
_VALUE = rb"-?\d{1,9}(?:\.\d{1,20}(?:[eE][-+]\d{1,3})?(?:[ ]?%)?|[ ]?%)" + _SPREAD
_COMMENTS = rb"(?:[ ]\([^()\n]{1,40}\)){0,2}"
_PAIR = _NAME + rb"(?:[ ]?[:=][ \t]{0,20}|[ ]is:?[ ]|[ \t]{1,40})" + _VALUE + _COMMENTS
_FOLD = rb"(?:(?:fold|split|seed|repeat)[ ]?#?\d{1,6}(?:[ ]?/[ ]?\d{1,6})?[ ]?[:,|-]?[ ])?"
_FAMILIES = (
    rb"(?:SVM|SVC|SVR|KNN|MLP|DNN|ANN|CNN|RNN|LSTM|GRU|GCN|GAT|GNN|VGG|VIT|BERT|GPT|GBM|GBDT|LGBM|XGB|CART"
    rb"|RF|DT|LR|NB|GNB|LDA|QDA|SGD)"
)
_MODEL = (  # `RandomForest accuracy: 0.93`, but `NMS IoU: 0.65`, `BASELINE accuracy: 0.93`
    rb"(?:(?!(?:min|max|target|goal|baseline|required|threshold|previous|expected|sota|human)[ _])"
    rb"(?-i:(?=\w*[a-z])[A-Z]\w*[A-Z]\w*|" + _FAMILIES + rb"-?\d{0,4})[ ](?!m?iou|score|map))?"
)
_RESULT = re.compile(
    rb"(?i)"
    + _FOLD
    + _MODEL
    + _PAIR
    + rb"(?:(?:[ ]?[,;|/][ ]?|[ ]-[ ]|[ \t]{1,8})"
    + _PAIR
    + rb"){0,11}\.?[ \t]*"
)
_MAY_BE_SETTING = re.compile(rb"(?i)(?:recall|precision|score|map|iou)[ \t]+" + _VALUE)


def read_line(text: bytes, *, are_labels_ranks: bool = False) -> ParsedLine | None:
    """Read a line without its end; None if it has no numbers of training, position or phase.

    A number in front, as in `3: loss 0.5`, is the rank with `are_labels_ranks`, else the step if there is no
    other.
    """
    prefixes, row = read_prefixes(text, are_labels_ranks=are_labels_ranks), row_begin(text)
    inner = [text.rfind(edge, 0, prefixes.begin) for edge in (b"*", b"(")]  # of a row, taken for prefixes
    if program_line := read_program_line(text, (0, row, *inner, prefixes.begin)):
        begin, reading = program_line
        return _known_reading(reading, prefixes, begin)
    if reading := _read_object(text, prefixes, row) or _read_edge(text, prefixes, row):
        return reading
    if is_too_long(text) or not DIGIT.search(text):
        return None
    if b'": ' in text and _JSON_MEMBER.fullmatch(text, row):
        reading = read_line(text.replace(b'"', b"'"), are_labels_ranks=are_labels_ranks)
        return reading if reading and reading.is_member else None
    if BRANCH in text and (branches := _BRANCHES.match(text, row)):  # `│   ├── Loss = 0.5`: indented instead
        text = text[:row] + b" " * len(branches[0]) + text[branches.end() :]
        prefixes = read_prefixes(text, are_labels_ranks=are_labels_ranks)
    return _read_message(*_message_of(text, prefixes, are_labels_ranks=are_labels_ranks))


def _read_edge(text: bytes, prefixes: Prefixes, row: int) -> ParsedLine | None:
    """Read a line that separates others: a rule, or the heading of a phase; None for other lines."""
    is_comment = BRANCH in text and _TWIG.match(text, row)  # `│   │   └── Best until now = 0.4`
    opens_object = text[-1:] == b"{" and not text[row:-1].strip()  # its members are on the lines below
    if is_comment or opens_object or _RULE.fullmatch(text):
        return ParsedLine(LineKind.RULE, rank=prefixes.rank_or_label, is_member=BRANCH in text)
    heading = phase_heading(text)
    if heading is None:
        return None
    scan = scan_line(text, prefixes)  # the heading may name its epoch: `[Epoch 0] Validation:`
    return ParsedLine(
        LineKind.PHASE,
        *_FinestPositions.of(scan).spans,
        prefixes.rank_or_label,
        phase=phase_of_word(heading["phase"].decode()),
        is_opening=_OPENING.fullmatch(text, row) is not None,
    )


def _read_message(text: bytes, prefixes: Prefixes) -> ParsedLine | None:
    """Read a line whose message names its numbers or positions; None for other lines."""
    if _REFUSED.search(text):
        return None
    scan, label = scan_line(text, prefixes), prefixes.label
    # only a rank in brackets touches the message: `[0]Valid average MRR: 0.6`
    is_glued = label and text[label[1] : label[1] + 1] == b"]" and text[label[1] + 1 : label[1] + 2].isupper()
    if not scan.positions and label and not is_glued:
        # `[100] loss=0.5`: its number may be a rank or, as here, the position
        scan = scan_line(text, prefixes._replace(begin=prefixes.label_begin))
        is_counter = label[1] - label[0] > 2 and scan.qualities
        is_position = scan.strong >= 2 or prefixes.has_origin or is_counter
        return _line_reading(scan, prefixes, prefixes.rank) if is_position else None
    rank = prefixes.rank_or_label
    return _line_reading(scan, prefixes, rank) or _read_behind_name(text, prefixes, rank)


def is_too_long(text: bytes) -> bool:
    """Whether a line is longer than lines of metrics, unless it is full of pairs."""
    if len(text) <= _LONG_LINE_BYTES:
        return False
    pairs = text.count(b"=") + text.count(b":")
    return len(text) > _MAX_LINE_BYTES or pairs * _BYTES_OF_PAIR < len(text)


def _read_object(text: bytes, prefixes: Prefixes, row: int) -> ParsedLine | None:
    """Read a JSON object with numbers; None for other lines."""
    begin = prefixes.begin
    if not text.startswith(b'{"', begin) or text[row:begin].strip(_DECORATIONS):
        return None
    if prefixes.has_origin and _QUOTED_NUMBER.search(text, begin):
        return None  # numbers as texts: it reads like a printed dict
    return _known_reading(object_reading(text, begin, prefixes.end), prefixes, begin)


def _known_reading(reading: ParsedLine | None, prefixes: Prefixes, begin: int) -> ParsedLine | None:
    """The reading of a message that begins here, with the rank in its prefixes; None if it has no numbers."""
    if reading is None or not (reading.numbers or reading.kind is LineKind.HEADING):
        return None
    ranks = [rank for rank in (prefixes.rank, prefixes.label) if rank and rank[1] <= begin]
    if ranks and not (reading.rank and reading.is_member):
        reading = reading._replace(rank=ranks[0])
    return reading._replace(prefix_end=begin)


def _message_of(text: bytes, prefixes: Prefixes, *, are_labels_ranks: bool) -> tuple[bytes, Prefixes]:
    """The line and its prefixes; JSON after a prefix is rewritten as a printed dict."""
    if span := message_span(text, prefixes.begin):  # at its place
        before = b"#" * (span[0] - prefixes.begin - 1) + b" "
        text = text[: prefixes.begin] + before + text[slice(*span)]
        return text, read_prefixes(text, are_labels_ranks=are_labels_ranks)
    if dict_name := _DICT_NAME.match(text, prefixes.begin):
        phase = phase_of_word(dict_name["phase"].decode())
        return text, prefixes._replace(begin=dict_name.end(), phase=phase)
    named = _JSON_NAME.match(text, prefixes.begin)
    if named and _is_json_object(text[named.end() :]):
        return text.replace(b'"', b"'"), prefixes._replace(begin=named.end())
    before = text[: prefixes.begin].rstrip()
    is_config = before.endswith(b":") and not before.endswith((b"stats:", b"metrics:"))
    if (prefixes.has_origin or prefixes.rank) and not is_config and _is_json_object(text[prefixes.begin :]):
        text = text.replace(b'"', b"'")
    return text, prefixes


def _is_json_object(message: bytes) -> bool:
    if not message.startswith(b'{"'):
        return False
    try:
        return isinstance(json.loads(message), dict)
    except ValueError:
        return False


def _read_behind_name(text: bytes, prefixes: Prefixes, rank: Span | None) -> ParsedLine | None:
    """Read measures after the name of a model: `resnet50 | epoch 3 | loss 0.5`; None for other lines."""
    end = trained_end(text, prefixes.begin)
    if end is None:
        return None
    behind = prefixes._replace(begin=end)
    scan = scan_line(text, behind)
    are_decimal = any(b"." in scan.digits_of(number) for number in scan.numbers)
    has_words = scan.early_words or scan.words
    reading = _line_reading(scan, behind, rank) if are_decimal and not has_words else None
    return reading if reading and reading.kind is LineKind.STEP else None


class _FinestPositions(NamedTuple):
    """The finest step and the finest epoch of a line."""

    step: Position | None
    epoch: Position | None

    @classmethod
    def of(cls, scan: LineScan) -> _FinestPositions:
        """The finest positions in a scan."""
        return cls(_finest(scan, "step"), _finest(scan, "epoch"))

    @property
    def spans(self) -> tuple[Span | None, Span | None]:
        """The spans of the counts of the step and of the epoch."""
        return self.step and self.step.span, self.epoch and self.epoch.span

    @property
    def total(self) -> Span | None:
        """The span of the total of the steps."""
        return self.step and self.step.total


def _line_reading(scan: LineScan, prefixes: Prefixes, rank: Span | None) -> ParsedLine | None:
    """The reading of a scanned line; None if it is none of metrics."""
    scan.is_bar = scan.is_bar and not _RULED.fullmatch(scan.text, row_begin(scan.text))
    is_member = _is_member(scan)
    kind = _kind(scan, is_member=is_member)
    if kind is None:
        return None
    _count_episodes(scan)
    finest = _FinestPositions.of(scan)
    reading = ParsedLine(
        kind,
        *finest.spans,
        rank or scan.rank,
        _numbers(scan, kind),
        scan.phase,
        prefixes.begin,
        is_bar=scan.is_bar,
        is_plain=_is_plain(scan),
        is_dict=scan.text[prefixes.begin : prefixes.begin + 2] == b"{'",
        is_member=is_member,
        is_whole=all(scan.digits_of(number).isdigit() for number in scan.numbers),
        is_assigned=0 < scan.assigned == len(scan.numbers),
        is_wrapped=is_member and _is_wrapped(scan),
        is_self_terminating=scan.is_bar and scan.text.rstrip().endswith(b"]"),
        names=(*_compared_totals(scan, finest.step), *_compared_totals(scan, finest.epoch)),
    )
    if kind is LineKind.HEADING:
        return _as_heading(reading, scan, finest)
    if kind is LineKind.LOOSE:
        return reading._replace(is_result=states_results(scan.text, prefixes.begin))
    is_counted = kind is LineKind.STEP and finest.total and is_count(scan.text[slice(*finest.total)])
    return reading._replace(total=finest.total) if is_counted else reading


def _as_heading(reading: ParsedLine, scan: LineScan, finest: _FinestPositions) -> ParsedLine:
    """The reading of a heading; its phase may follow its position."""
    phase = scan.section or reading.phase
    counts_own_batches = phase not in (None, TRAIN) and finest.total and not finest.epoch  # as a validation
    return reading._replace(
        step=None if counts_own_batches else reading.step,
        phase=phase,
        is_list=_ALONE.fullmatch(scan.text, scan.begin, scan.end) is not None,
    )


def _numbers(scan: LineScan, kind: LineKind) -> tuple[NamedNumber, ...]:
    """The numbers of a line: of each name and phase the first, or all if the name has digits.

    A bar without a label has its length instead, which distinguishes it from other bars.
    """
    if kind in (LineKind.STEP, LineKind.LOOSE):
        by_name = {
            (number.name.lower(), number.phase, number.begin if _HAS_DIGIT.search(number.name) else 0): number
            for number in reversed(scan.numbers)
        }
        return tuple(by_name.values())[::-1]
    totals = (
        position.total
        for position in scan.positions
        if position.total and scan.is_bar and not scan.is_labelled
    )
    lengths = (span for span in totals if scan.text[slice(*span)].isdigit())
    return tuple(NamedNumber("total", "", None, *span) for span in islice(lengths, 1))


def _is_environment(scan: LineScan) -> bool:
    """Whether a line holds environment variables: `EPOCH=3 LR=0.1 LOSS_SCALE=1024`."""
    if not scan.numbers or not _ENVIRONMENT.fullmatch(scan.text, scan.begin, scan.end):
        return False
    is_timed = any(is_timer(number.name) or is_rate(number.name) for number in scan.numbers)
    return not is_timed and all(
        "_" in number.name and scan.digits_of(number).isdigit() for number in scan.qualities
    )


def _is_schedule(scan: LineScan) -> bool:
    """Whether a line tells what is set from an epoch on: `epoch 10 -> lr 0.01`."""
    is_repeated = len({number.name for number in scan.numbers}) < len(scan.numbers)
    are_epochs = sum(position.noun == "epoch" for position in scan.positions) > 1
    is_rate_set = any(_RATE_SET.match(scan.text, position.end) for position in scan.positions)
    return not scan.qualities and ((is_repeated and are_epochs) or is_rate_set)


def _is_configuration(scan: LineScan) -> bool:
    """Whether a line is a dict of settings: `{'epoch': 100, 'batch_size': 64, 'lr': 0.1}`."""
    if scan.text[scan.begin : scan.begin + 2] != b"{'" or scan.qualities:
        return False
    return (
        bool(scan.positions)
        and scan.excluded > 0
        and not any(is_rate(number.name) for number in scan.numbers)
    )


_SETTINGS = (_is_environment, _is_schedule, _is_configuration)
"""Tests of whether the numbers of a line are settings."""


def _count_episodes(scan: LineScan) -> None:
    """Count episodes, not epochs, where a reward is beside `Ep 3`."""
    if not any(_REWARD.search(number.name) for number in scan.numbers):
        return
    for index, position in enumerate(scan.positions):
        if position.kind == "epoch" and _EPISODE.search(scan.text, 0, position.span[0]):
            scan.positions[index] = position._replace(kind="step", fineness=3)


def _kind(scan: LineScan, *, is_member: bool) -> LineKind | None:
    """The kind of a line; None if it is not read."""
    if any(are_settings(scan) for are_settings in _SETTINGS):
        return None
    if is_member:
        return LineKind.LOOSE
    if not _is_metrics(scan):
        return _kind_of_position(scan)
    if scan.positions:
        return LineKind.STEP
    return LineKind.LOOSE if scan.qualities else None


def _kind_of_position(scan: LineScan) -> LineKind | None:
    """The kind of a line with a position and no metrics; None if it is not read."""
    if scan.early_words or not scan.positions:
        return None
    has_text = _has_text(scan)
    are_timers = bool(scan.numbers) and all(is_timer(number.name) for number in scan.numbers)
    if are_timers and (scan.positions[0].kind == "epoch" or not has_text):
        return LineKind.HEADING
    if has_text or not _are_counts(scan):
        return None
    if scan.is_bar:
        return LineKind.BAR
    return LineKind.HEADING if _is_heading(scan) else None


def _has_text(scan: LineScan) -> bool:
    """Whether a position has words other than a tag or a comment on an epoch: `Epoch 0 in 2.3 sec`."""
    is_tagged = scan.text[scan.begin : scan.begin + 1] == b"[" and scan.words == scan.lone_words == 1
    is_short = scan.positions[0].kind == "epoch" and scan.words <= _MOST_COMMENT_WORDS
    is_comment = is_short and _EPOCH_BEGINS.match(scan.text, scan.begin) is not None
    return scan.words > 0 and not (is_comment or is_tagged)


def _are_counts(scan: LineScan) -> bool:
    """Whether all numbers are whole and none is a measure: `[Epoch: 0, numImages: 1600]`."""
    return not scan.qualities and all(
        not number.unit and scan.digits_of(number).isdigit() for number in scan.numbers
    )


def _is_member(scan: LineScan) -> bool:
    """Whether a line belongs to a block below a position: `    train/loss=10.98`.

    It has one number, or several in columns that end in tabs, or far to the right, where rich wraps long
    lines.
    """
    if scan.early_words or scan.words or scan.positions:
        return False
    if len(scan.numbers) > 1:
        message = scan.text[scan.begin :]
        return _is_wrapped(scan) or (message.endswith(b"\t") and message.count(b"\t") >= len(scan.numbers))
    least = 3 if scan.has_origin else 2  # blanks; one may belong to the prefix
    is_indented = scan.text[scan.begin - least : scan.begin].isspace()
    bullet = _BULLET.fullmatch(scan.text, row_begin(scan.text), scan.begin)
    return len(scan.numbers) == 1 and (is_indented or bullet is not None)


def _is_wrapped(scan: LineScan) -> bool:
    """Whether a line is the rest of the one above, which rich wrapped below its message."""
    is_far = scan.begin >= _WRAPPED_INDENT and not scan.text[: scan.begin].strip()
    return is_far and scan.strong > 0 and len(scan.numbers) > 1


def _is_heading(scan: LineScan) -> bool:
    """Whether the positions of a line are a heading, not part of a command or a configuration.

    `epoch=1` needs brackets. Numbers beside a position must be counts, such as of images, unlike
    `hidden: 256`.
    """
    are_counts = all(
        _COUNT_NAME.fullmatch(number.name) or is_rate(number.name) or is_timer(number.name)
        for number in scan.numbers
    )
    if not are_counts or len(scan.numbers) > _MOST_COUNTS or _SETTING.search(scan.text, scan.begin):
        return False
    message = scan.text[scan.begin : scan.end].strip(b" \t=-*#>")
    if _ALONE.fullmatch(message) or message[:1] == b"[" or _BETWEEN_RULES.fullmatch(scan.text):
        return True
    if b":" in message[:-1] and not any(
        position.total or position.kind == "epoch" for position in scan.positions
    ):
        return False
    is_indented = scan.text[scan.begin - 2 : scan.begin].isspace()
    is_framed = b"***" in scan.text[: scan.begin]  # `**** Epoch=1 start ****`
    return b"=" not in message or is_indented or is_framed


def _is_plain(scan: LineScan) -> bool:
    """Whether the numbers are a quality of a phase, as in `Validation loss: 0.5`."""
    names, qualities = [number.name for number in scan.numbers], {number.name for number in scan.qualities}
    if not qualities or any("_of_" in name or "_for_" in name for name in names):
        return False  # `Test Accuracy of airplane: 71%`
    if _AVERAGED.match(scan.text, scan.begin):
        return all(is_measure(name) or is_timer(name) for name in names)
    if not (scan.phase or all(number.phase or _AVERAGE_NAME.match(number.name) for number in scan.numbers)):
        return False
    is_validated = all((number.phase or scan.phase) == VALIDATION for number in scan.numbers)
    if is_validated and 1 < len(qualities) >= len(scan.numbers) / 2:
        return True  # `val_cost: 0.5, val_recon: 0.25, val_kl: 0.25`
    if _EVALUATED.match(scan.text, scan.begin) or any(map(is_rate, names)):
        return True
    return all(is_timer(name) or _COUNT_NAME.fullmatch(name) for name in names if name not in qualities)


def _is_metrics(scan: LineScan) -> bool:
    """Whether a line has at least one metric of training, and no sentence around it."""
    if scan.early_words or not (
        scan.strong or _is_all_assigned(scan) or _is_timed(scan) or _is_placed(scan) or _is_phased(scan)
    ):
        return False
    if not scan.words:
        return True
    is_clear = scan.strong >= 2 and bool(scan.positions) and scan.words <= _MAX_STRAY_WORDS
    return is_clear and scan.stray_words <= len(scan.numbers) + scan.excluded


def _is_placed(scan: LineScan) -> bool:
    """Whether several decimals and no words are beside a position: `(epoch: 1, iters: 5) D_A: 0.5 …`."""
    decimals = [number for number in scan.numbers if b"." in scan.digits_of(number)]
    is_measuring = not all(is_timer(number.name) for number in decimals)
    return bool(scan.positions) and not scan.words and len(decimals) > 2 and is_measuring


def _is_phased(scan: LineScan) -> bool:
    """Whether a number is given for two phases: `Train: 0.31, Val: 0.21`, `Train_rf 0.4  Val_rf 0.5`."""
    phased = (number for number in scan.numbers if number.phase and b"." in scan.digits_of(number))
    names = [split_phase(number.name)[1] for number in phased]
    return bool(scan.positions) and len(names) > len(set(names))


def _is_timed(scan: LineScan) -> bool:
    """Whether a step has several timers or rates and nothing else: `step:7/100 time:5ms step_avg:7.1ms`."""
    has_step = any(position.kind == "step" for position in scan.positions)
    are_timers_or_rates = all(
        is_timer(number.name) or is_rate(number.name) or number.unit in ("ms", "s") for number in scan.numbers
    )
    is_enough = len(scan.numbers) > 1 or any(_COUNTED_RATE.fullmatch(number.unit) for number in scan.numbers)
    return has_step and not scan.words and is_enough and are_timers_or_rates


def _is_all_assigned(scan: LineScan) -> bool:
    """Whether a position precedes numbers that all have a `=`, as in `step 3: energy = -12`."""
    is_worded = any(scan.text[position.span[0] - 1 :][:1] != b"=" for position in scan.positions[:1])
    is_timed = all(is_timer(number.name) for number in scan.numbers)
    return is_worded and not scan.words and not is_timed and 0 < scan.assigned == len(scan.numbers)


def _finest(scan: LineScan, kind: str) -> Position | None:
    """The finest position of a kind; of equally fine ones, the one with the largest total, else the first."""

    def rank(position: Position) -> tuple[int, int]:
        total = scan.text[slice(*position.total)] if position.total else b""
        return position.fineness, int(total) if total.isdigit() else 0

    positions = (position for position in scan.positions if position.kind == kind)
    return max(positions, key=rank, default=None)


def _compared_totals(scan: LineScan, finest: Position | None) -> list[Span]:
    """The spans of the totals that tell which position is the finest; empty if no other is as fine."""
    kind = finest and (finest.kind, finest.fineness)
    positions = [position for position in scan.positions if (position.kind, position.fineness) == kind]
    return [position.total for position in positions if position.total] if len(positions) > 1 else []


def states_results(text: bytes, begin: int) -> bool:
    """Whether a line has only names of well-known measures and their numbers from `begin` on."""
    if text[max(0, begin - 2) : begin].isspace() or _MAY_BE_SETTING.fullmatch(text, begin):
        return False
    return _RESULT.fullmatch(text, begin) is not None
