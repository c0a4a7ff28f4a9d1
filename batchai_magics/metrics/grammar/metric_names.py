"""Classifies names of numbers: whether training measures them, what they measure, and their phase."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

TRAIN, VALIDATION, TEST = "train", "val", "test"

PHASES = {
    "train": TRAIN, "training": TRAIN, "trn": TRAIN, "learn": TRAIN, "test": TEST, "testing": TEST,
} | dict.fromkeys((
    "val", "vali", "valid", "validate", "validation", "validating", "eval", "evaluate", "evaluation", "dev",
    "evaluating", "evaluator", "cv",
), VALIDATION)  # fmt: skip


_PHASE_PREFIXES = {VALIDATION: "val_", TEST: "test_"}


class QualityWords(NamedTuple):
    """Words for how well a model does, and endings of such words; trailing digits do not matter."""

    words: tuple[str, ...]
    endings: tuple[str, ...] = ()

    def include(self, word: str) -> bool:
        """Whether a word of a name is one of these."""
        base = word.rstrip("0123456789")
        return word in self.words or base in self.words or base.endswith(self.endings)


LOSSES = QualityWords(("loss", "losses", "nll", "xent", "bce", "ce"), ("loss", "crossentropy"))
ERRORS = QualityWords((
    "kl", "perplexity", "ppl", "bpc", "bpb", "bpd", "mse", "mae", "rmse", "mape", "rmsle",
    "smape", "wer", "cer", "ter", "fid", "lpips", "inertia", "objective", "deviance", "epe",
    "ade", "fde", "mpjpe", "eer", "crps", "divergence",
), ("err", "error"))  # fmt: skip
SCORES = QualityWords((
    "likelihood", "elbo", "rew", "auc", "auroc", "aupr", "ap", "ap50", "ap75", "map", "map50",
    "map75", "f1", "r2", "bleu", "rouge", "meteor", "chrf", "miou", "iou", "giou", "dice",
    "jaccard", "psnr", "ssim", "precision", "recall", "hmean", "kappa", "ndcg", "mrr", "hit",
    "hits", "top1", "top5", "prec1", "prec5", "win", "nmi", "ari", "pck", "pesq", "stoi",
    "sdr", "cider", "lddt", "mota", "idf1", "meaniou", "fwiou",
), ("acc", "accuracy", "score", "reward", "rewards", "return", "returns"))  # fmt: skip
_UNDIRECTED = QualityWords((
    "entropy", "obj", "l1", "l2", "rms", "bcer", "bwer", "inception", "mr", "ar", "margin", "margins",
    "advantage", "value", "metric", "learn", "fitness",
))  # fmt: skip
_QUALITY = frozenset(chain(*(words for kind in (LOSSES, ERRORS, SCORES, _UNDIRECTED) for words in kind)))
_SUFFIX = re.compile(
    r"(?:(?<!co)loss|acc|accuracy|entropy|perplexity|reward|return|score|auc|error|rmse|psnr|map|prec|recall)\d*|(?:mean|max|min|avg|ep)rew"
)
_AT = re.compile(r"[A-Za-z]{1,9}@\d")  # `pass@1`, `HR@10`
_INTEGERS = frozenset(
    ["score", "scores", "loss", "acc", "accuracy", "reward", "return", "rew", "returns", "rewards"]
)
_COMPANIONS = frozenset((
    "lr", "rate", "norm", "grad", "gnorm", "scale", "throughput", "speed", "fps", "ips", "sps", "wps",
    "ups", "tps", "mfu", "hfu", "flops", "tflops", "tflop", "tok", "toks", "token", "tokens", "images",
    "imgs", "img", "samples", "examples", "seqs", "sents", "it", "change",
))  # fmt: skip
"""Words that do not make a metric of a whole number, but are measured in training."""
MEASURE_PARTS = (
    "loss", "acc", "entropy", "perplexity", "rew", "return", "score", "auc", "err", "rmse", "psnr", "map",
    "prec", "recall", "learn", "cost", "speed", "norm", "rate", "scale", "tok", "sample", "flop", "images",
    "throughput", "metric", "likelihood", "objective", "inertia", "@",
)  # fmt: skip
"""Every name that `is_measure` knows holds one of these, or one of MEASURE_WORDS as a word."""
R_SQUARED = r"r(?:\^2|sq|[-_ ]?squared)"
"""R² as programs spell it in letters; it is recorded as `r2`."""
MEASURE_WORDS = (
    *sorted(word for word in _QUALITY | _COMPANIONS if not any(part in word for part in MEASURE_PARTS)),
    R_SQUARED,
)
_TIMERS = frozenset((
    "time", "lapse", "elapsed", "dt", "seconds", "secs", "sec", "duration", "runtime", "latency", "ms",
    "timing",
))  # fmt: skip
_RATES = frozenset(("sps", "fps", "ips"))
_RATE = re.compile(r"per_s(?:ec(?:ond)?)?(?:_|$)")
_POSITIONS = re.compile(
    r"(?:global[_ ])?(?:step|iter|iteration|epoch|batch|update)s?|.*/(?:global_step|num_updates|epoch)|total"
    r"|.*(?:num_updates|consumed_samples|_seen|n_updates|seqlen|(?:seq|sequence|context|max|min)_length)|percentage"
    r"|(?:.*[_/])?(?:step|batch)_in_\w+|ppo_ep(?:och)?"
    r"|train[_ ]runtime"
)
_NO_METRIC = re.compile(
    r"(?:^|[_\s/.])(?:eta|pid|port|version|seed|v_num|world_size|num|number|remaining|remain|total_time|"
    r"consumed|processed|skipped|without|degree|cuda|nan|best|worker|workers|attempt|retry|retries|size|status|code|"
    r"epoch loaded|time elapsed|elapsed time(?! per)|wall time|wall clock|walltime|left(?=[_ ]time|$)|"
    r"depth(?![_ ][a-z])|leaves|new best|new worst|trained tokens|elapsed_time(?!_per)|patience)"
    r"(?:$|[_\s/.:])|(?:^|[_\s/.-])(?:threshold|thresh|thr)$|[_ ](?:weight|target)$"
)
_MAY_BE_TOTAL = re.compile(r"norm|throughput")
_NO_METRICS = frozenset((
    "progress_or_epoch", "images", "#images", "n_parameters", "train_samples", "total", "bsz", "wal", "wall",
    "elapsed", "actual_seqlen", "sen.", "trained", "clock", "frames", "samples", "tokens", "checkpoint",
    "actual", "seqlen", "jobs", "run", "part", "fold", "trial", "split", "smpl", "position", "params",
    "count", "init loss", "loss_weight", "loss_weights", "loss weight", "done", "done (%)", "set", "line",
))  # fmt: skip
_STOP_WORDS = frozenset((
    "a", "after", "and", "are", "as", "at", "before", "best", "by", "for", "from", "group", "has", "in",
    "into", "is", "line", "of", "on", "or", "over", "per", "port", "since", "so", "than", "that", "the",
    "this", "to", "until", "version", "was", "with", "without", "worker", "wrote", "saved", "took",
    "saw", "stalled",
))  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = re.compile(r"[a-z]+\d*")
_R_SQUARED = re.compile(f"(?<![a-z]){R_SQUARED}(?![a-z])")
_UNLESS_ADJECTIVE = r"(?!(?<=valid[ _])(?:smiles|molecules?|tokens?|pixels?|points?|actions?)(?![a-z]))"
_PHASE_PREFIX = re.compile(
    r"(?P<phase>train|training|trn|vali?|valid|validation|eval|evaluation|dev|cv|test|testing)"
    r"(?P<set>[_ ]?\d+(?=['/ _-]))?"
    r"(?:(?:'s)?(?:[ _]set(?=[ _:])(?: results:?)?)?[ _/.]+|-(?=\w+(?:-\w+){0,3}(?:$|/)))(?=\S)"
    + _UNLESS_ADJECTIVE,
    re.IGNORECASE,
)
_CAMEL_PHASE = re.compile(r"(?P<phase>Train|Valid|Val|Eval|Dev|Test)(?=[A-Z][a-z]{2})")
_AVERAGED_PHASE = re.compile(
    r"(?P<kind>(?:avg|average|mean|running|final|last|overall|epoch|approx)\.?[ _](?=\w)"
    r"|(?:[a-z]+[ _]){1,6}?(?!train))"
    r"(?P<phase>train|training|val|valid|validation|eval|evaluation|test)\.?[ _:]+(?=\S)" + _UNLESS_ADJECTIVE,
    re.IGNORECASE,
)
_JOINED_PHASE = re.compile(
    r"(?P<phase>train|valid|val|test|eval)(?=(?:loss|acc|accuracy|err|error|ppl|auc|f1|mae|r?mse|score)(?![a-z]))"
    r"|(?P<short>tr|va|vl|te|tst)_(?=[a-z]*(?:loss|acc|err|ppl|auc|f1|mae|mse|score))",
    re.IGNORECASE,
)
_SHORT_PHASES = {"tr": TRAIN, "va": VALIDATION, "vl": VALIDATION, "te": TEST, "tst": TEST}
_ON_PHASE = re.compile(
    r"[ _](?:on|for|of|over|in)[ _](?:the[ _])?(?P<phase>train|valid|validation|val|dev|test)(?:ing)?"
    r"(?:[ _](?:set|split|data|dataset|images|samples|examples))?\Z",
    re.IGNORECASE,
)
_PHASE_SUFFIX = re.compile(
    r"[ _/](?P<phase>train|val|vali|valid|validation|eval|evaluation|dev|test)\Z",
    re.IGNORECASE,
)


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """The lower-case words of a name; CamelCase is split."""
    return tuple(_LETTERS.findall(with_r2(_CAMEL.sub(" ", name.replace("IoU", "Iou")).lower())))


def with_r2(name: str) -> str:
    """A lower-case name with R² spelled `r2`."""
    return _R_SQUARED.sub("r2", name)


@lru_cache(4096)
def is_quality(name: str) -> bool:
    """Whether the name says how well a model does: a loss, an accuracy, a reward."""
    words = words_of(name)
    return (
        words[-1:] == ("cost",) == words[:1]
        or any(word in _QUALITY or _SUFFIX.search(word) is not None for word in words)
        or _AT.match(name) is not None
    )


@lru_cache(4096)
def is_timer(name: str) -> bool:
    """Whether the name denotes a duration."""
    return not is_rate(name) and any(word in _TIMERS for word in words_of(name))


@lru_cache(4096)
def is_rate(name: str) -> bool:
    """Whether the name denotes a rate."""
    return (
        _RATE.search("_".join(words_of(name))) is not None
        or "/s" in name
        or not _RATES.isdisjoint(words_of(name))
    )


@lru_cache(4096)
def is_measure(name: str) -> bool:
    """Whether a name is of a metric that training measures."""
    return is_quality(name) or any(word in _COMPANIONS for word in words_of(name))


@lru_cache(4096)
def may_be_integer(name: str) -> bool:
    """Whether a whole number under this name may be a measurement, unlike `error: 404`."""
    return any(word in _INTEGERS or word.endswith(("loss", "acc")) for word in words_of(name))


@lru_cache(4096)
def is_excluded(name: str) -> bool:
    """Whether numbers with this name are no metrics: ETA, ports, sizes, totals."""
    lower = name.lower()
    last = lower.rpartition("/")[2]
    if last.startswith("total") and not (is_quality(lower) or _MAY_BE_TOTAL.search(last)):
        return True
    return (
        lower in _NO_METRICS
        or lower.endswith(".py")
        or _NO_METRIC.search(lower) is not None
        or _POSITIONS.fullmatch(lower) is not None
    )


def in_phase(name: str, phase: str | None) -> str:
    """The name of a metric in a phase: with its prefix unless that is training."""
    return _PHASE_PREFIXES.get(phase or TRAIN, "") + name


def is_stop_word(name: str) -> bool:
    """Whether a number behind this word belongs to a sentence."""
    return name.lower() in _STOP_WORDS


def phase_of_word(word: str) -> str | None:
    """The phase that a word, or a text such as `dev set`, names; None if it names none."""
    return PHASES.get(word.lower().removesuffix(" set"))


def has_inner_phase(name: str) -> bool:
    """Whether a phase stands within a name: `avg_val_loss`."""
    return _AVERAGED_PHASE.match(name) is not None and _phase_behind(name) is None


@lru_cache(4096)
def split_phase(name: str) -> tuple[str | None, str]:
    """The phase in a metric's name, and the name of the quantity: `val_loss` gives `val` and `loss`."""
    match = _PHASE_PREFIX.match(name)
    if match:
        phase, number = PHASES[match["phase"].lower()], (match["set"] or "").strip("_ ")
        return phase, name if number.strip("0") else name[match.end() :]
    if match := _CAMEL_PHASE.match(name):
        return PHASES[match["phase"].lower()], name[match.end() :]
    if match := _phase_behind(name):
        return PHASES[match["phase"].lower()], name[: match.start()]
    if match := _AVERAGED_PHASE.match(name):
        return PHASES[match["phase"].lower()], match["kind"] + name[match.end() :]
    if match := _JOINED_PHASE.match(name):
        phase = _SHORT_PHASES[match["short"].lower()] if match["short"] else PHASES[match["phase"].lower()]
        return phase, name[match.end() :]
    return None, name


def _phase_behind(name: str) -> re.Match[str] | None:
    """The match of a phase at the end of a name: `accuracy on test set`, `loss_train`."""
    matches = (pattern.search(name) for pattern in (_ON_PHASE, _PHASE_SUFFIX))
    return next((match for match in matches if match and match.end() == len(name)), None)
