"""The samples of a run as files: speedscope's JSON, and a flame graph as one SVG without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from batchai_magics.records.rank_profile import Activity, RunProfile
from batchai_magics.records.rank_stacks import Frame

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_COLORS = {
    Activity.INPUT: "#8ab4f8",
    Activity.COMMUNICATION: "#f6aea9",
    Activity.COMPUTATION: "#a8dab5",
    Activity.CHECKPOINT: "#d7aefb",
    Activity.PYTHON: "#fde293",
    Activity.WAITING: "#dadce0",
}
_WIDTH, _ROW, _TOP, _CHAR = 1200, 17, 46, 6.6  # pixels: of the picture, a row, the title, a character
_MIN_WIDTH = 0.6  # of a box that is drawn


def speedscope(profile: RunProfile) -> str:
    """The samples as https://www.speedscope.app reads them: a profile for each rank, weights in seconds."""
    numbers: dict[Frame, int] = {}
    profiles = []
    for rank in profile.sampled:
        stacks = [
            [numbers.setdefault(frame, len(numbers)) for frame in reversed(sample.frames)]
            for sample in rank.samples
        ]
        weights = [round(sample.count / rank.count * rank.seconds, 4) for sample in rank.samples]
        profiles.append(
            {
                "type": "sampled",
                "name": f"rank {rank.rank} ({rank.node})",
                "unit": "seconds",
                "startValue": 0,
                "endValue": round(sum(weights), 4),
                "samples": stacks,
                "weights": weights,
            }
        )
    frames = [{"name": frame.function, "file": frame.file, "line": frame.line} for frame in numbers]
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "name": profile.job,
            "exporter": "batchai-magics",
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        },
        separators=(",", ":"),
    )


@dataclass
class _FlameFrame:
    """A function in a call path, with the seconds that all ranks spent in it, by activity."""

    name: str
    seconds: dict[Activity, float] = field(default_factory=dict)
    inner: dict[str, _FlameFrame] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The seconds in it."""
        return sum(self.seconds.values())

    @property
    def depth(self) -> int:
        """The number of rows that it needs."""
        return 1 + max((box.depth for box in self.inner.values()), default=0)

    def add(self, names: Sequence[str], activity: Activity, seconds: float) -> None:
        """Adds a stack, from the function called by this one."""
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds
        if names:
            self.inner.setdefault(names[0], _FlameFrame(names[0])).add(names[1:], activity, seconds)


def flame_graph(profile: RunProfile) -> str:
    """The samples of all ranks as an SVG: callers above, as wide as their time, coloured by activity.

    It needs no script: the tooltip of a box names its function and share.
    """
    root = _FlameFrame(profile.job)
    for rank in profile.sampled:
        for sample in rank.samples:
            names = [f"rank {rank.rank}", *map(str, reversed(sample.frames))]
            root.add(names, sample.activity, sample.count / rank.count * rank.seconds)
    height = _TOP + root.depth * _ROW + 8
    legend = (
        f'<rect x="{8 + index * 130}" y="26" width="12" height="12" fill="{color}"/>'
        f'<text x="{24 + index * 130}" y="36">{activity.value}</text>'
        for index, (activity, color) in enumerate(_COLORS.items())
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
            f' height="{height}" font-family="monospace" font-size="11">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="8" y="16" font-weight="bold">{_safe(profile.sentence, _WIDTH - 16)}</text>',
            *legend,
            *_drawn(root, x=4.0, y=_TOP, scale=(_WIDTH - 8) / (root.total or 1.0), total=root.total),
            "</svg>\n",
        ]
    )


def _drawn(box: _FlameFrame, *, x: float, y: float, scale: float, total: float) -> Iterator[str]:
    """A box and those in it, as elements."""
    width = box.total * scale
    if width < _MIN_WIDTH:
        return
    activity = max(box.seconds, key=lambda activity: box.seconds[activity])
    share = f"{box.name}: {box.total / total:.1%} of the time, {box.total:.2f} s"
    yield (
        f'<g><title>{_safe(share)}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.3):.1f}"'
        f' height="{_ROW - 1}" fill="{_COLORS[activity]}"/>'
        f'<text x="{x + 3:.1f}" y="{y + _ROW - 5}">{_safe(box.name, width - 6)}</text></g>'
    )
    for inner in box.inner.values():
        yield from _drawn(inner, x=x, y=y + _ROW, scale=scale, total=total)
        x += inner.total * scale


def _safe(text: str, width: float = float("inf")) -> str:
    """A text escaped for XML, cut to a width in pixels."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    if len(clean) * _CHAR > width:
        clean = f"{clean[: max(0, int(width / _CHAR) - 1)]}…" if width > 3 * _CHAR else ""
    return escape(clean)
