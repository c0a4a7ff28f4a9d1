"""How the ranks of a job spend their time, from sampled stacks: shares by activity, and lines of code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from heapq import nlargest
from statistics import median_low
from typing import NamedTuple

from batchai_magics.records.job_error import NO_PATHS, RaisedError, SourcePaths, is_library
from batchai_magics.records.rank_stacks import Frame, frames_of, named_ranks, own_frame
from batchai_magics.untrusted_files import parse_json

DIFFERS = 0.15  # how much larger a share is where a rank differs from the others
_NONE = "(?!)"  # matches nothing
HUNG_S = 2.0  # time stopped or without an answer from which a rank with samples counts as hung
TOP_LINES, MIN_SHARE = 3, 0.01  # the number and smallest share of the lines that are shown for a rank
_OF_KERNEL = re.compile(r"/ipykernel_\d+/\d+\.py$")  # the file that a notebook's kernel names for a cell


class Activity(Enum):
    """The activity of a rank in a sample."""

    INPUT = "input"  # it loads or prepares data
    COMMUNICATION = "communication"  # a collective operation or a message, with the time that it waits there
    COMPUTATION = "computation"  # a numerical library, with the time that it waits for its device
    CHECKPOINT = "checkpoint"  # it saves or restores a state
    PYTHON = "Python"  # Python, and C code that is not recognised
    WAITING = "waiting"  # it sleeps, or waits for something else


class _Signs(NamedTuple):
    """Regular expressions that recognise an activity; those for functions match whole names."""

    libraries: str  # in paths of libraries' files
    files: str  # names of the job's own files; matched whole
    functions: str  # of the job's own functions
    code: str  # of lines of code


_SIGNS = {
    Activity.CHECKPOINT: _Signs(
        r"/torch/serialization|/torch/distributed/checkpoint/|/safetensors/|/orbax/|/keras/.*/saving/"
        r"|/tensorflow/python/(?:checkpoint|saved_model)/",
        r"checkpoint\w*\.py",
        r"(?:save|load|restore|write|store|dump)_(?:\w+_)?(?:checkpoint|ckpt|snapshot|state|state_dict|model"
        r"|weights)s?|checkpoint|save",
        r"\btorch\.(?:save|load)\(|\b(?:save_pretrained|save_checkpoint|save_model|save_weights"
        r"|load_state_dict)\(",
    ),
    Activity.INPUT: _Signs(
        r"/torch/utils/data/|/tensorflow/python/data/|/(?:tensorflow_)?datasets/|/webdataset/|/nvidia/dali/"
        r"|/torchvision/(?:datasets|transforms|io)/|/(?:petastorm|PIL|cv2|h5py|zarr|fsspec|pyarrow)/",
        r"(?:data|datasets?|data_?loaders?|data_?loading|input_pipeline)\.py",
        r"(?:load|read|fetch|get|next|prefetch|prepare|preprocess|decode|augment|generate|make)_(?:\w+_)?"
        r"(?:data|batch(?:es)?|(?:sample|image|example|item|record|file|chunk|shard|dataset|input)s?)"
        r"|(?:data_?)?loader|load|dataset|collate(?:_fn)?|augment|prefetch|__getitem__|__next__",
        r"\bnp\.(?:load|fromfile|memmap|genfromtxt|loadtxt)\(|\bread_(?:csv|parquet|json|pickle|feather)\("
        r"|\bimread\(|\bImage\.open\(|\bnext\(|\bin (?:\w+[.(])*\w*(?:loader|dataset|batches)\w*\b",
    ),
    Activity.COMMUNICATION: _Signs(
        r"/torch/distributed/(?!fsdp|_composable|elastic|launcher|run\.py|optim|pipelining|tensor)|/mpi4py/"
        r"|/horovod/|/deepspeed/comm/|/jax/experimental/multihost_utils|/tensorflow/python/distribute/",
        _NONE,
        r"all_?reduce\w*|all_?gather\w*|reduce_scatter\w*|broadcast\w*|barrier|average_grad\w*|sync\w*_grad\w*",
        r"(?i)\b(?:i?all_?(?:reduce|gather|to_?all)|reduce_scatter|broadcast|i?bcast|i?barrier)\w*\("
        r"|\b\w*(?:comm|world|dist|hvd|mpi|group)\w*(?:\.\w+)*\.(?:i?(?:gather|scatter|reduce|send|recv|wait))",
    ),
    Activity.COMPUTATION: _Signs(
        r"/(?:torch|torchvision|tensorflow|keras|jax|jaxlib|flax|optax|numpy|scipy|sklearn|xgboost|lightgbm"
        r"|cupy|numba|triton|transformers|apex|deepspeed)/",
        _NONE,
        r"forward|backward",
        r"\b(?:np|numpy|torch|tf|jnp|jax|cp|F|nn|scipy)\.\w|\.(?:backward|step|item|cpu|cuda|to|matmul|dot|fit"
        r"|block_until_ready)\(|\bmodel\(|\w @ \w",
    ),
    Activity.WAITING: _Signs(
        r"/(?:threading|selectors|subprocess|queue|socket)\.py$",
        _NONE,
        _NONE,
        r"\bsleep\(|\.(?:wait|join|acquire|accept|recv|poll|select|result|communicate)\(|\binput\(",
    ),
}
_SPENT = {  # a phrase for each activity, and advice
    Activity.INPUT: (
        "wait{s} {share} of the time for {its} data loader",
        "More loader workers, prefetching or faster storage may help",
    ),
    Activity.COMMUNICATION: (
        "spend{s} {share} of the time in communication",
        "Larger batches, gradient accumulation or fewer messages may help",
    ),
    Activity.COMPUTATION: (
        "compute{s} {share} of the time",
        "Larger batches, lower precision or compilation may help; the framework's profiler shows its kernels",
    ),
    Activity.CHECKPOINT: (
        "spend{s} {share} of the time on checkpoints",
        "Saving less often, or in the background, may help",
    ),
    Activity.PYTHON: (
        "spend{s} {share} of the time in Python code",
        "Arrays instead of loops, or less work for each step, may help",
    ),
    Activity.WAITING: ("wait{s} {share} of the time", "Look at what {they_wait} for there"),
}

_ONE = {"s": "s", "its": "its", "they_wait": "it waits", "was": "was"}  # the forms of words for ranks
_SEVERAL = {"s": "", "its": "their", "they_wait": "they wait", "was": "were"}


@dataclass(frozen=True)
class StackSample:
    """A stack of a rank, innermost function first, and how often it was sampled.

    `place` is the location in the job's own code, such as `train.py:33`.
    """

    frames: tuple[Frame, ...]
    count: int
    activity: Activity
    place: str = ""


@dataclass(frozen=True)
class RankProfile:
    """The samples of a rank within `seconds`; none if it has no Python that can be sampled.

    `way` is how it was sampled: by `py-spy`, or by a `signal` on which it writes its stack. Of these seconds,
    it was stopped, by a signal or a debugger, for `stopped_s`, and did not answer for the last `silent_s`, as
    a process that hangs in the kernel. It `is_unfinished` if py-spy did not finish. `other_count` samples had
    rarer stacks, which are left out.
    """

    rank: int
    node: str
    samples: tuple[StackSample, ...] = ()
    seconds: float = 0.0
    way: str = ""
    stopped_s: float = 0.0
    silent_s: float = 0.0
    is_unfinished: bool = False
    other_count: int = 0

    @property
    def is_hung(self) -> bool:
        """Whether it was stopped or did not answer for at least `HUNG_S`, or all the time."""
        hung_s = max(self.stopped_s, self.silent_s)
        return hung_s >= HUNG_S or (hung_s > 0 and not self.count)

    @cached_property
    def count(self) -> int:
        """The number of samples."""
        return sum(sample.count for sample in self.samples)

    @cached_property
    def shares(self) -> Mapping[Activity, float]:
        """The share of each activity in its time, from 0 to 1; all are 0 without samples."""
        counts = Counter[Activity]()
        for sample in self.samples:
            counts[sample.activity] += sample.count
        return {activity: counts[activity] / max(1, self.count) for activity in Activity}

    def lines(self, activity: Activity | None = None) -> list[tuple[str, float]]:
        """Lines of the job's own code with their shares, the largest first; of one activity or all."""
        counts = Counter[str]()
        for sample in self.samples:
            if sample.place and activity in (None, sample.activity):
                counts[sample.place] += sample.count
        shares = ((location, count / self.count) for location, count in counts.most_common(TOP_LINES))
        return [(location, share) for location, share in shares if share >= MIN_SHARE]


@dataclass(frozen=True)
class RunProfile:
    """The profiles of a job's ranks."""

    job: str
    ranks: tuple[RankProfile, ...]  # its ranks, in order
    notes: tuple[str, ...] = ()  # what is missing, in sentences
    files: tuple[str, ...] = ()  # the paths of the samples among its artifacts

    @classmethod
    def of_lines(
        cls,
        job: str,
        lines: Iterable[str | bytes],
        paths: SourcePaths = NO_PATHS,
        *,
        mask: Callable[[str], str] = str,
    ) -> RunProfile:
        """Reads the lines of `stack_dumps`; paths in the job's copy become the user's own.

        `mask` replaces text that looks like a secret in a stack.
        """
        ranks = (parse(line, paths, mask) for line in lines)
        return cls(job, tuple(sorted(ranks, key=lambda rank: rank.rank)))

    @property
    def sampled(self) -> list[RankProfile]:
        """The ranks with samples."""
        return [rank for rank in self.ranks if rank.count]

    @cached_property
    def difference(self) -> tuple[Activity, tuple[RankProfile, ...]] | None:
        """The activity on which at most half of the ranks clearly spend more time, and these ranks.

        Communication does not count: in it, the others wait for them.
        """
        differences: list[tuple[float, Activity, tuple[RankProfile, ...]]] = []
        for activity in Activity:
            usual = self._median_share(activity)
            more = [rank for rank in self.sampled if rank.shares[activity] - usual >= DIFFERS]
            if activity is not Activity.COMMUNICATION and 0 < 2 * len(more) <= len(self.sampled):
                excess = max(rank.shares[activity] for rank in more) - usual
                differences.append((excess, activity, tuple(more)))
        return max(differences, key=lambda difference: difference[0])[1:] if differences else None

    @property
    def different(self) -> tuple[int, ...]:
        """The ranks that differ from the others in their activities, or that hung or were stopped."""
        hung = [rank for rank in self.ranks if rank.is_hung]
        hung = hung if 2 * len(hung) <= len(self.ranks) else []
        busy = self.difference[1] if self.difference else ()
        return tuple(sorted({rank.rank for rank in (*hung, *busy)}))

    def of_most_frequent(self, count: int) -> RunProfile:
        """The profile with the `count` most frequent stacks of each rank."""
        ranks = (
            replace(rank, samples=tuple(nlargest(count, rank.samples, key=lambda sample: sample.count)))
            for rank in self.ranks
        )
        return replace(self, ranks=tuple(ranks))

    @cached_property
    def sentence(self) -> str:
        """The main finding, and advice."""
        if not self.ranks:
            return f"No process of {self.job} was found."
        faults = "; ".join(self._faults)
        if not self.sampled:
            return f"No rank of {self.job} could be sampled: {faults}."
        if self.difference:
            activity, ranks = self.difference
            others = self._others_text(activity, ranks)
        else:
            activity = max(Activity, key=lambda activity: sum(rank.shares[activity] for rank in self.sampled))
            ranks, others = tuple(self.sampled), ""
        is_one = len(ranks) == 1 or not self.difference
        who = (
            named_ranks(rank.rank for rank in ranks).capitalize()
            if self.difference or len(ranks) == 1
            else "Each rank"
            if len(ranks) == len(self.ranks)
            else "Each sampled rank"
        )
        spent, advice = _SPENT[activity]
        share = _percent(sum(rank.shares[activity] for rank in ranks) / len(ranks))
        forms = _ONE if is_one else _SEVERAL
        words, advice = spent.format(share=share, **forms), advice.format(**forms)
        where = next((f", at {location}" for location, _ in ranks[0].lines(activity)), "")
        first = f"{faults[0].upper()}{faults[1:]}. " if faults else ""
        return f"{first}{who} {words}{where}{others}. {advice}."

    def __str__(self) -> str:
        """The sentence, the shares of each rank, and remarks on them."""
        text = "\n".join([self.sentence, "", *_aligned([self.titles, *self.rows]), "", *self.remarks])
        return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)

    __repr__ = __str__

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of `rows`."""
        return ("rank", "node", *(activity.value for activity in Activity), "most at")

    @cached_property
    def rows(self) -> list[tuple[str, ...]]:
        """A row for each rank: the shares of its activities, and its most costly lines."""
        return [
            (
                str(rank.rank),
                rank.node,
                *(_percent(rank.shares[activity]) if rank.count else "" for activity in Activity),
                ", ".join(f"{location} {_percent(share)}" for location, share in rank.lines()),
            )
            for rank in self.ranks
        ]

    @cached_property
    def remarks(self) -> list[str]:
        """How the samples were taken, where they are saved, and what is missing."""
        count = sum(rank.count for rank in self.ranks)
        seconds = max((rank.seconds for rank in self.ranks), default=0.0)
        ways = Counter(rank.way for rank in self.sampled)
        how = "; py-spy on the nodes would sample more often" if ways["signal"] else ""
        by = " and ".join(sorted(ways))
        sampling = [f"{count:,} samples in {seconds:.0f} s, by {by}{how}."] if count else []
        saved = [f"Kept with the run: {', '.join(self.files)}"] if self.files else []
        other = sum(rank.other_count for rank in self.ranks)
        rare = [f"{other:,} more had rarer stacks, which are left out."] if other else []
        return [*sampling, *rare, *self.notes, *saved]

    def to_data(self) -> dict[str, object]:
        """The profile as JSON."""
        return {
            "job": self.job,
            "sentence": self.sentence,
            "different": list(self.different),
            "notes": list(self.notes),
            "files": list(self.files),
            "ranks": [
                {
                    "rank": rank.rank,
                    "node": rank.node,
                    "way": rank.way if rank.count else "",
                    "samples": rank.count,
                    "seconds": round(rank.seconds, 1),
                    "shares": {activity.value: round(share, 4) for activity, share in rank.shares.items()},
                    "lines": [
                        {"place": location, "share": round(share, 4)} for location, share in rank.lines()
                    ],
                }
                for rank in self.ranks
            ],
        }

    def _median_share(self, activity: Activity) -> float:
        return median_low([rank.shares[activity] for rank in self.sampled] or [0.0])

    def _others_text(self, activity: Activity, ranks: Sequence[RankProfile]) -> str:
        """The share of the other ranks, and whether they wait for these ranks in communication."""
        other_shares = [rank.shares[Activity.COMMUNICATION] for rank in self.sampled if rank not in ranks]
        waits = sum(other_shares) / len(other_shares)
        more = waits - max(rank.shares[Activity.COMMUNICATION] for rank in ranks)
        is_one = len(other_shares) == 1
        text = f", the other{'s' * (not is_one)} {_percent(self._median_share(activity))}"
        if more < DIFFERS:
            return text
        return f"{text}, which wait{'s' * is_one} in communication ({_percent(waits)})"

    @property
    def _faults(self) -> list[str]:
        """The ranks without samples, and those that hung for a part of the time; the latter first."""
        ranks_by_fault: dict[str, list[int]] = {}
        for rank in sorted(self.ranks, key=lambda rank: not rank.is_hung):
            if rank.is_hung or not rank.count:
                ranks_by_fault.setdefault(_fault(rank), []).append(rank.rank)
        return [
            f"{named_ranks(ranks)} {fault.format(**_ONE if len(ranks) == 1 else _SEVERAL)}"
            for fault, ranks in ranks_by_fault.items()
        ]


def parse(line: str | bytes, paths: SourcePaths, mask: Callable[[str], str]) -> RankProfile:
    """One line of `stack_dumps` about the samples of a rank."""
    report = parse_json(line)
    samples = []
    for text, is_idle, count in report["stacks"]:
        activity = activity_of(frames_of(text), report["code"], is_idle=is_idle)
        frames = frames_of(mask(paths.text_with_user_paths(text)))
        samples.append(StackSample(frames, count, activity, _location_text(own_frame(frames), paths)))
    return RankProfile(
        rank=report["rank"],
        node=report["node"],
        samples=tuple(samples),
        seconds=report["seconds"],
        way=report["way"],
        stopped_s=report["stopped_s"],
        silent_s=report["silent_s"],
        is_unfinished=report["unfinished"],
        other_count=report["other"],
    )


def activity_of(frames: Sequence[Frame], code: Mapping[str, str], *, is_idle: bool | None) -> Activity:
    """The activity of a process in a stack.

    Everything called by functions that load data or save checkpoints counts as that. Otherwise the innermost
    function of the job's own code counts, and the library functions that it has called.

    Args:
        frames: Its functions, the innermost first.
        code: Lines of code, by `FILE:LINE`.
        is_idle: Whether the processor did not run it; None if that is not known.
    """
    user_frame = own_frame(frames)
    inner = frames[: frames.index(user_frame) + 1] if user_frame else ()
    for activity in (Activity.CHECKPOINT, Activity.INPUT):
        is_at_user_line = user_frame is not None and _is_at(activity, user_frame, code)
        if is_at_user_line or any(_is_in(activity, frame) for frame in frames):
            return activity
    for frame in inner:
        for activity in (Activity.COMMUNICATION, Activity.COMPUTATION):
            if _is_in(activity, frame) or _is_at(activity, frame, code):
                return activity
    if is_idle is None:
        signs = Activity.WAITING
        is_idle = any(_is_in(signs, frame) or _is_at(signs, frame, code) for frame in frames[:1])
    return Activity.WAITING if is_idle else Activity.PYTHON


def _is_in(activity: Activity, frame: Frame) -> bool:
    """Whether a function is one of an activity, by its file or name."""
    signs, name = _SIGNS[activity], frame.function.rpartition(".")[2].lstrip("_")
    if is_library(frame.file):
        return re.search(signs.libraries, frame.file) is not None
    return any(
        re.fullmatch(expression, text)
        for expression, text in (
            (signs.files, frame.file.rpartition("/")[2]),
            (signs.functions, name),
            (signs.functions, frame.function),
        )
    )


def _is_at(activity: Activity, frame: Frame, code: Mapping[str, str]) -> bool:
    """Whether a function is at a line of code of an activity."""
    return bool(re.search(_SIGNS[activity].code, code.get(f"{frame.file}:{frame.line}", "")))


def _location_text(frame: Frame | None, paths: SourcePaths) -> str:
    """`train.py:33`, `src/model.py:3`, `cell line 11`, `line 2 of a cell`; empty without a function."""
    if frame is None:
        return ""
    if _OF_KERNEL.search(frame.file):
        return f"line {frame.line} of a cell"
    location = paths.location(RaisedError("", frame.file, frame.line))
    return location.rpartition("/")[2] if location.startswith("/") else location


def _fault(rank: RankProfile) -> str:
    """Why a rank has no or too few samples: a predicate, with forms for one or several ranks."""
    if rank.is_unfinished and not rank.count:
        return "{was} not sampled: py-spy did not finish"
    if rank.is_hung and rank.stopped_s >= rank.silent_s / 2:
        return f"{{was}} stopped for {rank.stopped_s:.0f} of {rank.seconds:.0f} s, by a signal or a debugger"
    if rank.is_hung:
        return f"hung for {rank.silent_s:.0f} of {rank.seconds:.0f} s and did not answer"
    return "run{s} no Python that can be sampled"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells in columns, all but the names and lines right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if at in (1, last) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
