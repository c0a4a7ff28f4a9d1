"""The Python stacks of a job's ranks, and which ranks differ from the others."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from batchai_magics.records.job_error import NO_PATHS, SourcePaths, is_library
from batchai_magics.untrusted_files import parse_json

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')
_CURRENT = "Current thread"
SAMPLE_PAUSE_S = 2.0  # between two samples: a rank whose stack has changed does not hang
# files that start a job's script, whose frames are left out
_LAUNCHERS = ("run_script.py", "run_cell.py", "run_function.py")


class Frame(NamedTuple):
    """A function that a process executes, and its current line."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({PurePath(self.file).name}:{self.line})"


@dataclass(frozen=True)
class RankStack:
    """The stack of a rank, innermost function first; no frames if it has no Python that writes its stacks.

    `text` is faulthandler's output, with all threads of the process; it is empty if the process `is_stopped`,
    by a signal or a debugger.
    """

    rank: int
    node: str
    frames: tuple[Frame, ...] = ()
    text: str = ""
    is_stopped: bool = False

    @property
    def user_frame(self) -> Frame | None:
        """The innermost function of the job's own code, or else of all."""
        return own_frame(self.frames)


@dataclass(frozen=True)
class RankStacks:
    """The stacks of a job's ranks at one time."""

    job: str
    ranks: tuple[RankStack, ...]

    @classmethod
    def of_lines(cls, job: str, lines: Iterable[str | bytes], paths: SourcePaths = NO_PATHS) -> RankStacks:
        """Reads the lines of `stack_dumps`; paths in the job's copy become the user's own."""
        ranks = (parse(line, paths) for line in lines)
        return cls(job, tuple(sorted(ranks, key=lambda rank: rank.rank)))

    @cached_property
    def groups(self) -> tuple[tuple[RankStack, ...], ...]:
        """Ranks whose own code is in the same function, or if all are, at the same line; the smallest first.

        Library frames below that line and the callers of the function are ignored.
        """
        lines = [rank.user_frame or rank.is_stopped for rank in self.ranks]
        functions = [(line.file, line.function) if isinstance(line, Frame) else line for line in lines]
        keys: Sequence[object] = functions if len(set(functions)) > 1 else lines
        counts = Counter(keys)
        return tuple(
            tuple(rank for rank, rank_key in zip(self.ranks, keys, strict=True) if rank_key == key)
            for key in sorted(counts, key=lambda key: counts[key])
        )

    @property
    def frames_by_rank(self) -> tuple[tuple[Frame, ...], ...]:
        """The frames of each rank."""
        return tuple(rank.frames for rank in self.ranks)

    @property
    def different(self) -> tuple[int, ...]:
        """The ranks outside of the group with more than half of all ranks; empty without such a group."""
        *smaller_groups, most = self.groups or ((),)
        is_most = len(most) * 2 > len(self.ranks)
        return tuple(sorted(rank.rank for group in smaller_groups for rank in group)) if is_most else ()

    @property
    def sentence(self) -> str:
        """The summary of the stacks, in one sentence."""
        if not self.ranks:
            return f"No process of {self.job} was found."
        clauses = []
        for group in self.groups:
            frame, verb = group[0].user_frame, "is" if len(group) == 1 else "are"
            where = f"{verb} in {frame}" if frame else f"run{'s' * (len(group) == 1)} no Python to ask"
            if group[0].is_stopped:
                where = f"{verb} stopped (by a signal or a debugger)"
            clauses.append(f"{named_ranks(group)} {where}")
        parts = "; ".join(clauses)
        if len(self.groups) == 1:
            return f"{parts[0].upper()}{parts[1:]}."
        if not self.different:
            return f"The ranks are at different places: {parts}."
        verb = "differs" if len(self.different) == 1 else "differ"
        return f"{named_ranks(self.different).capitalize()} {verb} from the others: {parts}."

    @property
    def finding(self) -> str:
        """The sentence, if any rank could be asked; else empty."""
        return self.sentence if any(rank.frames or rank.is_stopped for rank in self.ranks) else ""

    def __str__(self) -> str:
        """The sentence, then the stack of each group."""
        lines = [self.sentence]
        for group in self.groups:
            nodes = ", ".join(sorted({rank.node for rank in group}))
            reason = "its Python is stopped" if group[0].is_stopped else "no Python process that can be asked"
            frames = [f"  {frame.file}:{frame.line} in {frame.function}" for frame in group[0].frames]
            lines += ["", f"{named_ranks(group).capitalize()} on {nodes}:", *(frames or [f"  {reason}"])]
        text = "\n".join(lines)
        return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)

    __repr__ = __str__

    def to_data(self) -> dict[str, object]:
        """The stacks as JSON."""
        return {
            "job": self.job,
            "sentence": self.sentence,
            "different": list(self.different),
            "ranks": [
                {
                    "rank": rank.rank,
                    "node": rank.node,
                    "frames": [frame._asdict() for frame in rank.frames],
                    "text": rank.text,
                }
                for rank in self.ranks
            ],
        }


def duration_text(seconds: float) -> str:
    """A time without output: `15 minutes`."""
    if seconds < 60:
        return f"{seconds:g} s"
    minutes = seconds / 60
    return f"{minutes:g} minute{'s' * (minutes != 1)}"


def standstill_finding(
    sample: Callable[[], RankStacks], *, is_idle: bool, pause_s: float = SAMPLE_PAUSE_S
) -> str | None:
    """Where the ranks of a silent job are, empty if that is unknown; None if the job works.

    A job works unless its processors are idle or its stacks are equal in two samples. `sample` collects the
    stacks; it returns no ranks if that is impossible.
    """
    stacks = sample()
    if is_idle:
        return stacks.finding
    if not stacks.finding:
        return None
    time.sleep(pause_s)
    return stacks.finding if sample().frames_by_rank == stacks.frames_by_rank else None


def parse(line: str | bytes, paths: SourcePaths = NO_PATHS) -> RankStack:
    """One line of `stack_dumps`."""
    data = parse_json(line)
    text = paths.text_with_user_paths(data["text"])
    return RankStack(data["rank"], data["node"], frames_of(text), text, bool(data.get("stopped")))


def frames_of(text: str) -> tuple[Frame, ...]:
    """The frames of the thread that took the signal, the main one, without those that start the script."""
    _, _, current = text.rpartition(_CURRENT)
    block = current.partition("\n\n")[0].splitlines()[1:]
    matches = (_FRAME.match(line) for line in block)
    frames = [Frame(m["file"], int(m["line"]), m["function"]) for m in matches if m]
    while len(frames) > 1 and PurePath(frames[-1].file).name in _LAUNCHERS:
        frames.pop()
    return tuple(frames)


def own_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost function of the job's own code, or else of all; None without any."""
    user_frames = (frame for frame in frames if not is_library(frame.file))
    return next(user_frames, frames[0] if frames else None)


def named_ranks(ranks: Iterable[RankStack | int]) -> str:
    """`rank 3`, `ranks 0, 2`."""
    numbers = [str(rank.rank if isinstance(rank, RankStack) else rank) for rank in ranks]
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(numbers)}"
