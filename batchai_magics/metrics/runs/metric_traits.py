"""What a metric's name tells: its quantity and phase, which direction is better, how much it matters.

One order decides everywhere which metrics come first: `ordered`; its first one is the headline. Pure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from batchai_magics.metrics.grammar.metric_names import (
    ERRORS,
    LOSSES,
    SCORES,
    TEST,
    TRAIN,
    VALIDATION,
    QualityWords,
    is_timer,
    split_phase,
    words_of,
)
from batchai_magics.models.stop_conditions import metric_name

_OTHER_SCORES = QualityWords((
    "mfu", "hfu", "flop", "flops", "tflop", "tflops", "top", "prec", "pass", "idf", "meanrew", "maxrew",
    "minrew", "avgrew", "eprew", "eprewmean",
))  # fmt: skip
_NEGATIONS = frozenset(["neg", "negative"])
_GOALS = (
    frozenset(["reward", "rewards", "return", "returns", "rew", "meanrew", "avgrew", "eprew", "eprewmean"]),
    frozenset(["map"]),
    frozenset(["score", "scores"]),
    frozenset(["ndcg", "mrr"]),
)
_OF_GOALS = frozenset([
    "mean", "avg", "average", "total", "episode", "episodic", "ep", "raw", "rollout", "env", "test", "eval",
    "bbox", "segm", "mask", "box", "coco", "metrics", "undiscounted",
])  # fmt: skip
_NO_QUALITY = frozenset(["scale", "norm", "grad", "lr", "learning", "length", "len", "memory", "mem"])
_TIMERS = re.compile(r"data|dur|(?:avg_)?(?:batch|reader|data)_cost|.*timing.*|s_b")
_TIME_UNITS = frozenset(["s", "ms", "us", "sec", "secs", "seconds", "min", "h"])
_RATES = re.compile(
    r"(?:.*/)?(?:[bftwui]ps|tgs|throughput[^/]*|speed)|.*persec(?:ond)?|.*(?:/|_per_)s(?:ec(?:onds?)?)?(?:[/_)].*)?"
)
_SIDE_METRICS = ("act", "speed", "lr", "learning_rate")  # tell nothing of how well a run does
_ONCE = re.compile(r"(?:mean_|spread_).*per_sec.*|devices|(?:\w+_)?(?:examples|correct)")
_PREFERRED_RATES = tuple(
    map(
        re.compile,
        (r"images_per_sec", r"samples_per_sec(?:ond)?", r".*tok.*|[tw]ps|tgs", r"(?!.*(?:step|it)).*"),
    )
)
_OWN_RATE = re.compile(r"(?:images|samples)_per_sec")
_LABEL = re.compile(r"_per_sec(?:ond)?$")


class Direction(str, enum.Enum):
    """Which values of a metric are better."""

    FALLS = "falls"  # lower ones: losses, errors
    RISES = "rises"  # higher ones: accuracies, rewards, rates
    UNKNOWN = "unknown"  # a learning rate, memory in use


class MetricKind(enum.IntEnum):
    """What a metric measures, the most telling first."""

    LOSS = 0
    SCORE = 1  # any other measure of quality
    RATE = 2
    OTHER = 3
    TIMER = 4


@dataclass(frozen=True, slots=True)
class MetricTraits:
    """What is known of a metric by its name.

    Attributes:
        name: The name, as records have it: `val_loss`.
        quantity: What it has in common with the same metric of other phases: `loss`.
        phase: `train`, `val` or `test`.
        direction: Which values are better.
        kind: What it measures.
    """

    name: str
    quantity: str
    phase: str
    direction: Direction
    kind: MetricKind

    @property
    def label(self) -> str:
        """The name for display: `images/sec`."""
        return _LABEL.sub("/sec", self.name)

    @property
    def is_rate(self) -> bool:
        """Whether it counts something per time."""
        return self.kind is MetricKind.RATE

    @property
    def is_summed(self) -> bool:
        """Whether each rank tells its own share, so that ranks add up; others are averaged."""
        return _OWN_RATE.fullmatch(self.quantity) is not None

    @property
    def is_plotted(self) -> bool:
        """Whether it makes a line over steps; counts of examples and figures of the whole run do not."""
        return _ONCE.fullmatch(self.quantity) is None


@dataclass(frozen=True)
class MetricPreferences:
    """What the user has said of metrics; empty: what their names tell.

    Attributes:
        headline: The metric that comes first.
        rising: Names of metrics of which higher values are better.
        falling: Names of metrics of which lower values are better.
        asked: Names of metrics that are always drawn: the user's patterns.
    """

    headline: str = ""
    rising: Collection[str] = field(default=())
    falling: Collection[str] = field(default=())
    asked: Collection[str] = field(default=())

    def direction(self, traits: MetricTraits) -> Direction:
        """The direction of a metric: the user's, else what its name tells."""
        names = spellings_of(traits.name) | {metric_name(traits.quantity)}
        if not names.isdisjoint(name for metric in self.rising for name in spellings_of(metric)):
            return Direction.RISES
        is_falling = not names.isdisjoint(name for metric in self.falling for name in spellings_of(metric))
        return Direction.FALLS if is_falling else traits.direction


NO_PREFERENCES = MetricPreferences()


@lru_cache(4096)
def traits_of(name: str, phase: str = "", unit: str = "") -> MetricTraits:
    """The traits of a metric.

    Args:
        name: Its name.
        phase: Its phase, if the log tells it.
        unit: Its unit, if the log tells it.
    """
    named_phase, short = split_phase(name)
    quantity = metric_name(short.strip("_ ")) or name
    kind, direction = _kind_of(short, quantity, unit)
    if phase in ("", TRAIN):
        phase = named_phase or TRAIN
    return MetricTraits(name, quantity, phase, direction, kind)


@lru_cache(4096)
def spellings_of(name: str) -> frozenset[str]:
    """The canonical names of a metric: `val/loss` and `eval_loss` are also `val_loss`."""
    phase, _ = split_phase(name.replace("_per_", "/"))
    names = {metric_name(name)}
    if phase:
        names.add(f"{phase}_{traits_of(name.replace('_per_', '/')).quantity}")
    return frozenset(names)


def ordered(
    metrics: Iterable[MetricTraits], preferences: MetricPreferences = NO_PREFERENCES
) -> list[MetricTraits]:
    """Metrics in the order in which they are shown: the headline, its quantity, a rate, quality, the rest.

    The headline is the user's choice, else a reward or mAP, else a loss or another measure of quality on
    validation data, else on test data, else in training, else a rate, else any metric but a learning rate.
    Timers come last and are never the headline, unless the user has chosen one. Where nothing else decides,
    the order of the log counts.
    """
    candidates = list(metrics)
    chosen = _chosen(candidates, preferences)
    first = min(candidates, key=lambda traits: (traits.name != chosen, *_headline_key(traits)), default=None)
    rate = min((traits for traits in candidates if traits.is_rate), key=_rate_key, default=None)
    tops = [traits.quantity for traits in (first, rate) if traits]
    return sorted(candidates, key=lambda traits: _display_key(traits, tops, is_first=traits is first))


def headline_of(metrics: Iterable[MetricTraits], preferences: MetricPreferences = NO_PREFERENCES) -> str:
    """The name of the metric that stands for a run; empty for one without metrics, or with timers only."""
    order = ordered(metrics, preferences)
    if not order or (order[0].kind is MetricKind.TIMER and order[0].name != _chosen(order, preferences)):
        return ""
    return order[0].name


def find_metric(names: Iterable[str], query: str) -> str:
    """The name among `names` that the user means; empty if none.

    Case does not matter, nor does the spelling: `images/sec` is `images_per_sec`, `val/loss` and `eval_loss`
    are `val_loss`. A quantity stands for its training metric, else for a metric of another phase.
    """
    known, canonical = list(names), metric_name(query.strip())
    exact = (name for name in known if name == query or metric_name(name) == canonical)
    spellings = spellings_of(query.strip())
    similar = (name for name in known if spellings & spellings_of(name))
    by_phase = sorted(map(traits_of, known), key=_phase_key)
    of_quantity = (traits.name for traits in by_phase if traits.quantity == canonical)
    return next(chain(exact, similar, of_quantity), "")


def shared_traits(runs: Iterable[Iterable[MetricTraits]]) -> list[dict[str, MetricTraits]]:
    """For each run, the metrics that an earlier run spells otherwise: their name → what they are there.

    `val/loss` of one run is `val_loss` of another, and `train_loss` is `loss`; two metrics of a run stay two.
    """
    known: dict[str, MetricTraits] = {}
    shared = []
    for metrics in runs:
        run_traits = {traits.name: traits for traits in metrics}
        free = {name: traits for name, traits in known.items() if name not in run_traits}
        renamed = {}
        for traits in run_traits.values():
            same = "" if traits.name in known else _same_metric(traits, free)
            if same:
                renamed[traits.name] = free.pop(same)
        shared.append(renamed)
        known.update((name, traits) for name, traits in run_traits.items() if name not in renamed)
    return shared


def _same_metric(traits: MetricTraits, others: Mapping[str, MetricTraits]) -> str:
    """The name of this metric in other runs; empty if they lack it."""
    spellings = spellings_of(traits.name)
    similar = (name for name in others if spellings & spellings_of(name))
    measure = (traits.quantity, traits.phase)
    equal = (name for name, other in others.items() if (other.quantity, other.phase) == measure)
    return next(chain(similar, equal), "")


def charts_of(
    metrics: Iterable[MetricTraits], preferences: MetricPreferences = NO_PREFERENCES
) -> list[tuple[MetricTraits, ...]]:
    """The charts of these metrics, in order: each has all phases of one quantity, training first."""
    charts: dict[str, list[MetricTraits]] = {}
    for traits in ordered(metrics, preferences):
        if traits.is_plotted:
            charts.setdefault(traits.quantity, []).append(traits)
    return [tuple(sorted(lines, key=_phase_key)) for lines in charts.values()]


def is_default(chart: Sequence[MetricTraits]) -> bool:
    """Whether a chart may be shown without being asked for; timers' charts may not."""
    return chart[0].kind is not MetricKind.TIMER


def _phase_key(traits: MetricTraits) -> int:
    return (TRAIN, VALIDATION, TEST).index(traits.phase)


def _headline_key(traits: MetricTraits) -> tuple[object, ...]:
    """What the run is trained for, then quality on held-out data, then in training, then rates."""
    if traits.quantity in _SIDE_METRICS:
        return (MetricKind.OTHER + 2, 1 + _SIDE_METRICS.index(traits.quantity))
    if traits.kind is MetricKind.RATE:
        return (traits.kind + 2, *_rate_key(traits))
    is_quality = traits.kind in (MetricKind.LOSS, MetricKind.SCORE)
    if not is_quality:
        return (traits.kind + 2, 0)
    words = {word.rstrip("0123456789") for word in words_of(traits.quantity)} - _OF_GOALS
    # what reinforcement learning or a detector is trained for: a reward or return, mAP
    is_goal = traits.direction is Direction.RISES and any(words and words <= goals for goals in _GOALS)
    tier = 0 if is_goal else 1 if traits.phase != TRAIN and traits.is_plotted else 2
    return (tier, traits.kind, not traits.is_plotted, _held_out_key(traits), _loss_key(traits))


def _chosen(metrics: Iterable[MetricTraits], preferences: MetricPreferences) -> str:
    """The name of the metric that the user has chosen as the headline; empty without one."""
    names = (traits.name for traits in metrics)
    return find_metric(names, preferences.headline) if preferences.headline else ""


def _loss_key(traits: MetricTraits) -> int:
    """`loss` before `total_loss`, before the losses that add up to it."""
    preferred = ("loss", "total_loss", "lm_loss", "nll_loss")
    return preferred.index(traits.quantity) if traits.quantity in preferred else len(preferred)


def _rate_key(traits: MetricTraits) -> tuple[int, ...]:
    indices = (i for i, rate in enumerate(_PREFERRED_RATES) if rate.fullmatch(traits.quantity))
    is_side = traits.phase != TRAIN or not traits.is_plotted
    return (is_side, next(indices, len(_PREFERRED_RATES)))


def _display_key(traits: MetricTraits, tops: Sequence[str], *, is_first: bool) -> tuple[int, ...]:
    """The quantities at the top, then by kind; losses on held-out data before others and their parts."""
    kinds = (MetricKind.OTHER, MetricKind.RATE, MetricKind.TIMER)  # behind quality
    if traits.quantity in tops:
        order = tops.index(traits.quantity)
    else:
        order = 3 + kinds.index(traits.kind) if traits.kind in kinds else 2
    is_loss = traits.kind is MetricKind.LOSS
    return (order, not is_first, *((_held_out_key(traits), _loss_key(traits)) if is_loss else (0, 0)))


def _held_out_key(traits: MetricTraits) -> int:
    return (VALIDATION, TEST, TRAIN).index(traits.phase)


def _kind_of(name: str, quantity: str, unit: str) -> tuple[MetricKind, Direction]:
    """What the words of a name tell; the last telling one decides, but a loss of anything is a loss.

    `accuracy_loss` and `loss_giou` are losses; the negative of a score falls: `neg_log_likelihood`.
    """
    if any(map(_RATES.fullmatch, (name.lower(), quantity))):
        return MetricKind.RATE, Direction.RISES
    if is_timer(quantity) or unit in _TIME_UNITS or _TIMERS.fullmatch(quantity):
        return MetricKind.TIMER, Direction.FALLS
    words = words_of(name)
    if _NO_QUALITY.isdisjoint(words):
        is_loss_of = words_of(name.rpartition(".")[2])[:1] in (("loss",), ("losses",))
        for word in ("loss",) if is_loss_of else reversed(words):
            for kind, of_kind, direction in _QUALITIES:
                if of_kind.include(word):
                    is_negated = direction is Direction.RISES and not _NEGATIONS.isdisjoint(words)
                    return kind, Direction.FALLS if is_negated else direction
    return MetricKind.OTHER, Direction.UNKNOWN


_QUALITIES = (
    (MetricKind.LOSS, LOSSES, Direction.FALLS),
    (MetricKind.SCORE, ERRORS, Direction.FALLS),
    (MetricKind.SCORE, QualityWords(("cost",)), Direction.FALLS),
    (MetricKind.SCORE, SCORES, Direction.RISES),
    (MetricKind.SCORE, _OTHER_SCORES, Direction.RISES),
)
