"""Lines whose fields have a form of their own, which no other program prints.

* `eval     E: 3       I: 50,000   R: 242.2`: TD-MPC2, DrQ and its successors
* ` Average Precision  (AP) @[ IoU=0.50 | area=   all | maxDets=100 ] = 0.312`: COCO
* `Average objective function for 'output' for minibatches 0-99 is -0.21 over 640000 frames.`: Kaldi
* `Fps is (10 sec: 40960.2, …). Total num frames: 1638400.`: Sample Factory
* `Map 3m Algo rmappo … updates 0/3125 episodes, total num timesteps 3200/10000000, FPS 312.`: MAPPO
* `my_main Recent Stats | t_env: 10050 | Episode: 200`, above a block: PyMARL
* `Evaluation over 10 episodes: 1234.567 , D4RL score: 38.123`: TD3, CORL
* `fit progress: (1, 2.3012, {'accuracy': 0.1123}, 12.34)`: Flower
* `HellaSwag accuracy: 2534/10042=0.2523`: build-nanogpt
* `  10000/ 200000: 2.1234`: makemore, and who learned from it
* `[lfw][2000]Accuracy-Flip: 0.98123+-0.00512`: InsightFace
* `(PolicyModelActor pid=4411) Train epoch [1/1]:  50%|…| 4/8 […, kl=0.001]`: OpenRLHF, whose actors count the
  batches of one global step, so that their bars tell no position
"""

from __future__ import annotations

import re
from collections.abc import Callable

from batchai_magics.metrics.grammar.line_reading import LineScan, NamedNumber
from batchai_magics.metrics.grammar.metric_names import VALIDATION, phase_of_word
from batchai_magics.metrics.grammar.number_grammar import NUMBER
from batchai_magics.metrics.grammar.position_grammar import Position

_FIELD = re.compile(
    rb"(?P<name>[A-Z]{1,8}):[ ]*(?:(?P<clock>\d+:\d\d:\d\d)|(?P<number>"
    + NUMBER
    + rb")(?:[ ](?P<unit>s)(?![\w:]))?)[ \t|]*"
)
_FIELDS = re.compile(
    rb"(?P<phase>pretrain|train|eval)[ \t]+(?:\|[ ]+)?(?=(?:"
    + re.sub(rb"\?P<\w+>", b"?:", _FIELD.pattern)
    + rb"){3,}\Z)"
)
_STEP_FIELDS = {"I": 9, "S": 8, "F": 4, "E": 3}
_FIELD_NAMES = {
    "R": "episode_reward", "S": "episode_success", "L": "episode_length", "D": "duration",
    "BR": "batch_reward",
    "ALOSS": "actor_loss", "CLOSS": "critic_loss", "TLOSS": "alpha_loss", "TVAL": "alpha_value",
    "AENT": "actor_entropy",
}  # fmt: skip
_NO_FIELDS = ("BS", "T")
_COCO = re.compile(
    rb"Average (?:Precision|Recall) +\((?P<kind>A[PR])\) @\[ IoU=(?P<iou>[\d.:]+) +\| area= *(?P<area>\w+)"
    rb" +\| maxDets= *(?P<most>\d+) *\] = (?P<number>\d\.\d+)"
)
_COCO_IOUS = {b"0.50": "50", b"0.75": "75"}
_OBJECTIVE = re.compile(
    rb"Average objective function for '(?P<name>[\w-]+)' for minibatches \d+-(?P<step>\d{1,18})"
    rb" is (?P<number>" + NUMBER + rb") over"
)
_MULTI_AGENT = re.compile(
    rb"[^\n,]{1,120} updates \d+/\d+ episodes, total num timesteps (?P<step>\d{1,18})/\d{1,18},"
    rb" FPS (?P<number>\d+)\."
)
_EVALUATED = re.compile(
    rb"Evaluation over \d+ episodes: (?P<number>"
    + NUMBER
    + rb")(?:[ ,]+D4RL score: (?P<score>"
    + NUMBER
    + rb"))?"
)
_RECENT = re.compile(rb"(?:\w+ )?Recent Stats \| t_env: +(?P<step>\d{1,18}) \| Episode: +\d+")
_FIT = re.compile(
    rb"fit progress: \((?P<step>\d{1,9}), (?P<number>" + NUMBER + rb"), \{(?P<metrics>[^{}\n]*)\}, [\d.]+\)"
)
_QUOTED = re.compile(rb"'(?P<name>[^'\n]{1,60})': (?P<number>" + NUMBER + rb")")
_LOSS_ALONE = re.compile(rb"(?P<step>\d{1,18})/[ ]*(?P<total>\d{1,18}): (?P<number>\d{1,6}\.\d{4,20})")
_HELLASWAG = re.compile(rb"HellaSwag accuracy: \d{1,9}/\d{1,9}=(?P<number>\d\.\d{1,9})")
_VERIFIED = re.compile(
    rb"\[(?P<set>[a-z]\w*)\]\[(?P<step>\d{1,18})\](?P<name>[A-Z][\w-]*): (?P<number>" + NUMBER + rb")"
)
_SAMPLED = re.compile(
    rb"Fps is \(10 sec: (?P<number>" + NUMBER + rb"),[^)\n]*\)\. Total num frames: (?P<step>\d{1,18})\."
)
_ACTOR = re.compile(rb"Actor pid=\d")
_ACTOR_BAR = re.compile(rb"Train epoch \[\d+/\d+\]: +\d+%\|")


def take_fixed_line(scan: LineScan) -> bool:
    """Take all of a line that has one of these forms."""
    first = scan.text[scan.begin : scan.begin + 1]
    readers = _READERS.get(first, ())
    is_taken = any(read(scan) for read in readers)
    if is_taken:
        scan.at = scan.end
    return is_taken


def has_fixed_digits(before: bytes) -> bool:
    """Whether all digits before a number belong to its name."""
    return b"| maxDets=" in before


def _take_loss_alone(scan: LineScan) -> bool:
    found = _LOSS_ALONE.fullmatch(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    total = found.span("total")
    scan.positions.append(Position("step", found.span("step"), found.end("total"), 5, total=total))
    _add(scan, "loss", found)
    return True


def _take_fields(scan: LineScan) -> bool:
    found = _FIELDS.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    fields = [*_FIELD.finditer(scan.text, found.end(), scan.end)]
    names = [field["name"].decode() for field in fields]
    scan.phase = phase_of_word(found["phase"].decode())
    for name, field in zip(names, fields, strict=True):
        number = field["number"]
        is_count = name != "S" or "I" not in names
        if number and name in _STEP_FIELDS and is_count and number.replace(b",", b"").isdigit():
            scan.positions.append(Position("step", field.span("number"), field.end(), _STEP_FIELDS[name]))
        elif number and name not in _NO_FIELDS:
            unit = (field["unit"] or b"").decode()
            _add(scan, _FIELD_NAMES.get(name, name.lower()), field, unit)
    return True


def _take_coco(scan: LineScan) -> bool:
    found = _COCO.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    name = found["kind"].decode().lower() + _COCO_IOUS.get(found["iou"], "")
    if found["area"] != b"all":
        name += f"_{found['area'].decode()}"
    elif found["kind"] == b"AR":
        name += f"@{found['most'].decode()}"
    scan.phase = VALIDATION
    _add(scan, name, found)
    return True


def _take_objective(scan: LineScan) -> bool:
    found = _OBJECTIVE.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    scan.positions.append(Position("step", found.span("step"), found.end(), 4))
    _add(scan, f"objective_{found['name'].decode()}", found)
    return True


def _take_frames_per_second(scan: LineScan) -> bool:
    found = _SAMPLED.match(scan.text, scan.begin, scan.end) or _MULTI_AGENT.match(
        scan.text, scan.begin, scan.end
    )
    if found is None:
        return False
    scan.positions.append(Position("step", found.span("step"), found.end(), 8))
    _add(scan, "fps", found)
    return True


def _take_evaluated(scan: LineScan) -> bool:
    found = _EVALUATED.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    scan.phase = VALIDATION
    _add(scan, "episode_return", found)
    if found["score"]:
        scan.numbers.append(NamedNumber("d4rl_score", "", None, *found.span("score")))
    return True


def _take_recent(scan: LineScan) -> bool:
    found = _RECENT.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    scan.positions.append(Position("step", found.span("step"), found.end(), 8))
    return True


def _take_fit(scan: LineScan) -> bool:
    found = _FIT.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    scan.positions.append(Position("step", found.span("step"), found.end(), 8))
    scan.phase = VALIDATION
    _add(scan, "loss", found)
    for each in _QUOTED.finditer(scan.text, *found.span("metrics")):
        _add(scan, each["name"].decode(errors="replace").lower(), each)
    return True


def _take_hellaswag(scan: LineScan) -> bool:
    found = _HELLASWAG.match(scan.text, scan.begin, scan.end)
    if found is None:
        return False
    scan.phase = VALIDATION
    _add(scan, "hellaswag_accuracy", found)
    return True


def _take_verified(scan: LineScan) -> bool:
    found = _VERIFIED.match(scan.text, scan.begin, scan.end)
    name = found["name"].decode().lower() if found else ""
    if found is None or name.endswith("-highest"):
        return False
    scan.positions.append(Position("step", found.span("step"), found.end(), 8))
    scan.phase = VALIDATION
    _add(scan, f"{found['set'].decode()}/{name}", found)
    return True


def _take_actor_bar(scan: LineScan) -> bool:
    is_of_actor = _ACTOR.search(scan.text, 0, scan.begin) is not None
    return is_of_actor and _ACTOR_BAR.match(scan.text, scan.begin, scan.end) is not None


def _add(scan: LineScan, name: str, found: re.Match[bytes], unit: str = "") -> None:
    scan.strong += 1
    scan.numbers.append(NamedNumber(name, unit, None, *found.span("number")))


_READERS: dict[bytes, tuple[Callable[[LineScan], bool], ...]] = {
    **{bytes([digit]): (_take_loss_alone,) for digit in b"0123456789"},
    b"A": (_take_coco, _take_objective),
    b"[": (_take_verified,),
    b"E": (_take_frames_per_second, _take_evaluated),
    b"F": (_take_frames_per_second,),
    b"H": (_take_hellaswag,),
    b"M": (_take_frames_per_second,),
    b"R": (_take_recent,),
    b"T": (_take_actor_bar,),
    b"f": (_take_fit,),
    b"m": (_take_recent,),
    b"e": (_take_fields,),
    b"p": (_take_fields,),
    b"t": (_take_fields,),
}
