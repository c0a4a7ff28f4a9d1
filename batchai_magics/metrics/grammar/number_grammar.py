"""Numbers as programs print them, with the names before them and the units behind them."""

from __future__ import annotations

import re

_DIGITS = rb"\d{1,3}(?:,\d{3})+(?!\d|,\d)(?:\.\d{0,40})?|\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}"
NUMBER = (
    rb"[-+]?(?:(?:" + _DIGITS + rb")(?:[eE][-+]?\d{1,4})?|(?i:nan|inf(?:inity)?)(?![A-Za-z])|nan(?=ms\b|s\b))"
)
"""A number with thousands commas, an exponent, or none at all."""

PLAIN_NUMBER = rb"[-+]?(?:(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?|nan|inf)"
"""A number as Python and C print it. All repetitions are bounded, so matching time is too."""

_PER = (
    rb"(?:s|sec|second|ms|step|it|image|img|frame|iter|iteration|batch|epoch|sample|token|gpu|GPU|device|day"
    rb"|chip|h|hour|min)"
)
UNIT = (
    rb"(?:[kKM]|src|tgt|source|target) (?=[A-Za-z]{2,20}/"
    + _PER
    + rb")[A-Za-z]{2,20}/"
    + _PER
    + rb"(?:/\w{1,10})?|%(?![|\d])"
    rb"|(?:(?<=\.\d)|(?<=\.\d\d)|(?<=\.\d\d\d)|(?<=\.\d\d\d\d))%(?=\|)"
    rb"|[mun\xb5]?s|\xc2\xb5s|secs?|seconds?|mins?|minutes?|hours?|[hm]|[KMGTPkB](?:i?[Bb](?:ytes)?)?|x|dB|deg"
    rb"|(?:MODEL_)?[TGPM]?(?:FLOPS|FLOPs|flops|Flops|FLOP)(?:/\w{1,10}){0,3}"
    rb"|[A-Za-z]{0,20}/" + _PER + rb"(?:/\w{1,10}){0,2}|seconds per iteration"
    rb"|(?:tokens|frames)(?=[ \t]*(?:\Z|[,;|)]))"
)
_NO_NAME = (  # `loss 2.0 tok/s 100`: blanks alone separate names and numbers, and each name needs its own
    rb"(?(sign)|(?(colon)|(?![A-Za-z]{1,20}/"
    + _PER
    + rb"[ \t]{1,4}"
    + NUMBER
    + rb"(?:[ \t]*(?:\Z|[,;|])|[ \t]+(?!(?:"
    + UNIT
    + rb")(?![\w/]))[A-Za-z_]))))"
)
_UNIT_END = rb"(?:(?<=%)(?=:[ ])|(?![\w/]|[ \t]*[:=])|(?<=\ds)(?=[ ]:[ ])|(?<=[KMGTB])(?=/\d))"
_THRESHOLDS = (  # of `mAP@0.5:0.95: 0.31`, `AP@[.5:.95]=0.31`
    rb"(?:(?:(?<=\.\d)|(?<=\.\d\d)):0?\.\d{1,2}(?=[ ]?[:=]|[ \t]+[-.\d])"
    rb"|(?<=@)\[0?\.\d{1,2}:(?:0?\.\d{1,2}:)?0?\.\d{1,2}\])"
)
_WORD = (
    rb"(?:[A-Za-z_%]|#(?=[^ ])|\d{1,4}_(?=[a-z]))[\w./@'*+%&^-]{0,80}" + _THRESHOLDS + rb"?"
    rb"(?:\((?:[^()\s]|\([^()\s]{0,20}\)){1,40}\)[\w./@']*)?"
)
_NO_STOP = rb"(?<!\w{6}\.)(?<!done\.)"  # a sentence ends in `done. loss 0.5`, not in `Val. Loss: 0.5`
_WRAPPED = (
    rb"(?P<wrap>\d{1,12}/\d{1,12}[ ]?\((?=\d{1,3}(?:\.\d{1,9})?%\))"  # `89/110 (81%)`
    rb"|np\.float\d\d\(|\[\(0, '|(?:tensor|Array|jnp\.array|DeviceArray)\(|[\[(][ \t]*|')?"
)
_PAIRS = (  # `total loss 0.5 (ce 0.3, kd 0.2)`, `train loss 0.5 (val loss 0.6)`, but `0.5 (avg: 0.6)`
    rb"(?!(?i:avg|average|mean|median|std|sd|sem|ci|min|max|best|prev|previous|last|was|ema|smoothed|running"
    rb"|total|global|delta|threshold|target|weight)\b)(?:(?i:train|valid|val|validation|test|eval|dev)[ ])?"
    rb"(?:[A-Za-z][\w./@-]{0,30}(?:[ ]?[:=][ ]?-?\d+\.\d+%?(?=[,;)])|[ ]-?\d+\.\d+%?[,;][ ])"
    rb"|(?i:acc|accuracy|loss|ppl|f1|auc|dice|iou|psnr)[ ]\d+\.\d+%?\))"
)
_TAIL = (
    rb"(?:f0)?(?:[ \t]?" + _NO_NAME + rb"(?P<unit>" + UNIT + rb")" + _UNIT_END + rb")?"
    rb"(?:(?<=[KMGTB])/\d{1,6}(?:\.\d{1,6})?[KMGT]i?B?\b|(?<=\d)/\d{1,12}\.\d{1,12})?"
    rb"(?:[ \t]*(?:\+/-|\+-|\xc2\xb1|\xb1)[ \t]*" + NUMBER + rb")?"
    rb"(?(wrap)'?[ \t]*(?:,[^()\[\]\n=:;|]{0,200}\]|(?:,[^()\n]{0,80}(?:\([^()]*\))?)?\)|[ \t]*[\])])?|)"
    rb"(?:[ \t]*\((?!(?:epoch|step|iter|batch)\w*[ :=]|[A-Za-z]+\)[ ][A-Za-z_]+[:=]"
    rb"|(?:val|valid|validation|test)[ :=]{1,3}[-+.\d]|" + _PAIRS + rb")[^()\n]{0,60}\))?"
    rb"(?:[ \t]+/[ \t]+" + NUMBER + rb")?"
)
_END = rb"(?![\w@%])(?!\.\d)(?!:\d)(?!-\d)(?!/[\w.])"

PAIR = re.compile(
    rb"(?:'(?P<quoted>[^'\n]{1,100})'[ \t]*(?P<colon>[:=])[ \t]*"
    rb"|(?P<name>" + _WORD + rb"(?:" + _NO_STOP + rb"[ ](?:/[ ])?" + _WORD + rb"){0,7}?"
    rb"(?: ?\([^()\n]{1,30}(?:\([^()]*\))?\))?"
    rb"(?:[ ]in[ ]\w{1,3})?)(?:[ ]\[\d+-\d+\](?=:))?"
    rb"(?:[ \t]{0,40}(?P<sign>::|[:=])[ \t]{0,60}|[ ](?P<is>is|was|of(?=[ ][-+]?\d*\.\d))[ ]{1,4}"
    rb"|[ \t]{1,40}|(?=\[[-+.\d])))"
    + _WRAPPED
    + rb"(?P<number>"
    + NUMBER
    + rb")(?![ ](?:minutes?|hours?|days?)\b|[hmd][ ]?\d{1,2}[hms]\b)"
    + _TAIL
    + _END
)
"""A name and its number: groups `quoted` or `name`, `sign` or `is`, `number`, `unit`."""

SLASHED_NUMBERS = re.compile(
    rb"(?:(?P<front>[A-Za-z][\w.@-]{0,40})[ ]?(?=\([A-Za-z/ ]{1,80}\)[ \t]{0,4}[:=]))?(?P<open>\()?"
    rb"(?P<heads>[A-Za-z]\w{0,30}(?:[ ]?/[ ]?[A-Za-z]\w{0,30}){1,5})(?(open)\))"
    rb"(?:[ _](?P<name>[A-Za-z][\w.@-]{0,40}))?[ \t]{0,4}[:=]?[ \t]{0,4}(?P<numbers>"
    + NUMBER
    + rb"(?:[ ]?/[ ]?"
    + NUMBER
    + rb"){1,5})(?=\.?[ \t]*\Z|(?!\.\d)"
    + _END
    + rb")"
)
"""Names with as many numbers: `train/val loss: 0.5/0.6`, `loss (train/val): 0.5/0.6`."""

_LISTED = rb"[A-Za-z][\w./@%-]{0,30}(?:[ ][A-Za-z@][\w./@%-]{0,30}){0,2}"
LISTED_NUMBERS = re.compile(
    rb"(?P<heads>"
    + _LISTED
    + rb"(?:,[ ]?"
    + _LISTED
    + rb"){1,12})[\])]?[ ]{0,3}(?:[:=]|[=-]{1,4}>)[ ]{0,4}[\[(]?(?P<numbers>"
    + NUMBER
    + rb"%?(?:,[ ]{1,2}"
    + NUMBER
    + rb"%?){1,12}),?(?:[\])](?=[ \t]*[;|])|[\])]?[ \t]*\Z)"
)
"""Names, then as many numbers in their order: `loss, acc = 0.5, 0.9`."""

ELEMENT = re.compile(rb"(?P<number>" + NUMBER + rb")(?P<unit>%)?")
"""One of those numbers."""

JOINED_PAIR = re.compile(
    rb"(?P<name>[a-z][a-z_]{1,30})_(?P<number>\d{1,9}\.\d{1,20}(?:e[-+]\d\d)?)(?=[ ]|\Z)"
)
"""A name that an underscore joins to its number: `loss_2.912`."""

NAME_AT = re.compile(
    rb"(?:[Tt]he[ ])?(?P<name>" + _WORD + rb"(?:[ ]" + _WORD + rb"){0,4}?)(?:[ ]\(for[ ](?:one|1)[ ]batch\))?"
    rb"[ ](?:(?:at|after|for|in)(?:[ ]the)?[ ]|\()(?=[A-Za-z])"
)
"""The name of a number that stands behind a position: `Loss at step 100: 0.5`."""

NUMBER_BEHIND = re.compile(
    rb"\)?[ \t]{0,4}(?:[:=,][ \t]{0,4}|[ ]is[ ])(?P<number>" + NUMBER + rb")(?:[ ]?(?P<unit>%))?" + _END
)
"""That number."""

TEXT_PAIR = re.compile(
    rb"(?:'[^'\n]{1,100}'[ \t]*:[ \t]*(?:'[^'\n]{0,200}'|None|True|False|[^,{}\[\]\s]{1,60}(?=[,}]))"
    rb"|(?:(?P<name>"
    + _WORD
    + rb"(?:"
    + _NO_STOP
    + rb"[ ]"
    + _WORD
    + rb"){0,3}?)[ \t]{0,4}:[ \t]{0,4}|"
    + _WORD
    + rb"[ \t]{0,4}=[ \t]{0,2})"
    rb"(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[\[(](?:[^\[\]()\n]|\([^()\n]*\)|\[[^\[\]\n]*\]){0,200}[\])]"
    rb"|\d+ days?, [\d:]+|\d+d \d+h \d+m|(?!\d{1,3}%\|)[^\s,;|()\[\]{}=]{1,80})(?=[\s,;|)\]}]|\Z)"
    rb"|" + _WORD + rb"=(?=[,\s\])]))"
)
"""A name whose value is not numeric: a duration, a word, a list."""

DASHED_PAIR = re.compile(rb"(?P<name>[A-Za-z_][\w./@]{0,80}) - (?P<number>" + NUMBER + rb")(?=[,\]]|[ ]*\Z)")
"""A name and its number behind a progress bar: `dice_loss - 0.5`."""

PIPED_PAIR = re.compile(
    rb"(?P<name>" + _WORD + rb"(?:[ ]{1,20}" + _WORD + rb"){0,3}) +\| +(?P<number>" + NUMBER + rb") *\Z"
)
"""A name and its number behind a bar, at the end of a line: `eval Accuracy |  0.84`."""

NUMBER_AND_NAME = re.compile(
    rb"(?=[-+]?[\d,]*\.)(?P<number>"
    + NUMBER
    + rb")(?P<unit>%)?[ ](?P<open>\()?(?P<name>[A-Za-z][\w.]*(?:[ ][A-Za-z][\w.]*)?)"
    rb"(?(open)\))(?=[,;|)\]]|[ ]\||[ ]\([-+]?[\d.]|[ \t]*\Z)"
)
"""A number before its name: `950.2 avg loss,`, `0.5 (val loss),`."""

NUMBER_ALONE = re.compile(rb":?[ \t]+(?P<number>" + NUMBER + rb")" + _END)
"""A number behind a step: `24.01` of `Train loss 100 24.01`."""

RATE = re.compile(
    rb"(?P<number>" + NUMBER + rb")[ \t]?(?P<unit>" + UNIT + rb")(?![\w/:])(?:[ \t]*\([^()\n]{0,60}\))?"
)
"""A number with a unit and no name."""

PLAIN = re.compile(NUMBER + rb"(?:[:/.\-]\d+)*[%\w]*")
COMMENT = re.compile(
    rb"\((?!" + _PAIRS + rb")[^()\n]{0,80}\)|(?:new )?best(?=[ \t*!]*\Z)|stalled \d+ times(?=[ ]\()"
    rb"|(?i:(?:wrote|saved|saving)[ ](?:the[ ])?(?:new[ ])?(?:best[ ])?(?:checkpoint|model)"
    rb"|(?:(?:checkpoint|model)[ ])?saved)(?=[ \t.!*]*\Z)"
)
WORD = re.compile(rb"[^\s,;|()\[\]{}:=]+:?")
SEPARATOR = re.compile(
    rb"(?:#011|#(?=[ ])|@(?=epoch[ ]\d)|[ \t,;|\[\]{}()<>*=~:]"
    rb"|/(?=(?:micro_step|global_step|step|epoch|iter)\b)|-(?=[-=>\s])"
    rb"|\xe2[\x80\x94\x95].)+"
)
STRONG = re.compile(rb"[,;|\t\]]|[ ]{2}|[ ]-{1,2}[ ]|\Z")

DURATION = re.compile(
    rb"(?:ETA is[ ]{1,2})?(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?![\d:])(?:\.\d+)?|-:--:--"
    rb"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [A-Z]{3,4})?(?: \d{4})?(?!\d)"
    rb"|(?:\d+h ?)?\d+m ?\d+s\b(?:[ ]\(remain[^()\n]{0,40}\))?"
    rb"|(?:remaining time|time remaining)[: ]{1,2}\d[\d.]{0,20} (?:seconds?|minutes?|hours?|days?)\b"
    rb"(?: \([^()\n]{1,40}\))?\.?"
    rb"|(?i:patience|counter|bad[ _]epochs|no[ _]improve(?:ment)?|early[ _-]?stop(?:ping)?(?:[ ]counter)?)"
    rb"[ :=(]{1,3}\d{1,6}(?:[ ]?/[ ]?|[ ](?:out[ ])?of[ ])\d{1,6}\b"
    rb"|(?i:exp\.|est\.|estimated)[ ](?:time[ ])?remaining[: ]{1,2}\d+:\d\d(?::\d\d)?"
    rb"|\d{1,12}[ ](?:iterations|iters|steps|batches|epochs|updates|episodes)[ ]in[ ]\d[\d.]{0,20}[ ]?"
    rb"(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b"
    rb"|with[ ]\d[\d,]{0,12}[ ](?:samples|examples|images|instances|sentences|sequences)(?=[,;:])"
    rb"|is[ ]\d[\d.]{0,20}[ ](?:secs?|seconds?|minutes?|hours?)\b"
    rb"|\d[\d,.]{0,20}[kKMB]?[ ]"
    rb"(?:images|imgs|samples|examples|tokens|frames|sequences|sentences|words|episodes|batches)"
    rb"[ ](?:seen|processed|consumed|trained|done|so[ ]far)\b"
    rb"|(?:took|takes|used)[: ]{1,2}\d[\d.]{0,20}[ ]?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b"
)
"""A time, a duration, or a count of what was seen or of epochs without progress: no value of a metric."""
